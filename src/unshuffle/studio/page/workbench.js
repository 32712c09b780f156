// A page on which something is solved: what goes in, a stage to watch, what the solver tells, what comes out.
import { address, ask, listen, mine, Refused, upload } from "./session.js";
import { chart, colour, el, matrix, reduced, short } from "./draw.js";

const FRAMES_A_SECOND = 14;  // at least so fast; more where many wait to be shown
const MOST_FRAMES = 1200;  // that are kept to go back to
const LAST_MOVE = 0.9;  // seconds from the last frame to what was found

export class Workbench {
  // view: {ratio(), given(about, job), draw(context, size, from, to, share, options), end(result) -> frame, label(result)}
  constructor(root, { task, title, lead, fields = [], takes = null, several = false, what = "", examples = [], view, note = "" }) {
    Object.assign(this, { task, view, several, what });
    this.job = this.about = this.result = null;
    this.frames = [];
    this.at = 0;
    this.state = "idle";
    this.uploads = null;
    this.example = examples[0] ?? null;
    this.fields = fields;
    this.build(root, title, lead, takes, examples, note);
    this.forget = listen((event) => this.hear(event));
    this.alive = true;
    this.tick = this.tick.bind(this);
    this.show();
    requestAnimationFrame(this.tick);
    this.resized = () => { this.stale = true; };
    addEventListener("resize", this.resized);
  }

  close() {
    this.alive = false;
    this.forget();
    removeEventListener("resize", this.resized);
    if (this.running) this.say({ say: "stop" }).catch(() => {});
  }

  get running() { return ["waiting", "running", "paused"].includes(this.state); }

  build(root, title, lead, takes, examples, note) {
    this.canvas = el("canvas", { role: "img", "aria-label": "Nothing yet" });
    this.soft = el("canvas", { class: "small", role: "img", "aria-label": "The soft permutation" });
    this.chart = el("canvas", { class: "small", role: "img", "aria-label": "Energy and entropy against time" });
    this.status = el("p", { class: "status", role: "status", "aria-live": "polite" });
    this.timeline = el("input", { type: "range", min: "0", max: "0", step: "any", value: "0", "aria-label": "Moment of the run", disabled: true, oninput: () => this.scrub() });
    this.numbers = el("dl", { class: "numbers" });
    this.startButton = el("button", { class: "main", type: "button", id: "start", onclick: () => this.start() }, "Start");
    this.pauseButton = el("button", { type: "button", id: "pause", disabled: true, onclick: () => this.pause() }, "Pause");
    this.stopButton = el("button", { type: "button", id: "stop", disabled: true, onclick: () => this.stop() }, "Stop");
    this.sure = el("input", { type: "checkbox", id: "sure", onchange: () => { this.stale = true; } });
    this.said = el("p", { class: "said", id: "said" });
    this.command = el("pre", { id: "command", tabindex: "0" });
    this.download = el("a", { class: "button", id: "download", download: "unshuffled.zip" }, "Download everything");
    this.outcome = el("section", { class: "card stack", hidden: true, "aria-label": "Result" }, el("h2", {}, "What came out"), this.said, this.view.extra ? this.view.extra(this) : null, el("div", { class: "row" }, this.download));
    this.spoken = el("section", { class: "card", hidden: true, "aria-label": "Command line" }, el("h2", {}, "The same on the command line"),
      el("div", { class: "command" }, this.command, el("button", { type: "button", onclick: (event) => this.copy(event.target) }, "Copy")));
    const controls = el("section", { class: "card stack controls", "aria-label": "Settings" },
      takes ? this.dropZone(takes) : null,
      examples.length ? el("div", {}, el("h2", {}, "Or an example"), el("div", { class: "row" }, this.chips = examples.map((name) => el("button", { type: "button", class: "chip", onclick: () => this.choose(name) }, name)))) : null,
      ...this.fields.map((field) => field.build()),
      el("div", { class: "buttons" }, this.startButton, this.pauseButton, this.stopButton),
      el("label", { class: "check" }, this.sure, "Show how sure it is"));
    root.replaceChildren(el("h1", {}, title), el("p", { class: "lead" }, lead),
      el("div", { class: "bench" }, controls,
        el("div", { class: "stack middle" },
          el("section", { class: "card stage", "aria-label": "Stage" }, this.canvas, note ? el("p", { class: "words" }, note) : null,
            el("div", { class: "timeline" }, this.timeline), this.status),
          this.outcome, this.spoken),
        el("div", { class: "stack side" },
          el("section", { class: "card" }, el("h2", {}, "Soft permutation"), this.soft),
          el("section", { class: "card" }, el("h2", {}, "Energy and entropy"), this.chart,
            el("div", { class: "legend" }, el("span", {}, this.key("--accent"), "energy"), el("span", {}, this.key("--warm"), "entropy")), this.numbers))));
    this.press();
  }

