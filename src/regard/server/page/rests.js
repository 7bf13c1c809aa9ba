// On which head a word rests: what its probability is without each, as /api/importance measures it.

import { ask } from "./api.js";
import { tokensOf } from "./draw.js";
import { el } from "./elements.js";
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
  const measure = () => measured(line, asked, payload, change);
  if (info.parameters <= SMALL) measure();
  else line.append(el("button", { type: "button", class: "quiet", onclick: measure }, "Measure on which heads this answer rests"));
  return line;
}

async function measured(line, asked, payload, change) {
  line.replaceChildren("Measuring on which head the answer rests…");
  line.setAttribute("aria-busy", "true");
  try {
    const found = await ask("/api/importance", asked);
    line.replaceChildren(...told(found, asked.step, payload, change));
    line.removeAttribute("aria-busy");
  } catch {
    line.remove(); // the answer stands without it
  }
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

function told({ token, probability, heads }, step, payload, change) {
  const whole = [q(token), ` (${share(probability)})`];
  const most = heads.reduce((a, b) => (b.without < a.without ? b : a), heads[0]);
  if (!most) return [];
  if (probability - most.without < LEAST) {
    return [...whole, ` rests on no single head: without any one of them it keeps ${share(most.without)} or more.`];
  }
  const { attention: name, layer, head } = most;
  const others = heads.filter((one) => one !== most && probability - one.without >= LEAST).length;
  return [
    ...whole, " rests most on ", el("b", {}, `${name}, layer ${layer}, head ${head}`),
    `: without it ${share(most.without)}. `,
    ...looked(payload, most, step),
    others ? `${others === 1 ? "One other head costs" : `${others} others cost`} it 1 % or more. ` : "",
    el("button", { type: "button", class: "quiet", onclick: () => change({ name, layer, head, view: "matrix", token: null }) }, "Show it"),
  ];
}

/** Where that head looks from the word, if its rows are those of the answer. */
function looked(payload, { attention: name, layer, head }, step) {
  const weights = payload.attentions[name]?.[layer]?.[head];
  if (!weights || payload.axes?.[name]?.rows !== "target") return [];
  const { columns } = tokensOf(payload, name);
  const row = weights[step];
  const most = row.indexOf(Math.max(...row));
  return ["That head looks from it to ", q(columns[most]), ` (${row[most].toFixed(2)}). `];
}

const q = (token) => el("span", {}, "“", bare(token), "”");
const share = (one) => `${(100 * one).toFixed(one > 0.995 || one < 0.01 ? 1 : 0)} %`;
