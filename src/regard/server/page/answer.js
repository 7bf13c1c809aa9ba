// The translation, and with edits what they changed against the plain one.

import { el, fill } from "./elements.js";
import { largestMove, newWords } from "./changes.js";

/** @typedef {import("./state.js").State} State */

/**
 * Show the translation; with edits also the plain one and what moved.
 * @param {HTMLElement} line the translation's place
 * @param {HTMLElement} against the place below it
 * @param {State} state
 * @param {Object} plain payload
 * @param {Object|null} changed payload with the edits, if there are some
 */
export function showAnswer(line, against, state, plain, changed) {
  if (!changed) {
    line.textContent = plain.translation;
    return fill(against);
  }
  const words = newWords(plain.translation.split(" "), changed.translation.split(" "));
  line.replaceChildren();
  for (const { word, isNew } of words) {
    if (line.firstChild) line.append(" ");
    line.append(isNew ? el("mark", {}, word) : word);
  }
  const rest = el("p", { class: "against", id: "moved" }, moved(state, plain, changed));
  fill(against, beside(plain.translation, changed.translation), rest);
}

function beside(was, is) {
  if (was === is) return el("p", { class: "against" }, "The translation stays as it was.");
  const label = el("span", { class: "caption" }, "plain ");
  return el("p", { class: "against" }, label, el("span", { id: "plain" }, was));
}

/** One sentence on the weights of the chosen attention. */
function moved(state, plain, changed) {
  const most = largestMove(plain, changed, state);
  const where = `${state.name}, layer ${state.layer}`;
  if (!most) return `The weights of ${where} cannot be compared cell by cell: the tokens differ.`;
  if (most.by === 0) return `No weight of ${where} moved.`;
  const by = `${most.by > 0 ? "+" : "−"}${Math.abs(most.by).toFixed(3)}`;
  const head = `head ${most.head}`;
  return `Largest change in ${where}: ${by} (${head}, from “${most.row}” to “${most.column}”).`;
}
