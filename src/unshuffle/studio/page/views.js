// What is drawn on the stages. A view turns frames into pictures; between two frames things move in straight lines.
import { bytes, colour, el, mix, picture, prepared, shade } from "./draw.js";

const smooth = (t) => t * t * (3 - 2 * t);

function hint(context, width, height, words) {
  context.fillStyle = colour("--soft");
  context.font = "15px system-ui, sans-serif";
  context.textAlign = "center";
  context.fillText(words, width / 2, height / 2);
  context.textAlign = "left";
}

// The shorter way from one quarter turn to another.
const turned = (a, b, t) => a + (((b - a + 6) % 4) - 2) * t;

export class PuzzleView {
  constructor() { this.sheet = null; }

  // tiles come as they are, and how they stand is found out
  uploaded(files) { return files.length > 1 ? { shuffle: false, grid: ["", ""] } : {}; }

  given(about, shown, ready) {
    this.about = about;
    this.sheet = null;
    const image = new Image();
    image.onload = () => { this.sheet = image; ready(); };
    image.src = shown(0);
  }

  end({ x, y, turn, size, confidence, left }) { return { x, y, turn, size, sure: confidence, left: new Set(left) }; }

  label(result) {
    const placed = result.x.filter((v) => v !== null).length - result.left.length;
    return `Put together from ${placed} tiles` + (result.left.length ? `; ${result.left.length} are left out.` : ".");
  }

  paint(canvas, from, to, share, { sure }) {
    const about = this.about, size = (share > 0.5 ? to : from)?.size ?? from?.size ?? about?.size;
    const form = (share > 0.5 ? to : from)?.final ? size : about?.size;  // the stage keeps its form while boards of other sizes are tried
    const ratio = about ? (form[1] * about.tile[1]) / (form[0] * about.tile[0]) : 0.66;
    const { context, width, height } = prepared(canvas, Math.min(1.3, ratio));
    if (!about || !this.sheet) { hint(context, width, height, about ? "…" : "A heap of tiles will be here."); return; }
    const [tw, th] = about.tile, w = Math.min(width / size[0], (height / size[1] / th) * tw), h = (w / tw) * th;
    const edge = [(width - w * size[0]) / 2, (height - h * size[1]) / 2];
    // between frames on boards of different size tiles keep their place on the stage
    const place = (frame, k) => {
      if (!frame?.x) return [k % size[0], Math.floor(k / size[0])];
      return frame.x[k] === null ? null : [(frame.x[k] * size[0]) / frame.size[0], (frame.y[k] * size[1]) / frame.size[1]];
    };
    const t = smooth(share), certain = to?.sure ?? from?.sure, order = [...Array(about.n).keys()];
    if (certain) order.sort((a, b) => (certain[a] ?? 0) - (certain[b] ?? 0));
    const settled = (to?.final && share >= 1) || from?.final, shrink = settled ? 0 : 0.6, bleed = settled ? 0.5 : 0;
    context.imageSmoothingQuality = "high";
    for (const k of order) {
      const a = place(from, k), b = place(to, k);
      if (!a && !b) continue;
      const x = edge[0] + mix((a ?? b)[0], (b ?? a)[0], t) * w, y = edge[1] + mix((a ?? b)[1], (b ?? a)[1], t) * h;
      const angle = -turned(from?.turn?.[k] ?? 0, to?.turn?.[k] ?? 0, t) * (Math.PI / 2);  // counted against the clock
      const out = (settled ? to ?? from : null)?.left?.has(k);
      context.save();
      context.globalAlpha = (a ? 1 : t) * (b ? 1 : 1 - t) * (out ? 0.55 : 1);
      context.translate(x + w / 2, y + h / 2);
      context.rotate(angle);
      context.drawImage(this.sheet, (k % about.sheet) * tw, Math.floor(k / about.sheet) * th, tw, th, shrink - w / 2, shrink - h / 2, w - 2 * shrink + bleed, h - 2 * shrink + bleed);
      context.restore();
      const s = certain?.[k];
      if (sure && typeof s === "number" && !out) { context.fillStyle = shade("sure", s, 0.28 + 0.37 * (1 - s)); context.fillRect(x, y, w + 0.5, h + 0.5); }
    }
  }
}

export class StripsView {
  constructor() { this.images = []; }

  given(about, shown, ready) {
    this.about = about;
    this.wide = about.edges.map(([left, right]) => right - left);
    this.total = this.wide.reduce((sum, w) => sum + w, 0);
    this.images = about.sizes.map((_, k) => {
      const image = new Image();
      image.onload = ready;
      image.src = shown(k);
      return image;
    });
  }

