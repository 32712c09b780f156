// What can be set: each field has a name, builds its label and input, and knows its value; none while it does not apply.
import { el } from "./draw.js";

function field(name, inputs, build, value, set) {
  return {
    name,
    build,
    value: () => (inputs[0].disabled ? undefined : value()),
    set,
    apply: (applies) => inputs.forEach((input) => { input.disabled = !applies; input.closest("label, .field")?.classList.toggle("off", !applies); }),
    heard: (changed) => inputs.forEach((input) => input.addEventListener("change", changed)),
  };
}

const labelled = (label, input) => el("label", { class: "field" }, el("span", {}, label), input);

// `omit`: the value that the command has anyhow, which its line need not say.
export function number(name, label, { value = "", min, max, step = "any", placeholder = "", omit } = {}) {
  const input = el("input", { type: "number", id: name, min: String(min), max: String(max), step: String(step), placeholder });
  input.value = value;
  return field(name, [input], () => labelled(label, input), () => (input.value === "" || Number(input.value) === omit ? undefined : Number(input.value)), (v) => { input.value = v; });
}

export function check(name, label, value = false) {
  const input = el("input", { type: "checkbox", id: name });
  input.checked = value;
  return field(name, [input], () => el("label", { class: "check" }, input, label), () => (input.checked ? true : undefined), (v) => { input.checked = v; });
}

// [[value, words], ...]: an object would put numbers first
export function choice(name, label, options) {
  const input = el("select", { id: name }, ...options.map(([value, words]) => el("option", { value }, words)));
  return field(name, [input], () => labelled(label, input), () => input.value || undefined, (v) => { input.value = v; });
}

export function grid(name, width, height) {
  const side = (id, label, value) => { const input = el("input", { type: "number", id, min: "1", max: "99", "aria-label": label }); input.value = value; return input; };
  const across = side("across", "Tiles across", width), down = side("down", "Tiles down", height);
  const build = () => el("div", { class: "field" }, el("span", {}, "Tiles across and down (empty: find out)"), el("div", { class: "pair" }, across, down));
  const value = () => (across.value && down.value ? `${Number(across.value)}x${Number(down.value)}` : undefined);
  return field(name, [across, down], build, value, (v) => { [across.value, down.value] = v; });
}

export function values(fields) {
  return Object.fromEntries(fields.map((f) => [f.name, f.value()]).filter(([, value]) => value !== undefined));
}
