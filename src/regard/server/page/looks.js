// The looks that a state needs: one at the sentence as it is, and one with the edits.

import { ApiError, ask } from "./api.js";
import { sentenceOf } from "./state.js";
import { streamed } from "./stream.js";

/**
 * @typedef {Object} Looks
 * @property {{translation: string, unknown: string[], notes: string[]}} said of the whole text
 * @property {Object|null} plain payload of the sentence as it is; null where it is too long for one
 * @property {Object|null} changed payload with the edits; null without
 * @property {Object[]} kept the edits that could be made
 * @property {{edit: Object, why: string}[]} refused those that could not, and why
 * @property {string} trouble what else the server said, or ""
 */

const REFUSED = 422; // what was asked cannot be

/** The newest text: turning a switch while it is being written must not begin anew. */
let newest = { source: "", said: null, stop: new AbortController() };

/**
 * The translation of a text; a new one is written token by token.
 * @param {string} source
 * @param {(text: string|null) => void} onText the translation so far; null: that was all
 * @returns {Promise<Object>}
 */
function spokenOf(source, onText) {
  if (newest.said && newest.source === source) return newest.said;
  newest.stop.abort();
  const stop = new AbortController();
  const mine = { source, stop, said: written(source, onText, stop.signal) };
  mine.said.catch(() => (mine.said = null)); // what failed may work the next time
  newest = mine;
  return mine.said;
}

async function written(source, onText, signal) {
  onText("");
  try {
    return await streamed(source, onText, signal);
  } finally {
    if (!signal.aborted) onText(null);
  }
}

/** The look at the sentence; a text that could be translated may be too long for one. */
async function plainLook(source) {
  try {
    return { plain: named(await ask("/api/explain", { source })), trouble: "" };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== REFUSED) throw error;
    return { plain: null, trouble: `Too long for the pictures: ${error.message}. The translation stands.` };
  }
}

/** The changed look. An edit that cannot be made is left out, and the others stay. */
async function changedLook(source, edits) {
  const explain = async (some) => named(await ask("/api/explain", { source, edits: some }));
  const found = { changed: null, kept: [], refused: [] };
  if (!edits.length) return found;
  try {
    return { ...found, changed: await explain(edits), kept: edits };
  } catch (error) {
    if (error.status !== REFUSED) return { ...found, kept: edits, trouble: error.message };
  }
  for (const edit of edits) {
    try {
      found.changed = await explain([...found.kept, edit]);
      found.kept.push(edit);
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
 * @param {import("./state.js").State} state
 * @param {(text: string|null) => void} onText
 * @returns {Promise<Looks>}
 */
export async function looksFor(state, onText) {
  const said = await spokenOf(state.source, onText);
  const sentence = sentenceOf(state);
  const look = await plainLook(sentence);
  if (!look.plain) return { said, ...look, changed: null, kept: state.edits, refused: [] };
  return { said, ...look, ...(await changedLook(sentence, state.edits)) };
}
