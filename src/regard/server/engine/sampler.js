// How the next token is chosen: the most probable one, or one that is drawn, as `decoding/sampling.py`
// has it. Random numbers are this page's own: the same seed draws another text than on a server.

import { softmax } from "./algebra.js";

/** @typedef {import("./algebra.js").Row} Row */

/**
 * How a text is drawn.
 * @typedef {{temperature: number, topK: number|null, topP: number|null, seed: number}} Sampling
 */

/**
 * @param {Sampling} sampling
 * @returns {(logProbs: Row) => number} a token, given how probable each is; -Infinity: not at all
 */
export function samplerOf({ temperature, topK, topP, seed }) {
  if (temperature === 0) return (logProbs) => logProbs.indexOf(largest(logProbs));
  const random = numbersOf(seed);
  return (logProbs) => drawn(distribution(logProbs, { temperature, topK, topP }), random());
}

/**
 * First the temperature, then the most probable tokens, then of these the fewest that together reach
 * a share; what is left sums to 1.
 * @param {Row} logProbs
 * @param {{temperature: number, topK: number|null, topP: number|null}} how
 * @returns {Row}
 */
export function distribution(logProbs, { temperature, topK, topP }) {
  const most = largest(logProbs);
  const order = [...logProbs.keys()].sort((a, b) => logProbs[b] - logProbs[a]);
  const among = new Set(order.slice(0, topK ?? Infinity));
  const shares = softmax(logProbs.map((one) => (one - most) / temperature), (id) => among.has(id));
  if (topP === null || topP === 1) return shares;
  let before = 0;
  const kept = new Set(order.filter((id, rank) => {
    const isIn = rank === 0 || before < topP;
    before += shares[id];
    return isIn;
  }));
  const total = [...kept].reduce((sum, id) => sum + shares[id], 0);
  return shares.map((one, id) => (kept.has(id) ? one / total : 0));
}

function largest(numbers) {
  return numbers.reduce((a, b) => Math.max(a, b), -Infinity);
}

/** Where the cumulated shares first exceed a number in [0, 1). */
function drawn(shares, number) {
  let total = 0;
  const id = shares.findIndex((one) => (total += one) > number);
  return id >= 0 ? id : shares.findLastIndex((one) => one > 0); // rounding may leave a gap at the end
}

/** Numbers in [0, 1) that follow from a seed (mulberry32). @param {number} seed @returns {() => number} */
function numbersOf(seed) {
  let state = seed % 2 ** 32;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
