// Two sentences, two heads or two runs side by side: what is pointed at in one is lit in both.

import { ask } from "./api.js";
import { drawMatrix, headOf, spoken, tokensOf, unpacked } from "./draw.js";
import { choice, el, fill } from "./elements.js";
import { answerOf } from "./outcomes.js";
import { oneHead } from "./state.js";

/** @typedef {import("./state.js").State} State */

/**
 * One of the two: a look, and the head of it that is drawn.
 * @typedef {Object} Side
 * @property {Object} payload
 * @property {string} title
 * @property {string} said under the title
 * @property {string} name of the attention
 * @property {number} layer
 * @property {number|null} head null: the mean of all
 */

const ALIKE = 5e-7; // rounding

/** Words that change what a pronoun means, and with it the word that is written. */
const PAIRS = [["tired", "wide"]];

/**
 * The sentence to put beside: the same with the other word of a pair, or an example.
 * @param {string} source
 * @param {string[]} examples
 * @returns {string}
 */
export function partnerOf(source, examples) {
  for (const [a, b] of PAIRS) {
    const other = { [a]: b, [b]: a };
    const swapped = source.replace(new RegExp(`\\b(${a}|${b})\\b`), (word) => other[word]);
    if (swapped !== source) return swapped;
  }
  return examples.find((text) => text && text !== source) ?? source;
}

/**
 * Draw both.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object} body what was asked for it
 * @param {{examples: string[], attentions: any[], beside: {name: string}|null, name: string}} known
 *   of the run, and of the one that is served beside it
 * @param {(part: Partial<State>) => void} change
 */
