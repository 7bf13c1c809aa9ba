// On which head a word rests: what its probability is without each, as /api/importance measures it.

import { ask } from "./api.js";
import { probabilityText, tokensOf } from "./draw.js";
import { el } from "./elements.js";
import { whichDoes } from "./glossary.js";
import { bare } from "./outcomes.js";

/** @typedef {import("./state.js").State} State */

const SMALL = 2e7; // parameters of a model that is measured without being told to
const LEAST = 0.01; // a smaller loss of probability is told as none

/**
 * A line about the chosen word, or about one that is worth asking about; filled when it is measured.
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object} body what was asked for it
 * @param {Object} info of the run
 * @param {(part: Partial<State>) => void} change
 * @returns {HTMLElement|null}
 */
export function restsLine(state, payload, body, info, change) {
  const step = stepOf(state, payload, info.antecedents?.written ?? []); // a pronoun tells most
  if (step === null || !info.weighs || !Object.keys(payload.attentions).length) return null;
  const { packed: _, ...rest } = body;
  const asked = { ...rest, step };
  const line = el("p", { class: "against", id: "rests" });
  const measure = () => measured(line, asked, payload, info.languages ?? [], change);
  if (info.parameters <= SMALL) measure();
  else line.append(el("button", { type: "button", class: "quiet", onclick: measure }, "Measure on which heads this answer rests"));
  return line;
}

async function measured(line, asked, payload, languages, change) {
  line.replaceChildren("Measuring on which head the answer rests…");
  line.setAttribute("aria-busy", "true");
  try {
    const found = await weighed(asked);
    line.replaceChildren(...told(found, asked.step, payload, languages, change));
    line.removeAttribute("aria-busy");
  } catch {
    line.remove(); // the answer stands without it
  }
}

/**
 * What a word loses without each head, and the head it loses most without.
 * @param {Object} asked a text and a step
 * @returns {Promise<{token: string, probability: number, heads: Object[], most: Object|undefined}>}
 */
export async function weighed(asked) {
  const found = await ask("/api/importance", asked);
  return { ...found, most: found.heads.reduce((a, b) => (b.without < a.without ? b : a), found.heads[0]) };
}

/**
 * Which token of the answer is asked about: the chosen one, else one that tells, else the least
 * certain. A label is the only one.
 * @param {State} state
 * @param {Object} payload
 * @param {string[]} telling
 * @returns {number|null}
 */
export function stepOf(state, payload, telling) {
  const shares = payload.probabilities;
  if (!shares) return payload.outcome?.kind === "label" ? 0 : null;
  if (!shares.length) return null;
  const rows = payload.axes?.[state.name]?.rows;
  const before = rows === "text" ? payload.source_tokens.length : 0;
  const chosen = Number.isInteger(state.token) && (rows === "target" || rows === "text") ? state.token - before : -1;
  if (chosen >= 0 && chosen < shares.length) return chosen;
  const tells = payload.target_tokens.findIndex((token) => telling.includes(token));
  return tells >= 0 ? tells : shares.indexOf(Math.min(...shares));
}

function told({ token, probability, heads, most }, step, payload, languages, change) {
  if (!most) return [];
  const word = () => q(token);
  if (probability - most.without < LEAST) {
    return [word(), ` (${probabilityText(probability)}) rests on no single head: whichever one is muted, it loses less than 1 %.`];
  }
  const { attention: name, layer, head } = most;
  const others = heads.filter((one) => one !== most && probability - one.without >= LEAST).length;
  const more = others === 1 ? "One other head costs 1 % or more as well. " : `${others} other heads cost 1 % or more each. `;
  const place = [el("b", {}, `layer ${layer}, head ${head}`), whichDoes(name, languages)];
  return [
    ...looked(payload, most, step, word()), ...place, ". Without it ", word(),
    ` falls from ${probabilityText(probability)} to ${probabilityText(most.without)}. `,
    others ? more : "",
    el("button", { type: "button", class: "quiet", onclick: () => change({ name, layer, head, view: "matrix", token: null }) }, "Show it"),
  ];
}

/** The beginning of the line: where that head looks, if its rows are those of the answer. */
function looked(payload, { attention: name, layer, head }, step, word) {
  const weights = payload.attentions[name]?.[layer]?.[head];
  if (!weights || payload.axes?.[name]?.rows !== "target") return [word, " needs one head more than all others: "];
  const row = weights[step];
  const most = row.indexOf(Math.max(...row));
  if (!(row[most] > 0)) return ["While writing ", word, ", one head matters most: "]; // it is muted, or sees nothing
  return ["While writing ", word, `, one head looks ${row[most] > 0.5 ? "mostly" : "most"} at `, q(tokensOf(payload, name).columns[most]), ": "];
}

const q = (token) => el("span", {}, "“", bare(token), "”");