  key(name) {
    const mark = el("i");
    mark.style.background = `var(${name})`;
    return mark;
  }

  dropZone(takes) {
    const words = this.several ? "Drop files, or choose" : "Drop a file, or choose";
    this.chosen = el("b", { id: "chosen" }, words);
    const input = el("input", { type: "file", id: "file", multiple: this.several, accept: takes.map((t) => "." + t).join(","), onchange: () => this.take([...input.files]) });
    const zone = el("label", { class: "drop" }, input, this.chosen, this.what || takes.slice(0, 5).join(", "));
    zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => { event.preventDefault(); zone.classList.remove("over"); this.take([...event.dataTransfer.files]); });
    return zone;
  }

  press() { this.chips?.forEach((chip) => chip.setAttribute("aria-pressed", String(chip.textContent === this.example))); }

  choose(name) {
    this.example = name;
    this.uploads = null;
    if (this.chosen) this.chosen.textContent = this.several ? "Drop files, or choose" : "Drop a file, or choose";
    this.view.points?.clear();
    this.press();
    if (!this.running) this.start();
  }

  async take(files) {
    if (!files.length) return;
    this.example = null;
    this.press();
    this.view.points?.clear();
    this.tell(`Reading ${files.length === 1 ? files[0].name : files.length + " files"} …`);
    try {
      const uploads = [];
      for (const file of files) uploads.push(await upload(file));
      this.uploads = uploads;
      this.chosen.textContent = files.length === 1 ? files[0].name : `${files.length} files`;
      this.tell("Ready: press Start.");
      this.view.uploaded?.(this, files);
    } catch (error) { this.fail(error); }
  }

  tell(words) {
    this.status.setAttribute("aria-live", this.state === "running" ? "off" : "polite");  // stages change too fast to be read out
    this.status.classList.remove("bad");
    this.status.textContent = words;
  }

  fail(error) {
    this.status.setAttribute("aria-live", "assertive");
    this.status.classList.add("bad");
    this.status.textContent = error instanceof Refused || typeof error === "string" ? String(error.message ?? error) : `Something is wrong with this page: ${error.message}`;
    this.state = "idle";
    this.buttons();
  }

  options() {
    const options = {};
    for (const field of this.fields) {
      const value = field.value();
      if (value !== undefined) options[field.name] = value;
    }
    return options;
  }

  asked() {
    const points = this.view.points?.own();
    const what = points ? { points } : this.uploads ? { files: this.uploads } : { example: this.example };
    return { task: this.task, options: this.options(), ...what };
  }

  async start() {
    if (!this.view.points?.own() && !this.uploads && !this.example && !this.view.nothing) { this.fail("Drop something first, or take an example."); return; }
    this.frames = [];
    this.at = 0;
    this.about = this.result = null;
    this.outcome.hidden = this.spoken.hidden = true;
    this.state = "waiting";
    this.began = performance.now();
    this.buttons();
    this.tell("Starting …");
    this.early = [];
    this.job = null;
    try {
      this.job = (await ask(mine("jobs"), this.asked())).job;
      const early = this.early;
      this.early = null;
      for (const event of early) this.hear(event);
    } catch (error) { this.early = null; this.fail(error); }
  }

  say(what) { return ask(mine(`jobs/${this.job}/say`), what); }

  async stop() {
    this.tell("Stopping; the best so far is kept …");
    await this.say({ say: "stop" }).catch((error) => this.fail(error));
  }

  async pause() {
    const on = this.state === "paused";
    await this.say({ say: on ? "go on" : "pause" }).then(() => { this.state = on ? "running" : "paused"; this.buttons(); }, (error) => this.fail(error));
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
    const heard = {
      waiting: () => this.tell(`Waiting: ${event.before} before this one.`),
      begun: () => { this.state = "running"; this.buttons(); },
      command: () => { this.command.textContent = event.text; this.spoken.hidden = false; },
      given: () => this.given(event),
      stage: () => this.tell(`${event.stage} …`),
      frame: () => this.frame(event),
      done: () => this.done(event),
      failed: () => { this.fail(event.sentence); },
    }[event.event];
    heard?.();
  }

  given(event) {
    this.about = event;
    this.frames = [];
    this.at = 0;
    this.earlier = 0;
    this.view.given(event, (number) => address(mine(`jobs/${this.job}/shown/${number}`)), () => { this.stale = true; });
  }

  frame(event) {
    const last = this.frames[this.frames.length - 1];
    if (last && event.seconds !== undefined && event.seconds + (this.earlier ?? 0) < last.seconds) this.earlier = last.seconds;  // a second solve, after the rows the columns
    this.frames.push({ ...event, seconds: event.seconds + (this.earlier ?? 0) });
    if (this.frames.length > MOST_FRAMES) {  // a long run: every second one will do
      this.frames = this.frames.filter((_, k) => k % 2 === 0);
      this.at /= 2;
    }
  }

  done(event) {
    this.result = event;
    const last = this.about ? this.view.end(event) : null;
    if (last) this.frames.push({ ...this.lastNumbers(), ...last, final: true });
    this.state = "done";
    this.buttons();
    this.said.textContent = event.said.trim();
    this.download.href = address(mine(`jobs/${this.job}/unshuffled.zip`));
    this.outcome.hidden = false;
    this.view.results?.(event, (file) => address(mine(`jobs/${this.job}/results/${file}`)));
    this.tell(`Done in ${((performance.now() - this.began) / 1000).toFixed(1)} s.`);
    if (this.about) this.canvas.setAttribute("aria-label", this.view.label(event));
  }

  lastNumbers() {
    const last = this.frames[this.frames.length - 1] ?? {};
    return { ...last, stage: "found" };
  }

  scrub() {
    this.at = Number(this.timeline.value);
    this.held = true;
    this.stale = true;
  }

  tick(now) {
    if (!this.alive) return;
    const passed = Math.min(0.1, (now - (this.before ?? now)) / 1000), end = this.frames.length - 1;
    this.before = now;
    if (this.held && this.at >= end) this.held = false;
    if (!this.held && this.at < end) {
      const waiting = end - this.at, last = this.frames[end].final && waiting <= 1;
      const speed = reduced() ? Infinity : last ? 1 / LAST_MOVE : Math.max(FRAMES_A_SECOND, waiting * 2.5);
      this.at = Math.min(end, this.at + speed * passed);
      this.stale = true;
    }
    if (this.stale) this.show();
    requestAnimationFrame(this.tick);
  }

  show() {
    this.stale = false;
    const low = Math.floor(this.at), high = Math.min(low + 1, Math.max(0, this.frames.length - 1));
    const from = this.frames[low], to = this.frames[high];
    this.view.paint(this.canvas, from, to, this.at - low, { sure: this.sure.checked, about: this.about, result: this.result });
    const now = this.at - low > 0.5 ? to : from;
    matrix(this.soft, now?.soft);
    this.timeline.max = String(Math.max(0, this.frames.length - 1));
    this.timeline.value = String(this.at);
    this.timeline.disabled = this.frames.length < 2;
    const line = (key) => this.frames.filter((f) => f.seconds !== undefined && f[key] !== undefined).map((f) => [f.seconds, f[key]]);
    const entropies = line("entropy"), most = Math.max(1, ...entropies.map((v) => v[1]));
    chart(this.chart, [{ values: line("energy"), colour: colour("--accent") }, { values: entropies, colour: colour("--warm"), low: 0, high: most }], 0.62, now?.seconds ?? null);
    this.list(now);
    if (this.state === "running" && now?.stage) this.tell(now.stage + (now.done > 0 && now.done < 1 ? `, ${Math.round(100 * now.done)} %` : ""));
    if (this.state === "paused") this.tell("Paused.");
  }

  list(now) {
    const rows = now ? { energy: short(now.energy), entropy: short(now.entropy), beta: short(now.beta), seconds: now.seconds === undefined ? "–" : now.seconds.toFixed(2) } : {};
    this.numbers.replaceChildren(...Object.entries(rows).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]));
  }

  async copy(button) {
    try { await navigator.clipboard.writeText(this.command.textContent); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(this.command); button.textContent = "Selected"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
}

// --- fields ----------------------------------------------------------------------------------------------------------

// `omit`: the value that the command has anyhow, which its line need not say.
export function number(name, label, { value = "", min, max, step = "any", placeholder = "", omit } = {}) {
  const input = el("input", { type: "number", id: name, min: String(min), max: String(max), step: String(step), placeholder });
  input.value = value;
  return { name, build: () => el("label", { class: "field" }, el("span", {}, label), input), value: () => (input.value === "" || Number(input.value) === omit ? undefined : Number(input.value)), input };
}

export function check(name, label, value = false) {
  const input = el("input", { type: "checkbox", id: name });
  input.checked = value;
  return { name, build: () => el("label", { class: "check" }, input, label), value: () => (input.checked ? true : undefined), input };
}

export function choice(name, label, options) {
  const input = el("select", { id: name }, ...Object.entries(options).map(([value, words]) => el("option", { value }, words)));
  return { name, build: () => el("label", { class: "field" }, el("span", {}, label), input), value: () => input.value || undefined, input };
}

export function grid(name, width, height) {
  const across = el("input", { type: "number", id: "across", min: "1", max: "99", "aria-label": "Tiles across" });
  const down = el("input", { type: "number", id: "down", min: "1", max: "99", "aria-label": "Tiles down" });
  across.value = width;
  down.value = height;
  return {
    name,
    build: () => el("div", { class: "field" }, el("span", {}, "Tiles across and down (empty: find out)"), el("div", { class: "pair" }, across, down)),
    value: () => (across.value && down.value ? `${Number(across.value)}x${Number(down.value)}` : "auto"),
  };
}
