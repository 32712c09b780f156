// A page on which something is solved: what goes in, a stage to watch, what the solver tells, what comes out.
import { address, mine, upload } from "./session.js";
import { chart, colour, el, matrix, reduced, short } from "./draw.js";
import { values } from "./fields.js";
import { Run } from "./run.js";

const FRAMES_A_SECOND = 14;  // at least so fast; more where many wait to be shown
const MOST_FRAMES = 1200;  // that are kept to go back to
const LAST_MOVE = 0.9;  // seconds from the last frame to what was found
const MELTED = 0.25;  // a rise of the entropy by which one sees that another annealing has begun

export class Workbench extends Run {
  // view: {given(about, shown, ready), paint(canvas, from, to, share, {sure, about, result}), end(result) -> frame, label(result)}
  // examples: {name: {field: value}}; settle(bench, values): which fields apply
  constructor(root, { task, title, lead, fields = [], takes = null, several = false, what = "", examples = {}, view, note = "", settle = null }) {
    super(task);
    Object.assign(this, { view, several, what, fields, examples });
    this.about = this.result = null;
    this.frames = [];
    this.at = 0;
    this.uploads = null;
    this.dropped = [];
    this.example = Object.keys(examples)[0] ?? null;
    this.build(root, title, lead, takes, note);
    this.settle = () => settle?.(this, Object.fromEntries(fields.map((field) => [field.name, field])));
    fields.forEach((field) => field.heard(this.settle));
    this.settle();
    this.alive = true;
    this.tick = this.tick.bind(this);
    this.show();
    requestAnimationFrame(this.tick);
    this.resized = () => { this.stale = true; };
    addEventListener("resize", this.resized);
  }

  close() {
    super.close();
    this.alive = false;
    removeEventListener("resize", this.resized);
  }

