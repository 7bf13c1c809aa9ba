// The looks that a state needs: one at the sentence as it is, and one with the edits.

import { ApiError, ask } from "./api.js";
import { unpacked } from "./draw.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {import("./form.js").Task} Task */

/**
 * @typedef {Object} Looks
 * @property {Object} said what the model says of the whole text
 * @property {Object|null} plain payload of the sentence as it is; null where it is too long for one
 * @property {Object|null} changed payload with the edits; null without
 * @property {Object} body what was asked for the plain payload
 * @property {Object|null} changedBody what was asked for the changed one
 * @property {Object[]} kept the edits that could be made
 * @property {{edit: Object, why: string}[]} refused those that could not, and why
 * @property {string} trouble what else the server said, or ""
 */

const REFUSED = 422; // what was asked cannot be

/** The newest text: turning a switch while it is being written must not begin anew. */
let newest = { key: "", said: null, stop: new AbortController() };

/**
 * What the model says; a new text is written token by token.
 * @param {Task} task
 * @param {State} state
 * @param {(text: string|null) => void} onText the text so far; null: that was all
 * @returns {Promise<Object>}
 */
function saidOf(task, state, onText) {
  const question = task.question(state);
  const key = JSON.stringify(question);
  if (newest.said && newest.key === key) return newest.said;
  newest.stop.abort();
  const stop = new AbortController();
  const mine = { key, stop, said: written(task, question, onText, stop.signal) };
  mine.said.catch(() => (mine.said = null)); // what failed may work the next time
  newest = mine;
  return mine.said;
}

async function written(task, question, onText, signal) {
  onText("");
  try {
    return await task.say(question, onText, signal);
  } finally {
    if (!signal.aborted) onText(null);
  }
}

const SEEN = 6; // unpacked payloads kept; the oldest goes first

/** @type {Map<string, Object>} */
const seen = new Map();

/**
 * The payload of a look. Where weights are many, only those of the layer that is drawn are exact;
 * another layer is asked for when its turn comes.
 */
async function explained(body) {
  const { packed, ...rest } = body;
  const key = JSON.stringify(rest);
  const known = seen.get(key);
  if (known && !(packed && known.rounded[packed.name]?.[packed.layer])) return known;
  const payload = named(await unpacked(await ask("/api/explain", body)));
  seen.delete(key);
  seen.set(key, payload);
  if (seen.size > SEEN) seen.delete(seen.keys().next().value);
  return payload;
}

/** The look at the sentence; a text that could be read may be too long for one. */
async function plainLook(body, stands) {
  try {
    return { body, plain: await explained(body), trouble: "" };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== REFUSED) throw error;
    return { body, plain: null, trouble: `No pictures: ${error.message}. ${stands}` };
  }
}

/** The changed look. An edit that cannot be made is left out, and the others stay. */
async function changedLook(bodyOf, edits) {
  const found = { changed: null, changedBody: null, kept: [], refused: [] };
  const tried = async (some) => {
    const changedBody = bodyOf(some);
    return { changedBody, changed: await explained(changedBody), kept: some };
  };
  if (!edits.length) return found;
  try {
    return { ...found, ...(await tried(edits)) };
  } catch (error) {
    if (error.status !== REFUSED) return { ...found, kept: edits, trouble: error.message };
  }
  for (const edit of edits) {
    try {
      Object.assign(found, await tried([...found.kept, edit]));
    } catch (error) {
      if (error.status !== REFUSED) throw error;
      found.refused.push({ edit, why: error.message });
    }
  }
  return found;
}

/** The payload with the words that the model reads as <unk>, beside it. */
function named(payload) {
  const words = [...(payload.unknown ?? [])];
  const n = payload.source_tokens.filter((token) => token === "<unk>").length;
  if (n !== words.length) return payload; // pieces of words: which is which cannot be told
  const tokens = payload.source_tokens.map((token) => (token === "<unk>" ? `<unk> ${words.shift()}` : token));
  return { ...payload, source_tokens: tokens };
}

/**
 * Fetch what is said and both looks.
 * @param {Task} task
 * @param {State} state
 * @param {string} stands what is still right where a text is too long for the pictures
 * @param {(text: string|null) => void} onText
 * @returns {Promise<Looks>}
 */
export async function looksFor(task, state, stands, onText) {
  const said = await saidOf(task, state, onText);
  const { name, layer } = state;
  const packed = layer !== null ? { packed: { name, layer } } : {}; // null: it attends nowhere
  const bodyOf = (edits) => ({ ...task.asked(state, said, edits), ...(edits.length && { edits }), ...packed });
  const look = await plainLook(bodyOf([]), stands);
  if (!look.plain) return { said, ...look, changed: null, changedBody: null, kept: state.edits, refused: [] };
  return { said, ...look, ...(await changedLook(bodyOf, state.edits)) };
}
