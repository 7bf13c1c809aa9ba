// How the page asks a run of any task: made from the form of /api/info, which comes from the task.

import { plainAnswer, VIEWS_OF_ANSWERS } from "./answers.js";
import { ApiError, ask } from "./api.js";
import { continuation } from "./continuation.js";
import { pictureOf } from "./pictures.js";
import { linesOf } from "./state.js";
import { streamed } from "./stream.js";
import { translation } from "./translation.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./looks.js").Looks} Looks */

/**
 * What the server tells of a task.
 * @typedef {Object} Form
 * @property {{name: string, kind: "text"|"lines"|"json"|"image", label: string, optional: boolean}[]} fields
 *   one or two, to be typed into
 * @property {string} path where the verb is asked
 * @property {boolean} streams whether the answer comes in pieces
 * @property {string} go on the button
 * @property {string} answer above the answer
 * @property {string} hint below the fields
 * @property {string} about what the run does, in the header
 * @property {string} stands what is still right where a text is too long for the pictures
 * @property {string} language of the answer
 * @property {string[]} views that there are
 * @property {string[]} edits kinds of what-ifs that there are
 * @property {string} view how the answer is shown
 * @property {boolean} writes whether the reader chooses how it is sampled
 */

/**
 * What the page does for a task. A view of answers may bring its own of any of these.
 * @typedef {Object} Task
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

/** @type {Form} until the run has told its own */
export const NO_FORM = Object.freeze({
  fields: [{ name: "text", kind: "text", label: "A text", optional: false }],
  path: "",
  streams: false,
  go: "Show",
  answer: "Answer",
  hint: "",
  about: "",
  stands: "",
  language: "",
  views: ["lines"],
  edits: [],
  view: "",
  writes: false,
});

const VIEWS = { ...VIEWS_OF_ANSWERS, translation, continuation };

/**
 * The task of a form.
 * @param {Form} form
 * @returns {Task}
 */
export function taskOf(form) {
  const [first, second] = form.fields;
  const many = second?.kind === "lines"; // several texts, each of which can be looked into
  const view = Object.hasOwn(VIEWS, form.view) ? VIEWS[form.view] : plainAnswer;
  const lines = ({ source, other }) => (many ? [source, ...linesOf(other)] : [source]);
  return {
    lines,
    question: ({ source, other }) => ({
      [first.name]: valueOf(first, source),
      ...(second && other && { [second.name]: valueOf(second, other) }),
      ...view.more,
    }),
    say: (question, onText, signal) => {
      if (second?.optional && !(second.name in question)) return Promise.resolve({});
      if (!form.streams) return ask(form.path, question);
      let text = "";
      return streamed(form.path, question, (piece) => onText((text += piece.text)), signal);
    },
    asked: (state) => {
      const line = lines(state)[state.line] ?? state.source;
      const source = first.kind === "image" ? pictureOf(line) : line;
      return second && !many && state.other ? { source, other: state.other } : { source };
    },
    ...view,
  };
}

/** What was typed, as the field takes it. */
function valueOf({ name, kind }, text) {
  if (kind === "lines") return linesOf(text);
  if (kind === "image") return pictureOf(text);
  if (kind !== "json") return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(`${name} must be JSON, such as [[0.5, 1], [2, 0]].`);
  }
}
