// The questions of the page and who answers them: the paths of the server, without a server.

import { importances, payloadOf, rolledOut, stepsOf, storyOf } from "./inside.js";
import { checkedEdits, Refusal } from "./what_ifs.js";

/** @typedef {import("./translator.js").Translator} Translator */

const MEASURED = 16; // answers whose costs are remembered; the oldest goes first

/** Let the page draw and listen in between. */
export const pause = () => new Promise((after) => setTimeout(after));

/** Path -> the answer, given the run and what was asked. @type {Object<string, (run: Translator, asked: any) => any>} */
export const ANSWERS = {
  "/api/info": ({ file }) => file.info,
  "/api/heads": ({ file }) => file.heads ?? refused("the heads of this run were not measured when it was exported"),
  "/api/heads/progress": ({ file }) => ({ state: file.heads ? "done" : "refused", done: 0, of: 0 }),
  "/api/read": read,
  "/api/words": words,
  "/api/explain": explain,
  "/api/beam": (run, asked) =>
    run.beam({ source: textIn(run, asked), nBeams: number(asked.n_beams ?? 4, "n_beams", 1, run.limits.beams), prefix: asked.prefix ?? [], edits: checkedEdits(asked.edits ?? []) }),
  "/api/importance": importance,
  "/api/story": (run, asked) => storyOf(run, lookAt(run, asked), chosenIn(asked)),
};

function refused(why) {
  throw new Refusal(why, 404);
}

function read(run, { text }) {
  const spans = run.reader.unknownSpans(text);
  const place = (at) => [...text.slice(0, at)].length; // readers count characters
  const told = text.split("\n").map((line) => run.readAs(line)).join("\n");
  return {
    unknown: spans.map((span) => span.map(place)),
    read: told === text ? null : told,
    known: run.nothingKnown(text) === null,
  };
}

function words(run, { begins = "" }) {
  const fitting = [...run.writer.sayable().keys()].filter((token) => token.replace(/^▁/, "").startsWith(begins));
  return fitting.sort((a, b) => (a < b ? -1 : 1)).slice(0, run.limits.words);
}

function explain(run, asked) {
  const look = lookAt(run, asked);
  return {
    ...payloadOf(run, look),
    ...(asked.steps && { steps: stepsOf(run, look, chosenIn(asked)) }),
    ...(asked.rollout && { rollout: rolledOut(look, asked.rollout) }),
  };
}

/** @type {Map<string, Promise<Object>>} */
const measured = new Map();

async function importance(run, asked) {
  const look = lookAt(run, asked);
  const key = JSON.stringify([asked.source, asked.target ?? null, asked.edits ?? []]);
  const last = look.written.length;
  const step = number(asked.step, "step", 0, last);
  if (!measured.has(key)) {
    const going = importances(run, look, pause);
    measured.set(key, going);
    going.catch(() => measured.delete(key));
  }
  if (measured.size > MEASURED) measured.delete(measured.keys().next().value);
  const { tokens, whole, heads } = await measured.get(key);
  return { token: tokens[step], probability: whole[step], heads: heads.map(({ without, ...head }) => ({ ...head, without: without[step] })) };
}

// ---------------------------------------------------------------- what was asked

function lookAt(run, asked) {
  const target = asked.target ?? null;
  return run.look({ source: textIn(run, asked), target, edits: checkedEdits(asked.edits ?? []) });
}

/**
 * The source of a question.
 * @param {Translator} run
 * @param {{source?: any}} asked
 * @returns {string}
 */
export function textIn(run, { source }) {
  const { characters } = run.limits;
  if (typeof source !== "string") throw new Refusal("source is missing");
  if (!source) throw new Refusal("the text must not be empty");
  if ([...source].length > characters) throw new Refusal(`the text may have at most ${characters.toLocaleString("en")} characters`);
  return source;
}

function chosenIn({ steps }) {
  const { name, layer, head, token } = steps ?? {};
  return { name, layer: number(layer, "steps.layer", 0), head: number(head, "steps.head", 0), token: typeof token === "string" ? token : number(token, "steps.token", 0) };
}

function number(value, field, least, most = Infinity) {
  if (!Number.isInteger(value)) throw new Refusal(`${field} must be a whole number`);
  if (value < least || value > most) throw new Refusal(`${field} must be ${most === Infinity ? `at least ${least}` : `from ${least} to ${most}`}`);
  return value;
}
