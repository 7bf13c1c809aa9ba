// What is changed, told near the answer: it holds for the next sentence too, until it is taken back.

import { spoken } from "./edits.js";
import { el } from "./elements.js";

/** @typedef {import("./state.js").State} State */

/**
 * A line that names the what-ifs, with the way back; and those that ended with another sentence.
 * @param {State} state
 * @param {string} source the sentence that is looked at
 * @param {(part: Partial<State>) => void} change
 * @returns {HTMLElement|null} null where nothing is changed
 */
export function changesBadge({ edits, ended }, source, change) {
  if (!edits.length && !ended) return null;
  const told = edits.map((edit) => spoken(edit, source)).join("; ");
  const undo = { type: "button", class: "quiet", "data-control": "undo changes", onclick: () => change({ edits: [], plain: false }) };
  const held = edits.length ? [el("span", {}, begun(told)), " · ", el("button", undo, edits.length > 1 ? "Undo them" : "Undo")] : [];
  const over = ended ? [el("span", {}, `${held.length ? " " : ""}No longer changed, for this is another sentence: ${ended}.`)] : [];
  return el("p", { class: "against badge", id: "changes" }, ...held, ...over);
}

const begun = (text) => text.charAt(0).toUpperCase() + text.slice(1);
