// Train sorting live: the same lists and first weights, three temperatures, an epoch of each in turn.
import { chart, colour, el, matrix, short } from "./draw.js";
import { choice, number, values } from "./fields.js";
import { Run } from "./run.js";

const NAMES = {
  global: ["global", "one inverse temperature for all entries, annealed"],
  adaptive: ["adaptive", "a field: rows and columns that are undecided are kept warmer"],
  entropy: ["entropy", "the sharpness is led to a target entropy; the noise keeps its size"],
};
const COLOURS = { global: "--soft", adaptive: "--warm", entropy: "--accent" };

export class Learn extends Run {
  constructor(root) {
    super("learn");
    this.fields = [number("n", "Numbers in a list", { value: 16, min: 3, max: 40, step: 1 }), number("epochs", "Epochs", { value: 16, min: 1, max: 60, step: 1 }),
      number("seed", "Seed", { value: 0, min: 0, max: 2 ** 31, step: 1 }), choice("recipe", "Recipe", [["paper", "the paper's"], ["strong", "what we recommend"]])];
    this.build(root);
    this.resized = () => this.show();
    addEventListener("resize", this.resized);
    this.reset();
    this.show();
  }

  close() {
    super.close();
    removeEventListener("resize", this.resized);
  }

  reset() {
    this.told = Object.fromEntries(Object.keys(NAMES).map((name) => [name, []]));
    this.at = null;
  }

  build(root) {
    const small = (label) => el("canvas", { class: "small", role: "img", "aria-label": label });
    this.cards = Object.fromEntries(Object.entries(NAMES).map(([name, [title, words]]) => [name, { soft: small(`P of one list, ${title}`), field: small(`Temperature field, ${title}`), numbers: el("dl", { class: "numbers", id: `numbers-${name}` }), title, words }]));
    this.tau = small("Kendall tau on unseen lists, by epoch");
    this.entropy = small("Mean row entropy, by epoch; dashed: the target");
    this.timeline = el("input", { type: "range", min: "1", max: "1", step: "1", value: "1", disabled: true, "aria-label": "Epoch", oninput: () => { this.at = Number(this.timeline.value); this.show(); } });
    const key = (name) => { const mark = el("i"); mark.style.background = `var(${COLOURS[name]})`; return el("span", {}, mark, name); };
    const legend = () => el("div", { class: "legend" }, ...Object.keys(NAMES).map(key));
    const under = (canvas, words) => el("figure", {}, canvas, el("figcaption", {}, words));
    root.replaceChildren(el("h1", {}, "Learn to sort"), el("p", { class: "lead" }, "A network learns to sort numbers without ever seeing a sorted list: it only feels how far from increasing its soft order is. Three ways to set the temperature, on the same lists, from the same first weights."),
      el("div", { class: "stack" },
        el("section", { class: "card stack", "aria-label": "Settings" }, el("div", { class: "row" }, ...this.fields.map((f) => f.build())), el("div", { class: "row" }, this.startButton, this.pauseButton, this.stopButton), el("div", { class: "timeline" }, this.timeline), this.status),
        el("div", { class: "three" }, ...Object.values(this.cards).map((card) => el("section", { class: "card", "aria-label": card.title }, el("h2", {}, card.title), el("p", { class: "words" }, card.words),
          el("div", { class: "pair" }, under(card.soft, "P of one unseen list"), under(card.field, "temperature field")), card.numbers))),
        el("div", { class: "halves" },
          el("section", { class: "card" }, el("h2", {}, "Kendall tau on unseen lists"), this.tau, legend()),
          el("section", { class: "card" }, el("h2", {}, "Mean row entropy (dashed: target)"), this.entropy, legend())),
        this.results(), this.line()));
  }

  asked() { return { task: this.task, options: values(this.fields) }; }

  async start() {
    this.reset();
    this.show();
    await super.start();
  }

  frame(event) {
    this.told[event.which].push(event);
    this.tell(`Epoch ${event.epoch} of ${event.epochs}, ${event.which}.`);
    this.timeline.max = String(event.epoch);
    this.timeline.disabled = false;
    if (this.at === null) this.timeline.value = String(event.epoch);
    this.show();
  }

  show() {
    const known = (name, key) => this.told[name].filter((f) => typeof f[key] === "number").map((f) => [f.epoch, f[key]]);
    const lines = (key, low, high, dash) => Object.keys(NAMES).map((name) => ({ values: known(name, key), colour: colour(COLOURS[name]), dash, low, high, side: "left", ink: colour("--soft") }));
    const taus = Object.keys(NAMES).flatMap((name) => known(name, "tau").map((v) => v[1]));
    chart(this.tau, lines("tau", Math.floor(20 * Math.min(...taus, 0.95)) / 20, 1), 0.5, this.at, "epochs");
    chart(this.entropy, [...lines("entropy", 0, 1), ...lines("target", 0, 1, [4, 4])], 0.5, this.at, "epochs");
    for (const [name, card] of Object.entries(this.cards)) {
      const told = this.told[name], now = this.at === null ? told[told.length - 1] : told.find((f) => f.epoch === this.at) ?? told[told.length - 1];
      matrix(card.soft, now?.soft);
      matrix(card.field, now?.field, "viridis");
      const range = now?.field_range, rows = now ? { epoch: now.epoch, "Kendall tau": short(now.tau), entropy: short(now.entropy), target: short(now.target), beta: range[0] === range[1] ? short(range[0]) : `${short(range[0])} – ${short(range[1])}`, loss: short(now.loss) } : {};
      card.numbers.replaceChildren(...Object.entries(rows).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, String(value))]));
    }
  }
}
