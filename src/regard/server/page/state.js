// What the reader has chosen, and its form as a link: everything is in the part after "#", which
// browsers keep to themselves.

import { isKind } from "./edits.js";
import { MEAN } from "./patches.js";
import { isSampling, START_SAMPLING } from "./sampling.js";
import { THEME } from "./theme.js";

/**
 * The sentences of a text: its lines that have something in them.
 * @param {string} text
 * @returns {string[]}
 */
export function linesOf(text) {
  return text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
}

/**
 * @typedef {Object} State
 * @property {string} source the text; of a translator, a sentence on each line; the name of a picture
 * @property {string} other the second text, where two go in
 * @property {Object<string, number|string|null>} manner how a language model samples (sampling.js)
 * @property {number} line which of the task's sentences is looked at, counted from 0
 * @property {"lines"|"picture"|"matrix"|"grid"|"rollout"|"beam"|"heads"|"story"|"compare"} view
 * @property {"sentence"|"head"|"run"} versus what is compared
 * @property {string} beside the sentence to compare with; "": one is proposed
 * @property {[number, number|null]|null} rival layer and head to compare with; null: one is proposed
 * @property {string} name which attention, such as decoder.cross
 * @property {number|null} layer counted from 0; null: the last, until the model is known
 * @property {number|"all"|null} head counted from 0; null: the mean of them; "all": each by itself
 * @property {number|null} token the row whose steps are shown, or MEAN of a picture's rows
 * @property {number|null} patch the column of a picture that is chosen
 * @property {boolean} patches draw weights over a picture as patches, not smoothly
 * @property {number} threshold lines below it are not drawn
 * @property {boolean} plain draw the plain run although there are edits
 * @property {number} beams width of the beam
 * @property {string[]} prefix target tokens that the beam begins with
 * @property {Object[]} edits the what-ifs
 * @property {string|null} station where the story is to open; null: at its beginning
 * @property {string} [ended] what-ifs that ended with the sentence before, in words; no part of a link
 */

export const VIEWS = {
  picture: "Picture",
  lines: "Lines",
  story: "Story",
  matrix: "Matrix",
  grid: "All heads",
  rollout: "Rollout",
  beam: "Beam",
  heads: "Head map",
  compare: "Compare",
};

/** @type {State} */
export const START = Object.freeze({
  source: "",
  other: "",
  manner: START_SAMPLING,
  line: 0,
  view: THEME.start.view,
  versus: "sentence",
  beside: "",
  rival: null,
  name: "decoder.cross",
  layer: null,
  head: null,
  token: null,
  patch: null,
  patches: false,
  threshold: THEME.start.threshold,
  plain: false,
  beams: 4,
  prefix: [],
  edits: [],
  station: null,
});

/**
 * The state as the part of a link after "#"; what is as at the start is left out.
 * @param {State} state
 * @returns {string}
 */
export function toHash(state) {
  const parts = new URLSearchParams();
  for (const [key, first] of Object.entries(START)) {
    const value = state[key];
    if (JSON.stringify(value) === JSON.stringify(first)) continue;
    parts.set(key, typeof value === "string" ? value : JSON.stringify(value));
  }
  return "#" + parts;
}

/**
 * The state that a link carries. A link may come from anyone: what does not fit is dropped.
 * @param {string} hash
 * @returns {State}
 */
export function fromHash(hash) {
  const state = { ...START };
  for (const [key, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!Object.hasOwn(START, key)) continue;
    const value = typeof START[key] === "string" ? text : parsed(text);
    if (FITS[key](value)) state[key] = value;
  }
  return state;
}

const isCount = (x) => Number.isInteger(x) && x >= 0;
const isText = (x) => typeof x === "string";

/** @type {Object<string, (value: any) => boolean>} */
const FITS = {
  source: isText,
  other: isText,
  manner: isSampling,
  line: isCount,
  view: (x) => Object.hasOwn(VIEWS, x),
  versus: (x) => ["sentence", "head", "run"].includes(x),
  beside: isText,
  rival: (x) => x === null || (Array.isArray(x) && x.length === 2 && isCount(x[0]) && (x[1] === null || isCount(x[1]))),
  name: isText,
  layer: (x) => x === null || isCount(x),
  head: (x) => x === null || x === "all" || isCount(x),
  token: (x) => x === null || x === MEAN || isCount(x),
  patch: (x) => x === null || isCount(x),
  patches: (x) => typeof x === "boolean",
  threshold: (x) => typeof x === "number" && x >= 0 && x <= 1,
  plain: (x) => typeof x === "boolean",
  beams: (x) => isCount(x) && x >= 1 && x <= 8,
  prefix: (x) => Array.isArray(x) && x.every(isText),
  edits: (x) => Array.isArray(x) && x.every((one) => one !== null && isKind(one.kind)),
  station: (x) => x === null || isText(x),
};

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text; // a word, such as "all"
  }
}

/**
 * The state, moved to a line that there is, and an attention, layer and head of the model.
 * @param {State} state
 * @param {{name: string, layers: number, heads: number}[]} attentions
 * @param {number} nLines
 * @returns {State}
 */
export function fitted(state, attentions, nLines) {
  const one =
    attentions.find(({ name }) => name === state.name) ??
    attentions.find(({ name }) => name === START.name) ??
    attentions[0];
  const line = Math.max(0, Math.min(state.line, nLines - 1));
  if (!one) return { ...state, line };
  const layer = Math.min(state.layer ?? Infinity, one.layers - 1);
  const all = state.head === "all" && state.view === "lines" ? "all" : null; // other views draw one
  const head = oneHead(state.head) === null ? all : Math.min(Number(state.head), one.heads - 1);
  return { ...state, line, name: one.name, layer, head };
}

/**
 * The head that is chosen, or null where it is their mean or all of them.
 * @param {number|"all"|null} head
 * @returns {number|null}
 */
export function oneHead(head) {
  return typeof head === "number" ? head : null;
}
