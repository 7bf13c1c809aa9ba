// The looks that a state needs: one at the sentence as it is, and one with the edits.

import { ask } from "./api.js";
import { streamed } from "./stream.js";

/**
 * @typedef {Object} Looks
 * @property {Object} plain payload of the sentence as it is
 * @property {Object|null} changed payload with the edits; null without, or where they failed
 * @property {string} trouble what the server said about the edits, or ""
 */

/** The newest sentence: turning a switch while it is being written must not begin anew. */
let newest = { source: "", look: null, stop: new AbortController() };

/**
 * Look at the sentence as it is; a new one is first written, token by token.
 * @param {string} source
 * @param {(text: string|null) => void} onText the translation so far; null: that was all
 * @returns {Promise<Object>} payload
 */
function plainLook(source, onText) {
  if (newest.look && newest.source === source) return newest.look;
  newest.stop.abort();
  const stop = new AbortController();
  const mine = { source, stop, look: written(source, onText, stop.signal) };
  mine.look.catch(() => (mine.look = null)); // what failed may work the next time
  newest = mine;
  return mine.look;
}

async function written(source, onText, signal) {
  onText("");
  try {
    await streamed(source, onText, signal);
  } finally {
    if (!signal.aborted) onText(null);
  }
  return ask("/api/explain", { source });
}

/** The changed look; an edit that cannot be made is no reason to draw nothing. */
async function changedLook(source, edits) {
  if (!edits.length) return { changed: null, trouble: "" };
  try {
    return { changed: await ask("/api/explain", { source, edits }), trouble: "" };
  } catch (error) {
    return { changed: null, trouble: error.message };
  }
}

/**
 * Fetch both looks.
 * @param {import("./state.js").State} state
 * @param {(text: string|null) => void} onText
 * @returns {Promise<Looks>}
 */
export async function looksFor({ source, edits }, onText) {
  const plain = await plainLook(source, onText);
  return { plain, ...(await changedLook(source, edits)) };
}
