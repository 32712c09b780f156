// Train sorting live: the same lists and first weights, three temperatures, an epoch of each in turn.
import { address, ask, listen, mine, Refused } from "./session.js";
import { chart, colour, el, matrix, short } from "./draw.js";
import { choice, number } from "./workbench.js";

const NAMES = {
  global: ["global", "one inverse temperature for all entries, annealed"],
  adaptive: ["adaptive", "a field: rows and columns that are undecided are kept warmer"],
  entropy: ["entropy", "the sharpness is led to a target entropy; the noise keeps its size"],
};
const COLOURS = { global: "--soft", adaptive: "--warm", entropy: "--accent" };

export class Learn {
  constructor(root) {
    this.fields = [number("n", "Numbers in a list", { value: 16, min: 3, max: 40, step: 1 }), number("epochs", "Epochs", { value: 16, min: 1, max: 60, step: 1 }),
      number("seed", "Seed", { value: 0, min: 0, max: 2 ** 31, step: 1 }), choice("recipe", "Recipe", { paper: "the paper's", strong: "what we recommend" })];
    this.state = "idle";
    this.build(root);
    this.forget = listen((event) => this.hear(event));
    this.resized = () => this.show();
    addEventListener("resize", this.resized);
    this.reset();
    this.show();
  }

  close() {
    this.forget();
    removeEventListener("resize", this.resized);
    if (this.running) ask(mine(`jobs/${this.job}/say`), { say: "stop" }).catch(() => {});
  }

  get running() { return this.state !== "idle"; }

  reset() {
    this.told = Object.fromEntries(Object.keys(NAMES).map((name) => [name, []]));
    this.at = null;
  }

  build(root) {
    const small = (label) => el("canvas", { class: "small", role: "img", "aria-label": label });
    this.cards = Object.fromEntries(Object.entries(NAMES).map(([name, [title, words]]) => [name, { soft: small(`P of one list, ${title}`), field: small(`Temperature field, ${title}`), numbers: el("dl", { class: "numbers", id: `numbers-${name}` }), title, words }]));
    this.startButton = el("button", { class: "main", type: "button", id: "start", onclick: () => this.start() }, "Start");
    this.pauseButton = el("button", { type: "button", id: "pause", disabled: true, onclick: () => this.pause() }, "Pause");
    this.stopButton = el("button", { type: "button", id: "stop", disabled: true, onclick: () => this.say("stop") }, "Stop");
    this.status = el("p", { class: "status", role: "status", "aria-live": "polite" });
    this.tau = small("Kendall tau on unseen lists, by epoch");
    this.entropy = small("Mean row entropy, by epoch; dashed: the target");
    this.timeline = el("input", { type: "range", min: "1", max: "1", step: "1", value: "1", disabled: true, "aria-label": "Epoch", oninput: () => { this.at = Number(this.timeline.value); this.show(); } });
    this.command = el("pre", { id: "command", tabindex: "0" });
    this.said = el("p", { class: "said", id: "said" });
    this.download = el("a", { class: "button", id: "download", download: "unshuffled.zip" }, "Download everything");
    this.outcome = el("section", { class: "card stack", hidden: true, "aria-label": "Result" }, el("h2", {}, "What came out"), this.said, el("div", { class: "row" }, this.download));
    this.spoken = el("section", { class: "card", hidden: true, "aria-label": "Command line" }, el("h2", {}, "The same on the command line"), el("div", { class: "command" }, this.command));
    const key = (name) => { const mark = el("i"); mark.style.background = `var(${COLOURS[name]})`; return el("span", {}, mark, name); };
    root.replaceChildren(el("h1", {}, "Learn to sort"), el("p", { class: "lead" }, "A network learns to sort numbers without ever seeing a sorted list: it only feels how far from increasing its soft order is. Three ways to set the temperature, on the same lists, from the same first weights."),
      el("div", { class: "stack" },
        el("section", { class: "card stack", "aria-label": "Settings" }, el("div", { class: "row" }, ...this.fields.map((f) => f.build())), el("div", { class: "row" }, this.startButton, this.pauseButton, this.stopButton), el("div", { class: "timeline" }, this.timeline), this.status),
        el("div", { class: "three" }, ...Object.values(this.cards).map((card) => el("section", { class: "card", "aria-label": card.title }, el("h2", {}, card.title), el("p", { class: "words" }, card.words),
          el("div", { class: "pair" }, el("div", {}, card.soft), el("div", {}, card.field)), el("div", { class: "legend" }, el("span", {}, "P of one unseen list"), el("span", {}, "temperature field")), card.numbers))),
        el("div", { class: "three" },
          el("section", { class: "card" }, el("h2", {}, "Kendall tau on unseen lists"), this.tau, el("div", { class: "legend" }, ...Object.keys(NAMES).map(key))),
          el("section", { class: "card" }, el("h2", {}, "Mean row entropy (dashed: target)"), this.entropy, el("div", { class: "legend" }, ...Object.keys(NAMES).map(key))),
          el("div", { class: "stack" }, this.outcome, this.spoken))));
  }

