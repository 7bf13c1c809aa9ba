// What may come out of a position: tokens and labels with their probabilities.

import { logSoftmax } from "./algebra.js";

/** @typedef {import("./algebra.js").Row} Row */
/** @typedef {import("./tokenizer.js").Tokenizer} Tokenizer */
/** @typedef {{text: string, probability: number}} Choice */

const CHOICES = 5; // told for each written token
const OUTCOMES = 8; // told in a story, and the rest as one

/** Places of numbers, the largest first. @param {Row} numbers @returns {number[]} */
function ranked(numbers) {
  return [...numbers.keys()].sort((a, b) => numbers[b] - numbers[a]);
}

/**
 * The most probable tokens.
 * @param {Tokenizer} tokenizer
 * @param {Row} logits
 * @returns {Choice[]}
 */
export function mostProbable(tokenizer, logits) {
  const logProbs = logSoftmax(logits);
  const ids = ranked(logProbs).slice(0, CHOICES);
  const texts = tokenizer.tokens(ids);
  return ids.map((id, i) => ({ text: texts[i], probability: Math.exp(logProbs[id]) }));
}

/**
 * All labels, the most probable first.
 * @param {string[]} names
 * @param {Row} logits
 * @returns {Choice[]}
 */
export function labelChoices(names, logits) {
  const logProbs = logSoftmax(logits);
  return ranked(logProbs).map((i) => ({ text: names[i], probability: Math.exp(logProbs[i]) }));
}

/**
 * How probable each id is, given the logits of its position.
 * @param {number[]} ids
 * @param {Row[]} logits
 * @returns {number[]}
 */
export function sharesOf(ids, logits) {
  return ids.map((id, t) => Math.exp(logSoftmax(logits[t])[id]));
}

/**
 * What may come out of a position, the most probable first, and what did, for a story.
 * @param {Tokenizer} tokenizer
 * @param {Row} logits
 * @param {string|null} written null: nothing was
 * @returns {{choices: (Choice & {logit: number})[], rest: number, chosen: string|null}}
 */
export function outcomeOf(tokenizer, logits, written) {
  const logProbs = logSoftmax(logits);
  const names = tokenizer.tokens([...logProbs.keys()]);
  const ids = ranked(logProbs).slice(0, OUTCOMES);
  const said = names.indexOf(written);
  if (said >= 0 && !ids.includes(said)) ids.push(said);
  const choices = ids.map((id) => ({ text: names[id], probability: Math.exp(logProbs[id]), logit: logits[id] }));
  return { choices, rest: 1 - choices.reduce((sum, { probability }) => sum + probability, 0), chosen: written };
}
