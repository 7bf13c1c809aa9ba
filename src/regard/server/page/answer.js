// The translation, what a reader should know about it, and with edits what they changed.

import { antecedentLine } from "./antecedents.js";
import { largestMove, newWords } from "./changes.js";
import { el, fill } from "./elements.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./looks.js").Looks} Looks */

const SMALLEST = 0.0005; // less is written as 0.000, and may be no more than rounding

/**
 * Show the translation; with edits also the plain one and what moved.
 * @param {HTMLElement} line the translation's place
 * @param {HTMLElement} against the place below it
 * @param {State} state
 * @param {Looks} looks
 * @param {Object} info of the run
 * @param {(part: Partial<State>) => void} change
 */
export function showAnswer(line, against, state, looks, info, change) {
  const { said, plain, changed } = looks;
  line.replaceChildren(...whole(state, looks));
  const notes = new Set([...said.notes, ...(changed?.notes ?? [])]);
  const parts = [unknownLine(said.unknown), ...[...notes].map((note) => el("p", { class: "against" }, note))];
  if (changed) {
    parts.push(beside(plain.translation, changed.translation));
    if (plain.attentions[state.name]) {
      parts.push(el("p", { class: "against", id: "moved" }, moved(state, plain, changed)));
    }
  }
  if (plain) parts.push(antecedentLine(info.antecedents, state.plain ? plain : (changed ?? plain), change));
  fill(against, ...parts.filter(Boolean));
}

/** All lines of the translation; that of the sentence which is looked at as the look has it. */
function whole(state, { said, plain, changed }) {
  const sources = state.source.split(/\r?\n/);
  let number = -1;
  return said.translation.split("\n").flatMap((text, i) => {
    const spoken = Boolean(sources[i]?.trim());
    if (spoken) number++;
    const looked = plain && spoken && number === state.line;
    const words = looked && changed ? marked(plain, changed) : [looked ? plain.translation : text];
    return i ? ["\n", ...words] : words;
  });
}

function marked(plain, changed) {
  const words = newWords(plain.translation.split(" "), changed.translation.split(" "));
  return words.flatMap(({ word, isNew }, i) => {
    const shown = isNew ? el("mark", {}, word) : word;
    return i ? [" ", shown] : [shown];
  });
}

function unknownLine(words) {
  if (!words.length) return null;
  const distinct = [...new Set(words)];
  const shown = distinct.slice(0, 10).map((word) => `“${word}”`).join(", ") + (distinct.length > 10 ? ", …" : "");
  return el("p", { class: "against", id: "unknown" }, `Not in the vocabulary: ${shown}; read as <unk>.`);
}

function beside(was, is) {
  if (was === is) return el("p", { class: "against" }, "The translation stays as it was.");
  const label = el("span", { class: "caption" }, "plain ");
  return el("p", { class: "against" }, label, el("span", { id: "plain" }, was));
}

function why(plain, changed) {
  const moved = plain.source_tokens.join(" ") !== changed.source_tokens.join(" ");
  return moved ? "other words stand there now" : "every head that is shown was set by hand";
}

/** One sentence on the weights of the chosen attention, and on what was compared. */
function moved(state, plain, changed) {
  const most = largestMove(plain, changed, state);
  const where = `${state.name}, layer ${state.layer}`;
  if (!most) return `The weights of ${where} cannot be compared cell by cell: ${why(plain, changed)}.`;
  const only = most.n < most.of
    ? ` Only ${most.n === 1 ? "the first row" : `the first ${most.n} rows`} of ${most.of} can be compared: later ones had read other words.`
    : "";
  const which = most.others ? `the other heads of ${where}` : where;
  if (Math.abs(most.by) < SMALLEST) return `No weight of ${which} moved by 0.001 or more.${only}`;
  const by = `${most.by > 0 ? "+" : "−"}${Math.abs(most.by).toFixed(3)}`;
  const place = `head ${most.head}, from “${most.row}” to “${most.column}”`;
  return `Largest change in ${which}: ${by} (${place}).${only}`;
}