export async function showCompare(box, state, payload, body, known, change) {
  const versus = waysOf(known).some(([way]) => way === state.versus) ? state.versus : "sentence";
  const waiting = el("p", { class: "hint", role: "status" }, "looking…");
  const { form, sides } = WAYS[versus](state, payload, body, known, change);
  fill(box, el("div", { class: "beside-form" }, wayChoice(versus, known, change), ...form), waiting);
  try {
    const pair = (await sides()).map(partOf);
    if (!waiting.isConnected) return;
    waiting.replaceWith(el("div", { class: "beside-each" }, ...pair.map(({ part }) => part)), el("p", { class: "hint", id: "difference" }, differenceOf(pair[0].side, pair[1].side)));
    pair.forEach(({ canvas, draw }) => (draw(), light(canvas, pair.map((one) => one.canvas))));
  } catch (error) {
    waiting.replaceWith(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

/** What can be compared here. */
function waysOf({ attentions, beside }) {
  const several = attentions.some(({ layers, heads }) => layers * heads > 1);
  const ways = [["sentence", "two sentences"], ...(several ? [["head", "two heads"]] : []), ...(beside ? [["run", "two runs"]] : [])];
  return /** @type {[string, string][]} */ (ways);
}

function wayChoice(versus, known, change) {
  return choice("Compare", waysOf(known), versus, (way) => change({ versus: /** @type {any} */ (way) }));
}

/** What is asked and drawn for each way: a form, and the two sides once they have come. */
const WAYS = {
  sentence(state, payload, body, { examples }, change) {
    const beside = state.beside || partnerOf(body.source, examples);
    const { target, ...asked } = body;
    const sides = async () => {
      const other = await unpacked(await ask("/api/explain", { ...asked, source: beside }));
      return [payload, other].map((one) => sideOf(one, one.source || "The text", answered(one), state));
    };
    return { form: [sentenceForm(beside, body.source, change)], sides };
  },

  head(state, payload, body, { attentions }, change) {
    const { name, layer } = state;
    const one = attentions.find((each) => each.name === name);
    const rival = rivalOf(state, one);
    const sides = async () => {
      const exact = rival.layer === layer ? payload : await unpacked(await ask("/api/explain", { ...body, packed: { name, layer: rival.layer } }));
      return [[payload, state], [exact, rival]].map(([look, place]) => sideOf(look, placeOf(place), "", { ...place, name }));
    };
    return { form: headForm(rival, one, change), sides };
  },

  run(state, payload, body, { beside, name }) {
    const sides = async () => {
      const { target, edits, ...asked } = body;
      const other = await unpacked(await ask("/api/beside/explain", asked));
      return [sideOf(payload, name, answered(payload), state), sideOf(other, beside.name, answered(other), nearest(state, other))];
    };
    return { form: [el("p", { class: "hint" }, "The same text, read by both runs. What-ifs change the left one.")], sides };
  },
};

const answered = (payload) => `→ ${answerOf(payload)}`;

function sideOf(payload, title, said, { name, layer, head }) {
  return { payload, title, said, name, layer, head: oneHead(head) };
}

const placeOf = ({ layer, head }) => `Layer ${layer}, ${oneHead(head) === null ? "mean of all heads" : `head ${head}`}`;

/** The head beside: the one that was chosen, else the next one. */
function rivalOf({ layer, head, rival }, one) {
  const [l, h] = rival ?? [layer, ((oneHead(head) ?? -1) + 1) % one.heads];
  return { layer: Math.min(l, one.layers - 1), head: h === null ? null : Math.min(h, one.heads - 1) };
}

/** The head of another model at the same place, or at the nearest that it has. */
function nearest({ name, layer, head }, { attentions }) {
  const layers = attentions[name];
  if (!layers) throw new Error(`The run beside has no ${name}; it has ${Object.keys(attentions).join(", ") || "no attention"}. Choose one that both have.`);
  const l = Math.min(layer, layers.length - 1);
  return { name, layer: l, head: oneHead(head) === null ? null : Math.min(Number(head), layers[l].length - 1) };
}

function headForm({ layer, head }, one, change) {
  const counted = (n) => Array.from({ length: n }, (_, i) => /** @type {[string, string]} */ ([`${i}`, `${i}`]));
  return [
    choice("Layer beside", counted(one.layers), String(layer), (value) => change({ rival: [Number(value), head] })),
    choice("Head beside", [["", "mean of all"], ...counted(one.heads)], head === null ? "" : String(head), (value) => change({ rival: [layer, value === "" ? null : Number(value)] })),
  ];
}

function sentenceForm(beside, source, change) {
  const typed = el("input", { type: "text", value: beside, "data-control": "Beside it" });
  const submit = (event) => {
    event.preventDefault();
    const text = /** @type {any} */ (typed).value.trim();
    if (text) change({ beside: text });
  };
  const swap = el("button", { type: "button", "data-control": "swap sentences", onclick: () => change({ source: beside, beside: source, token: null, edits: [] }) }, "Change places");
  return el("form", { class: "beside-form", onsubmit: submit }, el("label", { class: "choice" }, el("span", {}, "Beside it"), typed), el("button", { type: "submit", "data-control": "compare" }, "Compare"), swap);
}

function partOf(side) {
  const { payload, title, said, name, layer, head } = side;
  const canvas = el("div", { class: "canvas" });
  const part = el("div", {}, el("h2", {}, title), said ? el("p", { class: "hint" }, said) : "", canvas);
  const label = `${title}: ${name}, layer ${layer}`;
  return { side, part, canvas, draw: () => drawMatrix(canvas, payload, { name, layer, head, title: label }) };
}

/** Rows, columns and cells with the same numbers are lit in all canvases. */
function light(canvas, all) {
  const cells = (t, s) => `[data-t="${t}"][data-s="${s}"], [data-row="${t}"], [data-column="${s}"]`;
  const lit = (event) => {
    const one = event.target.closest?.("[data-t], [data-row], [data-column]");
    for (const other of all) {
      for (const was of other.querySelectorAll(".lit")) was.classList.remove("lit");
      if (!one) continue;
      const { t, s, row, column } = one.dataset;
      const which = t !== undefined ? cells(t, s) : row !== undefined ? `[data-row="${row}"], [data-t="${row}"]` : `[data-column="${column}"], [data-s="${column}"]`;
      for (const now of other.querySelectorAll(which)) now.classList.add("lit");
    }
  };
  for (const kind of ["pointerover", "focusin"]) canvas.addEventListener(kind, lit);
  canvas.addEventListener("pointerleave", lit);
}

/**
 * Where the two differ most, if their rows and columns can be compared one by one.
 * @param {Side} a
 * @param {Side} b
 * @returns {string}
 */
function differenceOf(a, b) {
  if (![a, b].every(({ payload, name, layer }) => payload.attentions[name]?.[layer])) return "";
  const [mine, other] = [a, b].map(({ payload, name }) => tokensOf(payload, name));
  if (mine.rows.length !== other.rows.length || mine.columns.length !== other.columns.length) {
    return "The two have different lengths, so their weights are not compared one by one.";
  }
  const [first, second] = [a, b].map(({ payload, name, layer, head }) => headOf(payload, name, layer, head));
  let most = { by: -1, t: 0, s: 0 };
  mine.rows.forEach((_, t) =>
    mine.columns.forEach((__, s) => {
      const by = Math.abs(first[t][s] - second[t][s]);
      if (by > most.by) most = { by, t, s };
    }),
  );
  const { by, t, s } = most;
  if (by < ALIKE) return "No weight of the two differs.";
  const place = (one) => `${one.rows[t]} → ${one.columns[s]}`;
  return `Largest difference: ${place(mine)} ${spoken(first[t][s])} on the left, ${place(other)} ${spoken(second[t][s])} on the right.`;
}