  // side by side, pages beside each other, and a gap where something is missing
  end({ pages }) {
    const left = Array(this.about.n).fill(null), turn = Array(this.about.n).fill(0), gap = 0.04 * this.total;
    let at = -gap;
    for (const { order, turns, gaps } of pages) {
      at += gap;
      order.forEach((strip, place) => {
        left[strip] = at;
        turn[strip] = turns[place] / 2;
        at += this.wide[strip] + (gaps.includes(place) ? gap : 0);
      });
    }
    return { left, turn, span: at };
  }

  extra() { return (this.shown = el("div", { class: "stack" })); }
  results({ pictures }, file) { this.shown.replaceChildren(...pictures.map((name, k) => el("img", { alt: pictures.length > 1 ? `Page ${k + 1}, put together` : "The page, put together", class: "whole", src: file(name) }))); }
  label({ pages, names }) { return pages.map(({ order }, k) => (pages.length > 1 ? `Page ${k + 1}, ` : "") + "strips from left to right: " + order.map((strip) => names[strip]).join(", ")).join("; "); }

  paint(canvas, from, to, share, { sure, result }) {
    const about = this.about, tall = about ? Math.max(...about.sizes.map((s) => s[1])) : 0.66, span = (frame) => frame?.span ?? this.total;
    const t = smooth(share), wide = about ? mix(span(from), span(to), t) : 1, margin = 0.02 * wide;
    const { context, width, height } = prepared(canvas, Math.min(1.1, about ? tall / (1.04 * this.total) + 0.03 : 0.66));
    if (!about) { hint(context, width, height, "Strips will be here."); return; }
    const n = about.n, scale = Math.min(width / (wide + 2 * margin), (height - 12) / tall), first = (width - wide * scale) / 2;
    const place = (frame, k) => frame?.left ? frame.left[k] : (frame?.x?.[k] ?? k / Math.max(1, n - 1)) * (this.total - this.wide[k]);
    const waits = (frame, k) => frame?.x && !frame.final && frame.x[k] === null;  // while another page is put together
    for (let k = 0; k < n; k++) {
      const image = this.images[k];
      if (!image?.complete || !image.naturalWidth || (to?.final && to.left[k] === null)) continue;
      const [w, h] = about.sizes[k].map((side) => side * scale), inner = this.wide[k] * scale, half = mix(from?.turn?.[k] ?? 0, to?.turn?.[k] ?? 0, t);
      const x = first + mix(place(from, k), place(to, k), t) * scale, edge = about.edges[k], inset = (half > 0.5 ? about.sizes[k][0] - edge[1] : edge[0]) * scale;
      context.save();
      context.globalAlpha = waits(to ?? from, k) ? 0.25 : 1;
      context.translate(x - inset + w / 2, (height - 12) / 2 + 2);
      context.rotate(Math.PI * half);
      context.drawImage(image, -w / 2, -h / 2, w, h);
      context.restore();
      const s = result?.confidence?.[k];
      if (sure && s !== undefined && to?.final) { context.fillStyle = shade("sure", s, 0.9); context.fillRect(x + 1, height - 8, inner - 2, 7); }
    }
  }
}

export class TourView {
  constructor(changed) {
    this.list = [];
    this.own = false;
    this.cursor = null;
    this.changed = changed;
    this.points = { own: () => (this.mine && this.list.length > 2 ? this.list : null), clear: () => { this.mine = false; } };
    this.mine = false;
    this.frame = { low: [0, 0], size: [1, 1] };
  }

  given(about) {
    this.about = about;
    this.names = about.names;
    if (about.points && !this.mine) this.list = about.points.map((p) => [...p]);
    if (about.points) this.fit();
  }

  fit() {
    if (!this.list.length || this.mine) return;
    const x = this.list.map((p) => p[0]), y = this.list.map((p) => p[1]);
    const low = [Math.min(...x), Math.min(...y)], size = Math.max(Math.max(...x) - low[0], Math.max(...y) - low[1]) || 1;
    this.frame = { low: [low[0] - (size - (Math.max(...x) - low[0])) / 2, low[1] - (size - (Math.max(...y) - low[1])) / 2], size: [size, size] };
  }

  end(result) { return { ring: null, order: result.order, confidence: result.confidence }; }
  label(result) { return `A round trip through ${result.order.length} cities of length ${result.length}.`; }

