// What an edit did: words that are new, weights that moved, and the one that moved most.

import { headOf, tokensOf } from "./draw.js";

/**
 * The words of b, each with whether it is new against a. A longest common subsequence is old; of
 * several such, the one with most words that kept their place.
 * @param {string[]} a
 * @param {string[]} b
 * @returns {{word: string, isNew: boolean}[]}
 */
export function newWords(a, b) {
  const common = lengths(a, b);
  const marked = [];
  let i = 0;
  for (let j = 0; j < b.length; ) {
    if (i < a.length && a[i] === b[j] && common[i][j] > common[i + 1][j]) {
      marked.push({ word: b[j++], isNew: false });
      i++;
    } else if (i < a.length && common[i + 1][j] >= common[i][j + 1]) i++;
    else marked.push({ word: b[j++], isNew: true });
  }
  return marked;
}

const WORD = 1000; // a word counts so much; one that kept its place counts one more

/** common[i][j]: what a subsequence that a[i…] and b[j…] share is worth. */
function lengths(a, b) {
  const common = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const kept = a[i] === b[j] ? common[i + 1][j + 1] + WORD + (i === j ? 1 : 0) : 0;
      common[i][j] = Math.max(kept, common[i + 1][j], common[i][j + 1]);
    }
  }
  return common;
}

/**
 * The weight of one attention that moved most. Only rows are compared that had read the same
 * target tokens, and only heads that were not themselves edited: what became of those is no news.
 * @param {Object} before a payload
 * @param {Object} after a payload
 * @param {{name: string, layer: number, head: number|null}} where null: over all heads
 * @returns {{by: number, was: number, is: number, row: string, column: string, head: number, n: number, of: number,
 *   others: boolean}|null} n rows of so many were compared, perhaps of other heads than the asked
 *   one; null where nothing can be compared
 */
export function largestMove(before, after, { name, layer, head }) {
  const was = before.attentions[name]?.[layer];
  const is = after.attentions[name]?.[layer];
  if (!was || !is) return null;
  const { rows, columns, axes } = tokensOf(after, name);
  const usesSource = axes.rows === "source" || axes.columns === "source";
  if (usesSource && !same(before.source_tokens, after.source_tokens)) return null;
  const edited = editedHeads(after.edits ?? [], name, layer);
  const others = edited.has(head);
  const heads = Array.from(is, (_, h) => h).filter((h) => !edited.has(h) && (head === null || others || h === head));
  const n = axes.rows === "source" ? rows.length : comparableRows(before, after, axes.rows);
  let most = null;
  for (const h of heads) {
    for (let t = 0; t < n; t++) {
      for (let s = 0; s < Math.min(is[h][t].length, was[h][t].length); s++) {
        const by = is[h][t][s] - was[h][t][s];
        if (!most || Math.abs(by) > Math.abs(most.by)) {
          most = { by, was: was[h][t][s], is: is[h][t][s], row: rows[t], column: columns[s], head: h, n, of: rows.length, others };
        }
      }
    }
  }
  return most;
}

/**
 * What became of the weights of a head, or of the mean of all: after minus before, for the rows that
 * had read the same target tokens.
 * @param {Object} before a payload
 * @param {Object} after a payload
 * @param {{name: string, layer: number, head: number|null}} where
 * @returns {{rows: string[], columns: string[], headings: Object, weights: number[][], of: number}|null}
 *   of so many rows; null where nothing can be compared
 */
export function changeOf(before, after, { name, layer, head }) {
  if (!before.attentions[name]?.[layer] || !after.attentions[name]?.[layer]) return null;
  const { rows, columns, headings, axes } = tokensOf(after, name);
  const usesSource = axes.rows === "source" || axes.columns === "source";
  if (usesSource && !same(before.source_tokens, after.source_tokens)) return null;
  const [was, is] = [before, after].map((one) => headOf(one, name, layer, head));
  const n = axes.rows === "source" ? rows.length : comparableRows(before, after, axes.rows);
  const wide = Math.min(was[0].length, is[0].length);
  const weights = Array.from({ length: n }, (_, t) => Array.from({ length: wide }, (__, s) => is[t][s] - was[t][s]));
  return n ? { rows: rows.slice(0, n), columns: columns.slice(0, wide), headings, weights, of: rows.length } : null;
}

/** Heads of one layer that an edit sets. */
function editedHeads(edits, name, layer) {
  const mine = edits.filter((edit) => edit.head !== undefined && edit.name === name && edit.layer === layer);
  return new Set(mine.map((edit) => edit.head));
}

const same = (a, b) => a.length === b.length && a.every((one, i) => one === b[i]);

/**
 * Rows before the first difference had read the same. A target's row writes its token, so the row
 * that wrote the difference had, too; a row of a text has read its token itself.
 */
function comparableRows(before, after, side) {
  const [a, b] = [before, after].map((one) =>
    side === "text" ? [...one.source_tokens, ...one.target_tokens] : one.target_tokens,
  );
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return Math.min(side === "text" ? n : n + 1, a.length, b.length);
}
