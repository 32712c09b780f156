// Small things that all pages use: elements without HTML in strings, colours, matrices, charts.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (key in node && typeof value !== "string") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const reduced = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
export const mix = (a, b, t) => a + (b - a) * t;
export const short = (value) => value === undefined || value === null ? "–" : Math.abs(value) >= 1e5 || (Math.abs(value) < 1e-3 && value !== 0) ? value.toExponential(2) : String(+value.toPrecision(4));
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const STOPS = {
  magma: ["#000004", "#231151", "#5f187f", "#982d80", "#d3436e", "#f8765c", "#febb81", "#fcfdbf"],
  viridis: ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"],
  sure: ["#c22f2f", "#e8743b", "#f5c95a", "#c9dc7a", "#5fae5b", "#1a7f45"],
};
const TABLES = Object.fromEntries(Object.entries(STOPS).map(([name, stops]) => {
  const rgb = stops.map((s) => [1, 3, 5].map((k) => parseInt(s.slice(k, k + 2), 16)));
  const table = new Uint8ClampedArray(256 * 3);
  for (let k = 0; k < 256; k++) {
    const at = (k / 255) * (rgb.length - 1), low = Math.min(Math.floor(at), rgb.length - 2);
    for (let c = 0; c < 3; c++) table[3 * k + c] = mix(rgb[low][c], rgb[low + 1][c], at - low);
  }
  return [name, table];
}));

export function shade(name, value, alpha = 1) {
  const k = 3 * Math.round(255 * Math.min(1, Math.max(0, value))), t = TABLES[name];
  return `rgba(${t[k]},${t[k + 1]},${t[k + 2]},${alpha})`;
}

export function bytes(matrix) {
  const text = atob(matrix.data), data = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) data[k] = text.charCodeAt(k);
  return { rows: matrix.rows, columns: matrix.columns, data, top: matrix.top };
}

// A picture of a matrix of bytes, one pixel an entry; rows and columns may be taken in another order.
export function picture(matrix, map, rows = null, columns = null) {
  const canvas = document.createElement("canvas"), table = TABLES[map];
  canvas.width = matrix.columns;
  canvas.height = matrix.rows;
  const context = canvas.getContext("2d"), image = context.createImageData(matrix.columns, matrix.rows);
  for (let y = 0; y < matrix.rows; y++) {
    const from = (rows ? rows[y] : y) * matrix.columns;
    for (let x = 0; x < matrix.columns; x++) {
      const k = 3 * matrix.data[from + (columns ? columns[x] : x)], to = 4 * (y * matrix.columns + x);
      image.data[to] = table[k]; image.data[to + 1] = table[k + 1]; image.data[to + 2] = table[k + 2]; image.data[to + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// The canvas at the resolution of the screen; returns its context and its size in CSS pixels.
export function prepared(canvas, ratio) {
  const width = canvas.clientWidth || 300, height = Math.max(40, Math.round(width * ratio)), scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = height + "px";
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

export function matrix(canvas, given, map = "magma", ratio = 1) {
  const { context, width, height } = prepared(canvas, ratio);
  if (!given) return;
  context.imageSmoothingEnabled = false;
  context.drawImage(picture(bytes(given), map), 0, 0, width, height);
}

// Lines against a common x: [{values: [[x, y], ...], colour, dash, faint, low, high, side, ink}], each with its own scale, written on its side.
export function chart(canvas, lines, ratio = 0.6, mark = null, unit = "") {
  const { context, width, height } = prepared(canvas, ratio), top = 18, foot = height - 20, pad = 6;
  const all = lines.flatMap((line) => line.values.map((v) => v[0]));
  if (!all.length) return;
  const first = Math.min(...all), last = Math.max(...all), span = last - first || 1;
  const x = (v) => pad + ((v - first) / span) * (width - 2 * pad);
  if (mark !== null) {
    context.strokeStyle = colour("--line");
    context.beginPath(); context.moveTo(x(mark), 0); context.lineTo(x(mark), foot + pad); context.stroke();
  }
  const scales = new Map();
  for (const line of lines) {
    const values = line.values.filter((v) => Number.isFinite(v[1]));
    if (!values.length) continue;
    const ys = values.map((v) => v[1]), low = line.low ?? Math.min(...ys), high = line.high ?? Math.max(...ys), reach = high - low || 1;
    const y = (v) => foot - ((v - low) / reach) * (foot - top);
    if (line.side) scales.set(line.side, [line.ink ?? line.colour, low, high]);
    context.strokeStyle = context.fillStyle = line.colour;
    context.lineWidth = 1.6;
    context.globalAlpha = line.faint ? 0.22 : 1;
    context.setLineDash(line.dash || []);
    context.beginPath();
    values.forEach((v, k) => (k ? context.lineTo(x(v[0]), y(v[1])) : context.moveTo(x(v[0]), y(v[1]))));
    context.stroke();
    context.setLineDash([]);
    if (values.length === 1) context.fillRect(x(values[0][0]) - 2, y(ys[0]) - 2, 4, 4);
    context.globalAlpha = 1;
  }
  context.font = "10.5px system-ui, sans-serif";
  const write = (text, fill, side, base) => { context.fillStyle = fill; context.textAlign = side; context.fillText(text, side === "left" ? 5 : side === "right" ? width - 5 : width / 2, base); };
  for (const [side, [fill, low, high]] of scales) { write(short(high), fill, side, 13); write(short(low), fill, side, height - 4); }
  write((width > 190 ? `${+first.toPrecision(2)} – ` : "") + `${+last.toPrecision(3)} ${unit}`, colour("--soft"), "center", height - 4);
  context.textAlign = "left";
}