  // Names beside their cities: on the side where they stay on the map and cover nothing that is named already.
  write(context, points, { width }) {
    context.font = "11.5px system-ui, sans-serif";
    context.fillStyle = colour("--soft");
    const taken = points.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);
    points.forEach(([x, y], k) => {
      const long = context.measureText(this.names[k]).width;
      const free = [[x + 7, y - 5], [x + 7, y + 14], [x - long - 7, y - 5], [x - long - 7, y + 14], [x - long / 2, y - 9], [x - long / 2, y + 18]]
        .map(([left, base]) => [left, base - 10, left + long, base + 2])
        .find((box) => box[0] > 2 && box[2] < width - 2 && !taken.some((other, j) => j !== k && box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]));
      if (!free) return;
      taken.push(free);
      context.fillText(this.names[k], free[0], free[3] - 2);
    });
  }

  // between the map and the canvas; north is up
  to([x, y], size) { return [(0.05 + 0.9 * (x - this.frame.low[0]) / this.frame.size[0]) * size.width, (0.95 - 0.9 * (y - this.frame.low[1]) / this.frame.size[1]) * size.height]; }
  from(px, py, size) { return [this.frame.low[0] + ((px / size.width - 0.05) / 0.9) * this.frame.size[0], this.frame.low[1] + ((0.95 - py / size.height) / 0.9) * this.frame.size[1]]; }

  attach(canvas, stale) {
    this.canvas = canvas;
    canvas.classList.add("places");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", "Map. Arrow keys move the cross, Enter places a city, Delete removes the nearest one.");
    let held = null, moved = false;
    const size = () => ({ width: canvas.clientWidth, height: canvas.clientHeight });
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const near = (px, py, reach = 14) => {
      let best = -1, least = reach;
      this.list.forEach((p, k) => { const [x, y] = this.to(p, size()), d = Math.hypot(x - px, y - py); if (d < least) { best = k; least = d; } });
      return best;
    };
    const edited = () => { this.mine = true; this.names = null; stale(); this.changed(); };
    const place = (px, py) => { this.list.push(this.from(px, py, size())); edited(); };
    const remove = (k) => { if (k >= 0) { this.list.splice(k, 1); edited(); } };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button === 2) return;
      const [x, y] = at(event);
      held = near(x, y);
      moved = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held === null || held < 0) return;
      const [x, y] = at(event);
      this.list[held] = this.from(x, y, size());
      moved = true;
      edited();
    });
    canvas.addEventListener("pointerup", (event) => {
      const [x, y] = at(event);
      if (held !== null && held < 0) place(x, y);
      held = null;
    });
    canvas.addEventListener("pointercancel", () => { held = null; });
    canvas.addEventListener("contextmenu", (event) => { event.preventDefault(); remove(near(...at(event), 18)); });
    canvas.addEventListener("keydown", (event) => {
      const step = 0.02, s = size(), arrows = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      this.cursor ??= [s.width / 2, s.height / 2];
      if (arrows[event.key]) this.cursor = [this.cursor[0] + arrows[event.key][0] * s.width, this.cursor[1] + arrows[event.key][1] * s.height];
      else if (event.key === "Enter" || event.key === " ") place(...this.cursor);
      else if (event.key === "Delete" || event.key === "Backspace") remove(near(...this.cursor, 40));
      else return;
      event.preventDefault();
      stale();
    });
    canvas.addEventListener("blur", () => { this.cursor = null; stale(); });
  }

  paint(canvas, from, to, share, { sure, result }) {
    const size = prepared(canvas, 0.78), { context, width, height } = size;
    const points = this.list.map((p) => this.to(p, size));
    if (!points.length) hint(context, width, height, this.about && !this.about.points ? "These cities have distances, but no places." : "Click to place cities.");
    const t = smooth(share);
    const trip = (frame) => frame?.ring ? frame.ring.map((p) => this.to(p, size)) : frame?.order && frame.order.length === points.length ? frame.order.map((k) => points[k]) : null;
    const a = trip(from), b = trip(to);
    if (a || b) {
      const line = !a || !b ? (b ?? a) : a.length === b.length && !(to.final && !from.final) ? a.map((p, k) => [mix(p[0], b[k][0], t), mix(p[1], b[k][1], t)]) : t < 0.5 ? a : b;
      context.globalAlpha = a && b && a.length !== b.length ? 0.35 + 0.65 * Math.abs(2 * t - 1) : 1;
      context.strokeStyle = colour("--accent");
      context.lineWidth = 2.4;
      context.lineJoin = "round";
      context.beginPath();
      line.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.stroke();
      context.globalAlpha = 1;
    }
    const r = Math.max(2.2, 5 - points.length / 60);
    points.forEach(([x, y], k) => {
      const s = result?.confidence?.[k];
      context.fillStyle = sure && s !== undefined ? shade("sure", s) : colour("--ink");
      context.beginPath();
      context.arc(x, y, sure && s !== undefined ? r + 1.5 : r, 0, 7);
      context.fill();
    });
    if (this.names && points.length <= 40 && width > 480 && !/^\d+$/.test(this.names[0] ?? "1")) this.write(context, points, size);
    if (this.cursor) {
      const [x, y] = this.cursor;
      context.strokeStyle = colour("--warm");
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(x - 9, y); context.lineTo(x + 9, y); context.moveTo(x, y - 9); context.lineTo(x, y + 9);
      context.stroke();
    }
  }
}

export class TableView {
  given(about) {
    this.about = about;
    this.table = bytes(about.table);
    this.apart = about.apart ? bytes(about.apart) : null;
  }

