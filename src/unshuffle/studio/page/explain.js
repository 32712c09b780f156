// The method with sliders, on twelve shades; every picture is computed by the operator itself.
import { ask } from "./session.js";
import { el, picture, prepared, shade, short, colour } from "./draw.js";

const N = 12;

export class Explain {
  constructor(root) {
    this.seed = 0;
    this.build(root);
    this.resized = () => this.paint();
    addEventListener("resize", this.resized);
    this.ask();
  }

  close() { removeEventListener("resize", this.resized); }

  slider(id, label, min, max, step, value, show) {
    const out = el("output", { class: "value", for: id }), input = el("input", { type: "range", id, min: String(min), max: String(max), step: String(step), value: String(value), oninput: () => { out.textContent = show(Number(input.value)); this.ask(); } });
    out.textContent = show(value);
    return { input, value: () => Number(input.value), node: el("label", { class: "field", for: id }, el("span", {}, label, out), input) };
  }

  build(root) {
    this.beta = this.slider("beta", "Inverse temperature β", -1, 2.5, 0.02, 0.3, (v) => short(10 ** v));
    this.byEntropy = el("input", { type: "checkbox", id: "by-entropy", onchange: () => this.ask() });
    this.entropy = this.slider("target", "Target entropy", 0.05, 0.98, 0.01, 0.5, (v) => v.toFixed(2));
    this.noise = this.slider("noise", "Gumbel noise", 0, 2, 0.02, 0, (v) => v.toFixed(2));
    this.iterations = this.slider("iterations", "Sinkhorn iterations", 1, 50, 1, 10, (v) => String(v));
    this.boost = this.slider("boost", "Local boost (adaptive field)", 0, 3, 0.05, 0, (v) => v.toFixed(2));
    const small = (label) => el("canvas", { class: "small", role: "img", "aria-label": label });
    this.scores = small("Scores, items by positions");
    this.P = small("The soft permutation P");
    this.field = small("The field of inverse temperatures");
    this.bars = small("Shades: as they come, blended by P, and in the order read off");
    this.bars.classList.add("wide");
    this.numbers = el("dl", { class: "numbers", id: "explain-numbers" });
    this.status = el("p", { class: "status", role: "status", "aria-live": "polite" });
    const words = ["What a network says, or what a solver feels: bright is good.",
      "How sharp each entry is made. One number for all, unless a local boost makes it warmer where rows and columns are undecided.",
      "P = Sinkhorn(β · (scores + noise)): exponentials, then rows and columns take turns to be divided by their sums. The margins show how undecided each row and column is."];
    const parts = [["1  Scores", this.scores], ["2  Field of β", this.field], ["3  Soft permutation", this.P]];
    const part = ([title, canvas], k) => el("section", { class: "card" }, el("h2", {}, title), canvas, el("p", { class: "words wide-only" }, words[k]));
    root.replaceChildren(el("h1", {}, "How it works"), el("p", { class: "lead" }, "Twelve shades have lost their order. Seven of them are easy to tell apart; five greys in the middle are not. Scores say how well each would stand at each position. Move the sliders and watch scores become a soft permutation: a table in which every row and every column sums to one."),
      el("div", { class: "two explain" },
        el("section", { class: "card stack", "aria-label": "Sliders" }, this.beta.node, el("label", { class: "check" }, this.byEntropy, "Find β for a target entropy"), this.entropy.node, this.noise.node,
          el("button", { type: "button", onclick: () => { this.seed += 1; this.ask(); } }, "Draw new noise"), this.iterations.node, this.boost.node, this.numbers, this.status),
        el("div", { class: "stack pictures" },
          el("div", { class: "three" }, ...parts.map(part)),
          el("section", { class: "card" }, el("h2", {}, "4  Reorder"), this.bars, el("p", { class: "words" }, "Top: the shades as they come. Middle: blended by P, which has a gradient and can be trained through. Bottom: the order read off at the end."))),
        el("section", { class: "card stack narrow-only" }, ...words.map((text, k) => el("p", { class: "words" }, `${k + 1}. ${text}`)))));
  }

  ask() {
    this.wanted = true;
    if (!this.asking) this.next();
  }

  async next() {
    this.asking = true;
    if (!this.now) this.status.textContent = "Loading the operator …";
    while (this.wanted) {
      this.wanted = false;
      const given = { beta: 10 ** this.beta.value(), noise: this.noise.value(), iterations: this.iterations.value(), boost: this.boost.value(), seed: this.seed };
      if (this.byEntropy.checked) given.entropy = this.entropy.value();
      this.beta.input.disabled = this.byEntropy.checked;
      this.entropy.input.disabled = !this.byEntropy.checked;
      try {
        this.now = await ask("/api/explain", given);
        this.status.textContent = "";
        this.paint();
      } catch (error) { this.status.classList.add("bad"); this.status.textContent = error.message; }
    }
    this.asking = false;
  }

  matrix(canvas, values, map, low, high) {
    const data = Uint8Array.from(values, (v) => 255 * Math.min(1, Math.max(0, (v - low) / (high - low || 1))));
    return picture({ rows: N, columns: N, data }, map);
  }

  paint() {
    const now = this.now;
    if (!now) return;
    const margin = 0.06;
    const draw = (canvas, image, rows, columns) => {
      const { context, width } = prepared(canvas, 1), m = rows ? margin * width : 0;
      context.imageSmoothingEnabled = false;
      context.drawImage(image, m, m, width - m, width - m);
      rows?.forEach((v, k) => { context.fillStyle = shade("sure", 1 - v); context.fillRect(0, m + ((width - m) * k) / N, m - 3, (width - m) / N - 1); });
      columns?.forEach((v, k) => { context.fillStyle = shade("sure", 1 - v); context.fillRect(m + ((width - m) * k) / N, 0, (width - m) / N - 1, m - 3); });
    };
    draw(this.scores, this.matrix(this.scores, now.scores, "viridis", Math.min(...now.scores), Math.max(...now.scores)));
    const spread = Math.max(...now.field) - Math.min(...now.field) < 1e-9;
    draw(this.field, this.matrix(this.field, now.field, "viridis", spread ? 0 : Math.min(...now.field), spread ? 2 * Math.max(...now.field) : Math.max(...now.field)));
    draw(this.P, this.matrix(this.P, now.P, "magma", 0, 1), now.row_entropy, now.column_entropy);
    const { context, width, height } = prepared(this.bars, 0.2), w = width / N, h = height / 3;
    [now.shades, now.blended, now.order.map((k) => now.shades[k])].forEach((line, row) => line.forEach((value, k) => {
      const grey = Math.round(255 * Math.min(1, Math.max(0, value)));
      context.fillStyle = `rgb(${grey},${grey},${grey})`;
      context.fillRect(k * w, row * h, w + 0.5, h - 5);
    }));
    context.strokeStyle = colour("--line");
    const rows = { "β": short(now.beta), "mean row entropy": now.entropy.toFixed(3), "sums off by": short(now.marginal_error), order: now.order.map((k) => k + 1).join(" ") };
    this.numbers.replaceChildren(...Object.entries(rows).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]));
    this.P.setAttribute("aria-label", `Soft permutation, mean row entropy ${now.entropy.toFixed(2)}`);
  }
}