  async start() {
    this.reset();
    this.state = "waiting";
    this.outcome.hidden = this.spoken.hidden = true;
    this.buttons();
    this.status.classList.remove("bad");
    this.status.textContent = "Starting …";
    const options = Object.fromEntries(this.fields.map((f) => [f.name, f.value()]).filter(([, value]) => value !== undefined));
    this.job = null;
    this.early = [];
    try {
      this.job = (await ask(mine("jobs"), { task: "learn", options })).job;
      const early = this.early;
      this.early = null;
      early.forEach((event) => this.hear(event));
    } catch (error) { this.early = null; this.fail(error instanceof Refused ? error.message : String(error)); }
  }

  async say(what) { await ask(mine(`jobs/${this.job}/say`), { say: what }).catch((error) => this.fail(error.message)); }

  async pause() {
    const on = this.state === "paused";
    await this.say(on ? "go on" : "pause");
    this.state = on ? "running" : "paused";
    this.buttons();
  }

  fail(sentence) {
    this.state = "idle";
    this.buttons();
    this.status.classList.add("bad");
    this.status.textContent = sentence;
  }

  buttons() {
    this.startButton.disabled = this.running;
    this.pauseButton.disabled = !["running", "paused"].includes(this.state);
    this.pauseButton.textContent = this.state === "paused" ? "Go on" : "Pause";
    this.stopButton.disabled = !this.running;
  }

  hear(event) {
    if (event.event === "lost") { this.fail(event.sentence); return; }
    if (this.early && !this.job) { this.early.push(event); return; }
    if (event.job !== this.job) return;
    if (event.event === "waiting") this.status.textContent = `Waiting: ${event.before} before this one.`;
    if (event.event === "begun") { this.state = "running"; this.buttons(); }
    if (event.event === "command") { this.command.textContent = event.text; this.spoken.hidden = false; }
    if (event.event === "failed") this.fail(event.sentence);
    if (event.event === "frame") {
      this.told[event.which].push(event);
      this.status.textContent = `Epoch ${event.epoch} of ${event.epochs}, ${event.which}.`;
      this.timeline.max = String(event.epoch);
      this.timeline.disabled = false;
      if (this.at === null) this.timeline.value = String(event.epoch);
      this.show();
    }
    if (event.event === "done") {
      this.state = "idle";
      this.buttons();
      this.said.textContent = event.said;
      this.download.href = address(mine(`jobs/${this.job}/unshuffled.zip`));
      this.outcome.hidden = false;
      this.status.textContent = "Done.";
    }
  }

  show() {
    const lines = (key, dash) => Object.keys(NAMES).map((name) => ({ values: this.told[name].filter((f) => f[key] !== null && f[key] !== undefined).map((f) => [f.epoch, f[key]]), colour: colour(COLOURS[name]), dash, low: key === "tau" ? undefined : 0, high: key === "tau" ? undefined : 1 }));
    const taus = lines("tau"), all = taus.flatMap((l) => l.values.map((v) => v[1]));
    const low = Math.min(...all, 0.95) - 0.02, high = 1;
    chart(this.tau, taus.map((l) => ({ ...l, low, high })), 0.6, this.at);
    chart(this.entropy, [...lines("entropy"), ...lines("target", [4, 4])], 0.6, this.at);
    for (const [name, card] of Object.entries(this.cards)) {
      const told = this.told[name], now = this.at === null ? told[told.length - 1] : told.find((f) => f.epoch === this.at) ?? told[told.length - 1];
      matrix(card.soft, now?.soft);
      matrix(card.field, now?.field, "viridis");
      const range = now?.field_range, rows = now ? { epoch: now.epoch, "Kendall tau": short(now.tau), entropy: short(now.entropy), target: short(now.target), beta: range[0] === range[1] ? short(range[0]) : `${short(range[0])} – ${short(range[1])}`, loss: short(now.loss) } : {};
      card.numbers.replaceChildren(...Object.entries(rows).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, String(value))]));
    }
  }
}
