// What the run's best head for pronouns does in this sentence, beside how often it is right.

import { el } from "./elements.js";

/**
 * A line about the head that finds antecedents best, where the sentence has a pronoun.
 * @param {Object|null} best of /api/info: name, layer, head, share, shuffled, pronouns
 * @param {Object} payload the look that is drawn
 * @param {(part: Object) => void} change
 * @returns {HTMLElement|null}
 */
export function antecedentLine(best, payload, change) {
  const heads = best && payload.attentions[best.name]?.[best.layer];
  if (!heads) return null;
  const { name, layer, head } = best;
  const rowOf = (t) => (head === null ? mean(heads.map((one) => one[t])) : heads[head][t]);
  const tokens = payload.source_tokens;
  const looks = tokens.flatMap((token, t) =>
    best.pronouns.includes(token) ? [`from “${token}” it looks at ${lookedAt(tokens, rowOf(t), t)}`] : [],
  );
  if (!looks.length || tokens.length < 3) return null;
  const where = `${name}, layer ${layer}, ${head === null ? "mean of all heads" : `head ${head}`}`;
  const share = (one) => `${Math.round(100 * one)} %`;
  const words =
    `Best at finding what a pronoun means: ${where}. On the test sentences it is right for ` +
    `${share(best.share)} of the pronouns (${share(best.shuffled)} with shuffled weights); here ${looks.join(", ")}. `;
  const show = el(
    "button",
    { type: "button", class: "quiet", onclick: () => change({ name, layer, head, view: "matrix", token: null }) },
    "Show it",
  );
  return el("p", { class: "against", id: "antecedent" }, words, show);
}

/** The word that gets most of a row: neither the pronoun itself nor the end token, as it is scored. */
function lookedAt(tokens, row, self) {
  let most = self === 0 ? 1 : 0;
  for (let s = 0; s < row.length - 1; s++) if (s !== self && row[s] > row[most]) most = s;
  return row[most] > 0 ? `“${tokens[most]}”` : "nothing";
}

function mean(rows) {
  return rows[0].map((_, s) => rows.reduce((sum, row) => sum + row[s], 0) / rows.length);
}
