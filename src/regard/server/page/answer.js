// What the model says, what a reader should know about it, and with edits what they changed.

import { changesBadge } from "./badge.js";
import { largestMove } from "./changes.js";
import { el, fill } from "./elements.js";
import { restsLine } from "./rests.js";
import { oneHead } from "./state.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./looks.js").Looks} Looks */

const SMALLEST = 0.0005; // less is written as 0.000, and may be no more than rounding

/**
 * Show the answer as its task does; with edits also what moved.
 * @param {HTMLElement} line the answer's place
 * @param {HTMLElement} against the place below it
 * @param {import("./form.js").Task} task
 * @param {State} state
 * @param {Looks} looks
 * @param {Object} info of the run
 * @param {(part: Partial<State>) => void} change
 */
export function showAnswer(line, against, task, state, looks, info, change) {
  const { said, plain, changed } = looks;
  const { words, below = [], last = [] } = task.show(state, looks, info, change);
  line.replaceChildren(...words);
  const notes = new Set([...(said.notes ?? []), ...(changed?.notes ?? [])]);
  const told = [unknownLine(said.unknown ?? []), ...[...notes].map((note) => el("p", { class: "against" }, note))];
  const hasMoved = changed && plain.attentions[state.name];
  const moves = hasMoved ? [el("p", { class: "against", id: "moved" }, moved(state, plain, changed))] : [];
  fill(against, ...[changesBadge(state, plain?.source ?? state.source, change), ...told, rests(state, looks, info, change), ...below, ...moves, ...last].filter(Boolean));
}

/** On which head the answer rests, as it is drawn. */
function rests(state, { plain, changed, body, changedBody }, info, change) {
  const isChanged = changed && !state.plain;
  const look = isChanged ? changed : plain;
  return look && restsLine(state, look, isChanged ? changedBody : body, info, change);
}

function unknownLine(words) {
  if (!words.length) return null;
  const distinct = [...new Set(words)];
  const shown = distinct.slice(0, 10).map((word) => `“${word}”`).join(", ") + (distinct.length > 10 ? ", …" : "");
  return el("p", { class: "against", id: "unknown" }, `Not in the vocabulary: ${shown}; read as <unk>.`);
}

function why(plain, changed) {
  const moved = plain.source_tokens.join(" ") !== changed.source_tokens.join(" ");
  return moved ? "other words stand there now" : "every head that is shown was set by hand";
}

/** One sentence on the weights of the chosen attention, and on what was compared. */
function moved(state, plain, changed) {
  const most = largestMove(plain, changed, { ...state, head: oneHead(state.head) });
  const where = `${state.name}, layer ${state.layer}`;
  if (!most) return `The weights of ${where} cannot be compared cell by cell: ${why(plain, changed)}.`;
  const only = most.n < most.of
    ? ` Compared ${most.n === 1 ? "is the first word only" : `are the first ${most.n} words only`}: after that, the two answers go different ways.`
    : "";
  const which = most.others ? `the other heads of ${where}` : where;
  if (Math.abs(most.by) < SMALLEST) return `Where ${which} ${most.others ? "look" : "looks"} stays the same.${only}`;
  const from = plain.axes?.[state.name]?.rows === "target" ? `while “${most.row}” is written` : `from “${most.row}”`;
  return `Of ${which}, head ${most.head} changed most: ${from}, it looks at “${most.column}” with ${most.is.toFixed(2)} of its weight; before, with ${most.was.toFixed(2)}.${only}`;
}