  build(root, title, lead, takes, note) {
    this.canvas = el("canvas", { role: "img", "aria-label": "Nothing yet" });
    this.soft = el("canvas", { class: "small", role: "img", "aria-label": "The soft permutation" });
    this.chart = el("canvas", { class: "small", role: "img", "aria-label": "Energy and entropy against time" });
    this.timeline = el("input", { type: "range", min: "0", max: "0", step: "any", value: "0", "aria-label": "Moment of the run", disabled: true, oninput: () => this.scrub() });
    this.numbers = el("dl", { class: "numbers" });
    this.sure = el("input", { type: "checkbox", id: "sure", onchange: () => { this.stale = true; } });
    this.chips = Object.keys(this.examples).map((name) => el("button", { type: "button", class: "chip", onclick: () => this.choose(name) }, name));
    const controls = el("section", { class: "card stack controls", "aria-label": "Settings" },
      takes ? this.dropZone(takes) : null,
      this.chips.length ? el("div", {}, el("h2", {}, "Or an example"), el("div", { class: "row" }, this.chips)) : null,
      ...this.fields.filter((field) => !field.minor).map((field) => field.build()),
      el("div", { class: "buttons" }, this.startButton, this.pauseButton, this.stopButton),
      el("label", { class: "check" }, this.sure, "Show how sure it is"),
      el("div", { class: "stack minor" }, ...this.fields.filter((field) => field.minor).map((field) => field.build())));
    root.replaceChildren(el("h1", {}, title), el("p", { class: "lead" }, lead),
      el("div", { class: "bench" }, controls,
        el("div", { class: "stack middle" },
          el("section", { class: "card stage", "aria-label": "Stage" }, this.canvas, note ? el("p", { class: "words" }, note) : null,
            el("div", { class: "timeline" }, this.timeline), this.status),
          this.results(this.view.extra?.()), this.line()),
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

  get invitation() { return this.several ? "Drop files, or choose" : "Drop a file, or choose"; }

  dropZone(takes) {
    this.chosen = el("b", { id: "chosen" }, this.invitation);
    const input = el("input", { type: "file", id: "file", multiple: this.several, accept: takes.map((t) => "." + t).join(","), onchange: () => this.take([...input.files]) });
    const zone = el("label", { class: "drop" }, input, this.chosen, this.what || takes.slice(0, 5).join(", "));
    zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => { event.preventDefault(); event.stopPropagation(); zone.classList.remove("over"); this.take([...event.dataTransfer.files]); });
    return zone;
  }

  press() { this.chips.forEach((chip) => chip.setAttribute("aria-pressed", String(chip.textContent === this.example))); }

  set(settings) {
    for (const field of this.fields) if (field.name in settings) field.set(settings[field.name]);
    this.settle();
  }

  choose(name) {
    this.example = name;
    this.uploads = null;
    this.dropped = [];
    if (this.chosen) this.chosen.textContent = this.invitation;
    this.view.points?.clear();
    this.press();
    this.set(this.examples[name]);
    if (!this.running) this.start();
  }

  async take(files, ready = "Ready: press Start.") {
    if (!files.length) return;
    this.example = null;
    this.press();
    this.view.points?.clear();
    this.tell(`Reading ${files.length === 1 ? files[0].name : files.length + " files"} …`);
    try {
      const uploads = [];
      for (const file of files) uploads.push(await upload(file));
      this.uploads = uploads;
      this.dropped = files;
      this.chosen.textContent = files.length === 1 ? files[0].name : `${files.length} files`;
      this.set(this.view.uploaded?.(files) ?? {});
      this.tell(ready);
    } catch (error) { this.fail(error); }
  }

  anew() {
    const lost = this.running;
    super.anew();
    if (this.dropped.length) this.take(this.dropped, lost ? "The connection was lost, and the work with it; the files are here again: press Start." : undefined);
  }

  asked() {
    const points = this.view.points?.own();
    const what = points ? { points } : this.uploads ? { files: this.uploads } : { example: this.example };
    return { task: this.task, options: values(this.fields), ...what };
  }

  async start() {
    if (!this.view.points?.own() && !this.uploads && !this.example) { this.fail("Drop something first, or take an example."); return; }
    this.frames = [];
    this.at = 0;
    this.about = this.result = null;
    this.canvas.scrollIntoView({ block: "nearest", behavior: reduced() ? "auto" : "smooth" });  // on a phone it is elsewhere
    await super.start();
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
    const weighed = event.energy ?? (last?.stage === event.stage ? last.weighed : undefined);  // not every frame has an energy of its own
    this.frames.push({ ...event, weighed, seconds: event.seconds + (this.earlier ?? 0) });
    if (this.frames.length > MOST_FRAMES) {  // a long run: every second one will do
      this.frames = this.frames.filter((_, k) => k % 2 === 0);
      this.at /= 2;
    }
  }

  done(event) {
    this.result = event;
    const last = this.about ? this.view.end(event) : null;
    if (last) this.frames.push({ ...this.frames[this.frames.length - 1], stage: "found", ...last, final: true });
    const file = super.done(event);
    this.view.results?.(event, file);
    if (this.about) this.canvas.setAttribute("aria-label", this.view.label(event));
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
    this.timeline.setAttribute("aria-valuetext", now ? `${now.stage}, ${now.seconds?.toFixed(1) ?? 0} seconds` : "nothing yet");
    this.timeline.disabled = this.frames.length < 2;
    chart(this.chart, this.lines(), 0.68, now?.seconds ?? null, "s");
    this.list(now);
    if (this.state === "running" && now?.stage) this.tell(now.stage + (now.done > 0 && now.done < 1 ? `, ${Math.round(100 * now.done)} %` : ""));
  }

  // Energy and entropy; of several annealings one after the other the last is drawn strongest.
  lines() {
    const told = this.frames.filter((f) => f.seconds !== undefined && !f.final), runs = [[]];
    let before = 1;
    for (const f of told) {
      if (f.entropy > before + MELTED) runs.push([]);
      before = f.entropy ?? before;
      runs[runs.length - 1].push(f);
    }
    const line = (key, name, side, bounds) => {
      const all = told.map((f) => f[key]).filter((v) => v !== undefined), [low, high] = bounds(all);
      return runs.map((run, k) => ({ values: run.filter((f) => f[key] !== undefined).map((f) => [f.seconds, f[key]]), colour: colour(name), faint: k < runs.length - 1, low, high, side }));
    };
    return [...line("energy", "--accent", "left", (all) => [Math.min(...all), Math.max(...all)]), ...line("entropy", "--warm", "right", (all) => [0, Math.max(1, ...all)])];
  }

  list(now) {
    const rows = now ? { energy: short(now.weighed), entropy: short(now.entropy), beta: short(now.beta), seconds: now.seconds === undefined ? "–" : now.seconds.toFixed(2) } : {};
    this.numbers.replaceChildren(...Object.entries(rows).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]));
  }
}
