// What the lines above the picture speak of: the word, and the head on which it rests most. A story
// opens there, and its row is marked.

import { ask } from "./api.js";
import { bare } from "./outcomes.js";
import { stepOf } from "./rests.js";

/** @typedef {import("./state.js").State} State */

const QUICK = 2e7; // parameters of a model whose heads are measured without a reader waiting long

/**
 * The row of the chosen attention that is spoken of: the chosen one, else that of the word in the
 * headline, else that of a pronoun.
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object} info of the run
 * @returns {number|null}
 */
export function toldRow(state, payload, { antecedents }) {
  if (state.token !== null) return state.token;
  const side = payload.axes?.[state.name]?.rows;
  if (side === "target") return stepOf(state, payload, antecedents?.written ?? []);
  const pronoun = side === "source" && antecedents ? payload.source_tokens.findIndex((token) => antecedents.pronouns.includes(token)) : -1;
  return pronoun < 0 ? null : pronoun;
}

/**
 * The head of the chosen attention on which that word rests most; null where it is not known, or
 * another attention matters more.
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object} body what was asked for it
 * @param {Object} info of the run
 * @returns {Promise<{layer: number, head: number}|null>}
 */
export async function toldHead(state, payload, body, info) {
  const step = stepOf(state, payload, info.antecedents?.written ?? []);
  if (step === null || !info.weighs || info.parameters > QUICK) return null;
  const { packed: _, ...asked } = body;
  const { heads } = await ask("/api/importance", { ...asked, step }).catch(() => ({ heads: [] }));
  const most = heads.reduce((a, b) => (b.without < a.without ? b : a), heads[0]);
  return most?.attention === state.name ? { layer: most.layer, head: most.head } : null;
}

/**
 * Where a query is made: a written word has not been read there yet.
 * @param {string} reads the token that was read last
 * @param {string|null} writes the token that is written there, if one is
 * @returns {string}
 */
export function placeOf(reads, writes) {
  return writes === null ? `“${bare(reads)}”` : `the place after “${bare(reads)}”, where “${bare(writes)}” is written,`;
}