  end(result) { return { order: result.order, across: result.across ?? null }; }
  label(result) { return "Rows in order: " + result.order.slice(0, 400).map((k) => this.about.rows[k] ?? k + 1).join(", "); }

  // As it came on the left, as it is now on the right; below the dissimilarities of the rows, likewise.
  paint(canvas, from, to, share, { sure, result }) {
    const narrow = canvas.clientWidth < 480, gap = narrow ? 8 : 14, head = 20;
    const half = (canvas.clientWidth - gap) / 2, tall = this.about ? this.heights(half) : [0.7 * half, 0];
    const { context, width, height } = prepared(canvas, (tall[0] + tall[1] + 2 * head) / Math.max(1, canvas.clientWidth));
    if (!this.about) { hint(context, width, height, "A table will be here."); return; }
    const now = share > 0.5 ? to : from, n = this.table.rows;
    let rows = [...Array(n).keys()], columns = null;
    if (now?.order) { rows = now.order.filter((k) => k < n); columns = now.across?.filter((k) => k < this.table.columns) ?? null; }
    else if (now?.x) rows.sort((a, b) => now.x[a] - now.x[b]);
    const right = half + gap, mark = sure && result && now?.order ? 9 : 0, below = tall[0] + head;
    const word = (text, x, y) => { context.fillStyle = colour("--soft"); context.font = "600 12px system-ui, sans-serif"; context.fillText(text, x + 3, y + 14); };
    context.imageSmoothingEnabled = false;
    word("the table as it came", 0, 0);
    word(now?.order ? "in order" : now?.x ? "on the way" : "", right, 0);
    context.drawImage(picture(this.table, "viridis"), 0, head, half, tall[0]);
    context.drawImage(picture(this.table, "viridis", rows, columns), right + mark, head, half - mark, tall[0]);
    if (mark) rows.forEach((k, y) => { context.fillStyle = shade("sure", result.confidence[k]); context.fillRect(right, head + (y * tall[0]) / n, mark - 3, tall[0] / n + 0.5); });
    if (!this.apart) return;
    word("how unlike its rows are", 0, below);
    context.drawImage(picture(this.apart, "magma"), 0, below + head, half, tall[1]);
    context.drawImage(picture(this.apart, "magma", rows, rows), right, below + head, half, tall[1]);
  }

  heights(half) {
    const table = half * Math.min(1.1, Math.max(0.35, this.table.rows / this.table.columns));
    return [table, this.apart ? half * 0.8 : -20];
  }
}

export class MatchView {
  given(about) { this.about = about; }

  end(result) {
    const to = Array(this.about.a.length).fill(-1), sure = Array(this.about.a.length).fill(0);
    result.pairs.forEach(([i, k], place) => { to[i] = k; sure[i] = result.confidence[place]; });
    return { to, sure, left: result.left };
  }

  label(result) { return `${result.pairs.length} pairs; left out: ${result.left[0].length} of A and ${result.left[1].length} of B.`; }

  paint(canvas, from, to, share, { sure }) {
    const { context, width, height } = prepared(canvas, 0.62);
    if (!this.about) { hint(context, width, height, "Two sets will be here."); return; }
    const scale = Math.min(width * 0.42, height * 0.86), put = (p, x) => [x + p[0] * scale, height / 2 - p[1] * scale];
    const A = this.about.a.map((p) => put(p, width * 0.25)), B = this.about.b.map((p) => put(p, width * 0.75));
    const frame = share > 0.5 ? (to?.to ? to : from) : (from?.to ? from : to);
    if (frame?.to) {
      frame.to.forEach((k, i) => {
        const s = frame.sure[i];
        if (k < 0 || s < 0.02) return;
        context.strokeStyle = sure && frame.left ? shade("sure", s, 0.9) : colour("--accent");
        context.globalAlpha = Math.min(1, 0.06 + 0.75 * s);
        context.lineWidth = 1.2;
        context.beginPath(); context.moveTo(...A[i]); context.lineTo(...B[k]); context.stroke();
      });
      context.globalAlpha = 1;
    }
    const out = frame?.left?.map((list) => new Set(list));
    [[A, 0], [B, 1]].forEach(([points, side]) => points.forEach(([x, y], k) => {
      const left = out?.[side].has(k);
      context.beginPath();
      context.arc(x, y, left ? 4 : 3.2, 0, 7);
      context.fillStyle = left ? colour("--card") : colour("--ink");
      context.fill();
      if (left) { context.strokeStyle = colour("--warm"); context.lineWidth = 1.6; context.stroke(); }
    }));
    context.fillStyle = colour("--soft");
    context.font = "600 14px system-ui, sans-serif";
    context.fillText("A", 12, 22);
    context.fillText("B", width - 22, 22);
  }
}
