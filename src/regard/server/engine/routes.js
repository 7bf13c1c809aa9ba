// The questions of the page and who answers them: the paths of the server, without a server.

import { importances, payloadOf, rolledOut, stepsOf, storyOf } from "./inside.js";
import { mentioned } from "./run.js";
import { checkedEdits, Refusal, wholeNumber } from "./what_ifs.js";

/** @typedef {import("./run.js").Run} Run */

const MEASURED = 16; // answers whose costs are remembered; the oldest goes first

/** Let the page draw and listen in between. */
export const pause = () => new Promise((after) => setTimeout(after));

/** Path -> the answer of a run of any task. @type {Object<string, (run: Run, asked: any) => any>} */
export const ANSWERS = {
  "/api/info": ({ file }) => file.info,
  "/api/heads": ({ file }) => file.heads ?? refused("the heads of this run were not measured when it was exported"),
  "/api/heads/progress": ({ file }) => ({ state: file.heads ? "done" : "refused", done: 0, of: 0 }),
  "/api/read": read,
  "/api/words": words,
  "/api/explain": explain,
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
  const key = JSON.stringify(askedIn(run, asked));
  const step = stepIn(asked, look.tokens);
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
  return run.look(askedIn(run, asked));
}

/** What a look depends on. */
function askedIn(run, { source, other = null, target = null, max_tokens: maxTokens = null, edits = [] }) {
  return { source: run.textIn(source, "source", { needed: run.needsText }), other, target, maxTokens, edits: checkedEdits(edits) };
}

function chosenIn({ steps }) {
  const { name, layer, head, token } = steps ?? {};
  const row = typeof token === "string" ? token : wholeNumber(token, "steps.token", 0);
  return { name, layer: wholeNumber(layer, "steps.layer", 0), head: wholeNumber(head, "steps.head", 0), token: row };
}

/** The number of a token that came out. */
function stepIn({ step }, tokens) {
  if (!tokens.length) throw new Refusal("nothing came out of this text, so there is no token to ask about; give another");
  const last = tokens.length - 1;
  if (Number.isInteger(step) && step >= 0 && step <= last) return step;
  const which = last ? `0 to ${last}, of ${mentioned(tokens[0])} to ${mentioned(tokens[last])}` : `0, of ${mentioned(tokens[0])}`;
  throw new Refusal(`step is ${which}, not ${step}`);
}
