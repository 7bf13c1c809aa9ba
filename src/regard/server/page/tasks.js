// What the page must know of each task; all else it does alike for all.

import { answering } from "./answering.js";
import { comparing } from "./comparing.js";
import { filling } from "./filling.js";
import { labelling } from "./labelling.js";
import { translating } from "./translating.js";
import { writing } from "./writing.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./looks.js").Looks} Looks */

/**
 * @typedef {Object} Words
 * @property {string} label of the text
 * @property {string} [other] label of the second text; without one there is none
 * @property {boolean} [optional] whether the second text may be left out
 * @property {string} go on the button
 * @property {string} answer above the answer
 * @property {string} [hint] below the text
 * @property {string} about what the run does, in the header
 * @property {string} stands what is still right where a text is too long for the pictures
 * @property {string} [lang] of the answer
 */

/**
 * @typedef {Object} Task
 * @property {string[]} views that there are
 * @property {string[]} edits kinds of what-ifs that there are
 * @property {boolean} packed whether weights are sent packed
 * @property {boolean} [writes] whether the reader chooses how it writes
 * @property {(info: Object) => Words} words
 * @property {(state: State) => string[]} lines the sentences of which one is looked at
 * @property {(state: State) => Object} question all that the answer depends on
 * @property {(question: Object, onText: (text: string) => void, signal: AbortSignal) => Promise<Object>} say
 *   the answer, perhaps with `unknown` words and `notes`
 * @property {(state: State, said: Object, edits: Object[]) => Object} asked the body of /api/explain
 * @property {(state: State) => Node[]} [begun] what stands before a text that is being written
 * @property {(state: State, looks: Looks, info: Object, change: (part: Partial<State>) => void) =>
 *   {words: (Node|string)[], below?: (Node|null)[], last?: (Node|null)[]}} show the answer, what
 *   stands below it, and what stands below that and all notes
 */

/** @type {Object<string, Task>} */
export const TASKS = {
  translation: translating,
  language: writing,
  classification: labelling,
  masked: filling,
  similarity: comparing,
  answers: answering,
};
