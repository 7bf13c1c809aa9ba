// What an edit did: words that are new, and the weight that moved most.

import { tokensOf } from "./draw.js";

/**
 * The words of b, each with whether it is new against a (a longest common subsequence is old).
 * @param {string[]} a
 * @param {string[]} b
 * @returns {{word: string, isNew: boolean}[]}
 */
export function newWords(a, b) {
  const common = lengths(a, b);
  const marked = [];
  let i = 0;
  for (let j = 0; j < b.length; ) {
    if (i < a.length && a[i] === b[j]) {
      marked.push({ word: b[j++], isNew: false });
      i++;
    } else if (i < a.length && common[i + 1][j] >= common[i][j + 1]) i++;
    else marked.push({ word: b[j++], isNew: true });
  }
  return marked;
}

/** common[i][j]: how long a subsequence a[i…] and b[j…] share. */
function lengths(a, b) {
  const common = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] =
        a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  return common;
}

/**
 * The weight of one attention that moved most. Only rows are compared that had read the same
 * target tokens; null where no row and column can be compared.
 * @param {Object} before a payload
 * @param {Object} after a payload
 * @param {{name: string, layer: number, head: number|null}} where null: over all heads
 * @returns {{by: number, row: string, column: string, head: number}|null}
 */
export function largestMove(before, after, { name, layer, head }) {
  const was = before.attentions[name]?.[layer];
  const is = after.attentions[name]?.[layer];
  if (!was || !is || was[0][0].length !== is[0][0].length) return null;
  const { rows, columns, axes } = tokensOf(after, name);
  const n = axes.rows === "source" ? rows.length : comparableRows(before, after);
  let most = null;
  const heads = head === null ? is.keys() : [head];
  for (const h of heads) {
    for (let t = 0; t < n; t++) {
      for (let s = 0; s < columns.length; s++) {
        const by = is[h][t][s] - was[h][t][s];
        if (!most || Math.abs(by) > Math.abs(most.by)) {
          most = { by, row: rows[t], column: columns[s], head: h };
        }
      }
    }
  }
  return most;
}

/** Rows before the first difference had read the same; so had the row that wrote it. */
function comparableRows({ target_tokens: a }, { target_tokens: b }) {
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  return Math.min(same + 1, a.length, b.length);
}
