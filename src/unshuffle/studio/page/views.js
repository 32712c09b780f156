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

export class PuzzleView {
  constructor() { this.sheet = null; }

  uploaded(bench, files) {
    if (files.length < 2) return;
    document.getElementById("shuffle").checked = false;  // tiles come as they are, and how they stand is found out
    for (const side of ["across", "down"]) document.getElementById(side).value = "";
  }

  given(about, shown, ready) {
    this.about = about;
    this.sheet = null;
    const image = new Image();
    image.onload = () => { this.sheet = image; ready(); };
    image.src = shown(0);
  }

  end(result) {
    // tiles that are left out leave the stage
    const [across] = result.grid, n = this.about.n, x = Array(n).fill(-2), y = Array(n).fill(-2), turn = Array(n).fill(0);
    result.order.forEach((tile, place) => {
      if (tile < 0) return;
      x[tile] = place % across;
      y[tile] = Math.floor(place / across);
      turn[tile] = result.turns ? result.turns[place] : 0;
    });
    return { x, y, turn, grid: result.grid, sure: result.confidence, confidence: result.confidence };
  }

  label(result) { return `The picture put together from ${result.order.length} tiles.`; }

  paint(canvas, from, to, share, { sure, result }) {
    const about = this.about, last = to?.grid ?? from?.grid ?? about?.grid;
    const ratio = about ? (last[1] * about.tile[1]) / (last[0] * about.tile[0]) : 0.66;
    const { context, width, height } = prepared(canvas, Math.min(1.4, ratio));
    if (!about || !this.sheet) { hint(context, width, height, about ? "…" : "A heap of tiles will be here."); return; }
    const [across, down] = last, w = width / across, h = height / down, [tw, th] = about.tile;
    const place = (frame, k) => frame?.x ? [frame.x[k], frame.y[k]] : [k % across, Math.floor(k / across)];
    const t = smooth(share), order = [...Array(about.n).keys()];
    const certain = to?.sure ?? from?.sure;
    if (certain) order.sort((a, b) => certain[a] - certain[b]);
    context.imageSmoothingQuality = "high";
    const settled = (to?.final && share >= 1) || (from?.final);
    for (const k of order) {
      const [x0, y0] = place(from, k), [x1, y1] = place(to, k), x = mix(x0, x1, t) * w, y = mix(y0, y1, t) * h;
      const shrink = settled ? 0 : 0.6;
      // quarter turns are counted against the clock
      const angle = -mix(from?.turn?.[k] ?? 0, to?.turn?.[k] ?? 0, t) * (Math.PI / 2), bleed = settled ? 0.5 : 0;
      context.save();
      context.translate(x + w / 2, y + h / 2);
      context.rotate(angle);
      context.drawImage(this.sheet, (k % about.sheet) * tw, Math.floor(k / about.sheet) * th, tw, th, shrink - w / 2, shrink - h / 2, w - 2 * shrink + bleed, h - 2 * shrink + bleed);
      context.restore();
      const s = settled ? result?.confidence?.[k] : certain?.[k];
      if (sure && s !== undefined) { context.fillStyle = shade("sure", s, 0.28 + 0.37 * (1 - s)); context.fillRect(x, y, w + 0.5, h + 0.5); }
    }
  }
}

export class StripsView {
  constructor() { this.images = []; }

  given(about, shown, ready) {
    this.about = about;
    this.images = about.sizes.map((_, k) => {
      const image = new Image();
      image.onload = ready;
      image.src = shown(k);
      return image;
    });
  }

  end(result) {
    const total = this.about.sizes.reduce((sum, size) => sum + size[0], 0), x = Array(this.about.n);
    let left = 0;
    for (const strip of result.order) {
      x[strip] = left / Math.max(1, total - this.about.sizes[strip][0]);  // side by side
      left += this.about.sizes[strip][0];
    }
    return { x };
  }

  extra() { return (this.page = el("img", { alt: "The page, put together", hidden: true, class: "small" })); }
  results(event, file) { this.page.src = file(event.picture); this.page.hidden = false; this.page.style.width = "100%"; }
  label(result) { return "Strips from left to right: " + result.order.map((k) => result.names[k]).join(", "); }

  paint(canvas, from, to, share, { sure, result }) {
    const about = this.about;
    const total = about ? about.sizes.reduce((sum, size) => sum + size[0], 0) : 1, tall = about ? Math.max(...about.sizes.map((s) => s[1])) : 0.66;
    const { context, width, height } = prepared(canvas, Math.min(1.1, about ? tall / total : 0.66));
    if (!about) { hint(context, width, height, "Strips will be here."); return; }
    const n = about.n, t = smooth(share), scale = Math.min(width / total, height / tall), wide = total * scale, first = (width - wide) / 2;
    const places = (frame) => frame?.x ?? [...Array(n).keys()].map((k) => k / Math.max(1, n - 1));
    const a = places(from), b = places(to);
    for (let k = 0; k < n; k++) {
      const image = this.images[k];
      if (!image?.complete || !image.naturalWidth) continue;
      const w = about.sizes[k][0] * scale, h = about.sizes[k][1] * scale, x = first + mix(a[k], b[k], t) * (wide - w);
      context.drawImage(image, x, (height - h) / 2, w, h);
      const s = result?.confidence?.[k];
      if (sure && s !== undefined && to?.final) { context.fillStyle = shade("sure", s, 0.85); context.fillRect(x + 1, height - 9, w - 2, 8); }
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
    if (this.names && points.length <= 40 && width > 480 && !/^\d+$/.test(this.names[0] ?? "1")) {
      context.font = "11.5px system-ui, sans-serif";
      context.fillStyle = colour("--soft");
      points.forEach(([x, y], k) => context.fillText(this.names[k], x + 7, y - 5));
    }
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

  paint(canvas, from, to, share, { sure, result }) {
    const { context, width, height } = prepared(canvas, 0.72);
    if (!this.about) { hint(context, width, height, "A table will be here."); return; }
    const now = share > 0.5 ? to : from, n = this.table.rows;
    let rows = [...Array(n).keys()], columns = null;
    if (now?.order) { rows = now.order.filter((k) => k < n); columns = now.across?.filter((k) => k < this.table.columns) ?? null; }
    else if (now?.x) rows.sort((a, b) => now.x[a] - now.x[b]);
    const side = this.apart ? Math.min(height, width * 0.48) : 0, left = width - side - (side ? 14 : 0), mark = sure && result && now?.order ? 10 : 0;
    context.imageSmoothingEnabled = false;
    context.drawImage(picture(this.table, "viridis", rows, columns), mark, 0, left - mark, height);
    if (this.apart) context.drawImage(picture(this.apart, "magma", rows, rows), width - side, (height - side) / 2, side, side);
    if (mark) rows.forEach((k, y) => { context.fillStyle = shade("sure", result.confidence[k]); context.fillRect(0, (y * height) / n, mark - 3, height / n + 0.5); });
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
