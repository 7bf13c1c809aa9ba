// Two sentences side by side in the same head: what is pointed at in one is lit in both.

import { ask } from "./api.js";
import { drawMatrix, spoken, tokensOf, unpacked } from "./draw.js";
import { el, fill } from "./elements.js";
import { oneHead } from "./state.js";

/** @typedef {import("./state.js").State} State */

/** Words that change what a pronoun means, and with it the word that is written. */
const PAIRS = [["tired", "wide"]];

/**
 * The sentence to put beside: the same with the other word of a pair, or an example.
 * @param {string} source
 * @param {string[]} examples
 * @returns {string}
 */
export function partnerOf(source, examples) {
  for (const [a, b] of PAIRS) {
    const other = { [a]: b, [b]: a };
    const swapped = source.replace(new RegExp(`\\b(${a}|${b})\\b`), (word) => other[word]);
    if (swapped !== source) return swapped;
  }
  return examples.find((text) => text && text !== source) ?? source;
}

/**
 * Draw both.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object} body what was asked for it
 * @param {string[]} examples
 * @param {(part: Partial<State>) => void} change
 */
export async function showCompare(box, state, payload, body, examples, change) {
  const beside = state.beside || partnerOf(body.source, examples);
  const waiting = el("p", { class: "hint", role: "status" }, "looking…");
  fill(box, formOf(beside, body.source, change), waiting);
  const { target, ...asked } = body;
  try {
    const other = await unpacked(await ask("/api/explain", { ...asked, source: beside }));
    if (!waiting.isConnected) return;
    const pair = [payload, other].map((one) => sideOf(one, state));
    waiting.replaceWith(el("div", { class: "beside-each" }, ...pair.map(({ side }) => side)), el("p", { class: "hint", id: "difference" }, differenceOf(payload, other, state)));
    pair.forEach(({ canvas, draw }) => (draw(), light(canvas, pair.map((one) => one.canvas))));
  } catch (error) {
    waiting.replaceWith(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

function formOf(beside, source, change) {
  const typed = el("input", { type: "text", value: beside, "data-control": "Beside it" });
  const submit = (event) => {
    event.preventDefault();
    const text = /** @type {any} */ (typed).value.trim();
    if (text) change({ beside: text });
  };
  const swap = el("button", { type: "button", "data-control": "swap sentences", onclick: () => change({ source: beside, beside: source, token: null, edits: [] }) }, "Change places");
  return el("form", { class: "beside-form", onsubmit: submit }, el("label", { class: "choice" }, el("span", {}, "Beside it"), typed), el("button", { type: "submit", "data-control": "compare" }, "Compare"), swap);
}

function sideOf(payload, { name, layer, head: chosen }) {
  const head = oneHead(chosen);
  const canvas = el("div", { class: "canvas" });
  const side = el("div", {}, el("h3", {}, payload.source || "The text"), el("p", { class: "hint" }, `→ ${payload.answer ?? payload.translation}`), canvas);
  const title = `${payload.source}: ${name}, layer ${layer}`;
  return { side, canvas, draw: () => drawMatrix(canvas, payload, { name, layer, head, title }) };
}

/** Rows, columns and cells with the same numbers are lit in all canvases. */
function light(canvas, all) {
  const cells = (t, s) => `[data-t="${t}"][data-s="${s}"], [data-row="${t}"], [data-column="${s}"]`;
  const lit = (event) => {
    const one = event.target.closest?.("[data-t], [data-row], [data-column]");
    for (const other of all) {
      for (const was of other.querySelectorAll(".lit")) was.classList.remove("lit");
      if (!one) continue;
      const { t, s, row, column } = one.dataset;
      const which = t !== undefined ? cells(t, s) : row !== undefined ? `[data-row="${row}"], [data-t="${row}"]` : `[data-column="${column}"], [data-s="${column}"]`;
      for (const now of other.querySelectorAll(which)) now.classList.add("lit");
    }
  };
  for (const kind of ["pointerover", "focusin"]) canvas.addEventListener(kind, lit);
  canvas.addEventListener("pointerleave", lit);
}

/** Where the two differ most, if their rows and columns can be compared one by one. */
function differenceOf(a, b, { name, layer, head: chosen }) {
  const head = oneHead(chosen);
  const [first, second] = [a, b].map((one) => one.attentions[name]?.[layer]);
  if (!first || !second) return "";
  const [mine, other] = [a, b].map((one) => tokensOf(one, name));
  if (mine.rows.length !== other.rows.length || mine.columns.length !== other.columns.length) {
    return "The two have different lengths, so their weights are not compared one by one.";
  }
  const at = (heads, t, s) => (head === null ? Array.from(heads).reduce((sum, one) => sum + one[t][s], 0) / heads.length : heads[head][t][s]);
  let most = { by: -1, t: 0, s: 0 };
  mine.rows.forEach((_, t) =>
    mine.columns.forEach((__, s) => {
      const by = Math.abs(at(first, t, s) - at(second, t, s));
      if (by > most.by) most = { by, t, s };
    }),
  );
  const { t, s } = most;
  const place = (one) => `${one.rows[t]} → ${one.columns[s]}`;
  return `Largest difference: ${place(mine)} ${spoken(at(first, t, s))} on the left, ${place(other)} ${spoken(at(second, t, s))} on the right.`;
}
