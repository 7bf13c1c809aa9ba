// What the run's best head for pronouns does in this sentence, beside how often it is right: all
// numbers are those of the head map, with the rule that is blind to the words, and what it costs.

import { shareText } from "./draw.js";
import { el } from "./elements.js";
import { whichDoes } from "./glossary.js";
import { knownHeads } from "./heads.js";

/**
 * A line about the head that finds antecedents best, where the sentence has a pronoun. Before heads
 * are measured nothing is claimed.
 * @param {{pronouns: string[]}|null} asked of /api/info
 * @param {Object} payload the look that is drawn
 * @param {string[]} languages
 * @param {(part: Object) => void} change
 * @returns {HTMLElement|null}
 */
export function antecedentLine(asked, payload, languages, change) {
  const tokens = payload.source_tokens;
  const places = asked ? tokens.flatMap((token, t) => (asked.pronouns.includes(token) ? [t] : [])) : [];
  if (!places.length || tokens.length < 3) return null;
  const heads = knownHeads();
  if (!heads) {
    const measure = el("button", { type: "button", class: "quiet", onclick: () => change({ view: "heads" }) }, "Measure the heads");
    return el("p", { class: "against", id: "antecedent" }, "Does a head find what a pronoun means, better than a rule that does not read? ", measure);
  }
  const best = bestOf(heads.rows);
  const weights = best && payload.attentions[best.name]?.[best.layer]?.[best.head];
  if (!weights) return null;
  const { name, layer, head } = best;
  const looks = places.map((t) => `from “${tokens[t]}” that head looks at ${lookedAt(tokens, weights[t], t)}`);
  const show = el(
    "button",
    { type: "button", class: "quiet", onclick: () => change({ name, layer, head, view: "matrix", token: null }) },
    "Show it",
  );
  return el("p", { class: "against", id: "antecedent" }, claim(heads, languages, best) + `Here ${looks.join(", ")}. `, show);
}

function bestOf(rows) {
  const known = rows.filter(({ antecedent }) => antecedent !== null && antecedent !== undefined);
  return known.reduce((a, b) => (b.antecedent > a.antecedent ? b : a), known[0] ?? null);
}

/** What may be said of the best head: no more than the head map shows. */
function claim({ n, antecedent_rule: rule }, languages, { name, layer, head, antecedent, loss_change: cost }) {
  const where = `layer ${layer}, head ${head}${whichDoes(name, languages)}`;
  const knowsRule = rule !== null && rule !== undefined;
  const verdict = antecedent > rule ? "" : ": so no head can be said to have learned it";
  const beside = knowsRule ? ` A blind rule, which always takes the word a fixed number of places before the pronoun, finds it ${shareText(rule)} of the time${verdict}.` : "";
  const worth = cost === null || cost === undefined ? "" : ` Without that head, right words are on average ${changed(cost)}.`;
  return `Another question, about all sentences: which head looks from a pronoun at the word that it refers to? Most often ${where}: ${shareText(antecedent)} of the time, on ${n} held-out sentences.${beside}${worth} `;
}

/** What a change of the loss, in nats a token, does to the probability of the right words. */
function changed(cost) {
  const by = Math.abs(1 - Math.exp(-cost));
  if (by < 0.0005) return "as probable as with it";
  return `${shareText(by)} ${cost > 0 ? "less" : "more"} probable`;
}

/** The word that gets most of a row: neither the pronoun itself nor the end token, as it is scored. */
function lookedAt(tokens, row, self) {
  let most = self === 0 ? 1 : 0;
  for (let s = 0; s < row.length - 1; s++) if (s !== self && row[s] > row[most]) most = s;
  return row[most] > 0 ? `“${tokens[most]}”` : "nothing";
}
