// How a language model samples: choices beside its prompt. In links they are called manner.

import { el } from "./elements.js";

/** @typedef {import("./state.js").State} State */

export const START_SAMPLING = Object.freeze({
  max_tokens: 20,
  temperature: 0,
  top_k: null,
  top_p: null,
  stop: "",
  seed: 0,
});

const FIELDS = [
  { key: "max_tokens", name: "Tokens at most", min: 1, max: 1000, step: 1 },
  { key: "temperature", name: "Sampling temperature", min: 0, max: 5, step: 0.1 },
  { key: "top_k", name: "Top k", min: 1, max: 100000, step: 1, empty: "all" },
  { key: "top_p", name: "Top p", min: 0.05, max: 1, step: 0.05, empty: "all" },
];

/**
 * Whether a link's value says how to sample.
 * @param {any} value
 * @returns {boolean}
 */
export function isSampling(value) {
  const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
  if (value === null || typeof value !== "object") return false;
  const { max_tokens, temperature, top_k, top_p, stop, seed } = value;
  return [max_tokens, temperature, seed].every(isNumber) && typeof stop === "string" &&
    [top_k, top_p].every((one) => one === null || isNumber(one));
}

/**
 * The same with a new seed, where anything is drawn.
 * @param {Object} sampling
 * @returns {Object}
 */
export function reseeded(sampling) {
  return { ...sampling, seed: sampling.temperature > 0 ? Math.floor(Math.random() * 2 ** 31) : 0 };
}

/**
 * Draw the fields, once; later only bring them up to date, for somebody may be typing into one. A
 * change of one writes the text anew.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {(part: (now: State) => Partial<State>) => void} change
 */
export function showSampling(box, { manner }, change) {
  if (!box.hasChildNodes()) {
    const set = (part) => change((now) => ({ manner: { ...now.manner, ...part } }));
    box.append(...FIELDS.map((field) => numberField(field, set)), stopField(set));
  }
  for (const field of box.querySelectorAll("input")) {
    if (field !== document.activeElement) field.value = manner[field.name] ?? "";
  }
}

function numberField({ key, name, empty, ...range }, set) {
  return labelled(name, {
    type: "number",
    ...range,
    name: key,
    placeholder: empty,
    onchange: ({ target }) => target.reportValidity() && set({ [key]: valueOf(target, key) }),
  });
}

function stopField(set) {
  const onchange = ({ target }) => set({ stop: target.value });
  return labelled("Stop before", { type: "text", name: "stop", maxlength: 100, onchange });
}

/** What an emptied field stands for: the start's value. */
function valueOf(field, key) {
  return field.value === "" ? START_SAMPLING[key] : Number(field.value);
}

function labelled(name, attributes) {
  return el("label", { class: "choice" }, el("span", {}, name), el("input", { ...attributes, "data-control": name }));
}
