// Words of the field in one line and a small figure, under a dotted underline; and plain words in
// front of the names of attentions.

import { el } from "./elements.js";
import { zoomOf } from "./hover.js";

/**
 * @typedef {Object} Word
 * @property {string} line what it is, in one sentence
 * @property {string} figure the inside of an SVG of 120 × 44, drawn in the current colour
 */

const dot = (x, y, more = "") => `<circle cx="${x}" cy="${y}" r="4" ${more}/>`;
const line = (a, b, c, d, more = "") => `<path d="M${a} ${b}L${c} ${d}" fill="none" stroke="currentColor" ${more}/>`;
const box = (x, y, w, h, more = "") => `<rect x="${x}" y="${y}" width="${w}" height="${h}" rx="2" fill="none" stroke="currentColor" ${more}/>`;
const text = (x, y, words) => `<text x="${x}" y="${y}" font-size="10" fill="currentColor">${words}</text>`;
const cells = (x, y, shades) => shades.map((o, i) => `<rect x="${x + 9 * i}" y="${y}" width="8" height="8" fill="currentColor" fill-opacity="${o}"/>`).join("");

/** @type {Object<string, Word>} */
export const WORDS = {
  attention: {
    line: "How one word collects from others: how much it takes from which is worked out anew for every text.",
    figure: [20, 50, 80, 110].map((x, i) => line(60, 38, x - 4, 10, `stroke-width="${[0.5, 4, 1, 0.5][i]}"`) + dot(x - 4, 8)).join("") + dot(60, 38),
  },
  head: {
    line: "One of several attentions that work side by side in a layer, each looking in its own way; heads and layers are counted from 0.",
    figure: [0, 1, 2, 3].map((h) => box(6 + 28 * h, 8, 24, 24) + cells(9 + 28 * h, 12, h === 1 ? [0.9, 0.2] : [0.2, 0.5])).join(""),
  },
  layer: {
    line: "One round of the same work, first collecting from other words, then thinking each over alone; what leaves one layer enters the next.",
    figure: [0, 1, 2].map((i) => box(30, 32 - 13 * i, 60, 9)).join("") + line(60, 44, 60, 0, 'stroke-dasharray="2 2"'),
  },
  query: {
    line: "A list of numbers that a word makes to ask with: what am I looking for?",
    figure: cells(8, 18, [0.9, 0.1, 0.6, 0.3]) + text(54, 26, "who fits?") ,
  },
  key: {
    line: "A list of numbers that every word offers to be found by; a query is compared with it.",
    figure: [0, 1, 2].map((i) => cells(60, 4 + 13 * i, [[0.2, 0.8, 0.1], [0.9, 0.1, 0.6], [0.4, 0.4, 0.2]][i])).join("") + text(4, 26, "keys"),
  },
  value: {
    line: "A list of numbers that every word hands over when it is looked at: much if much is looked at it.",
    figure: cells(8, 18, [0.2, 0.7, 0.9]) + line(40, 22, 70, 22, 'stroke-width="3"') + cells(78, 18, [0.1, 0.4, 0.5]),
  },
  "cross-attention": {
    line: "The written words look at those that were read: the written ask, the read ones answer.",
    figure: text(0, 12, "read") + text(0, 42, "written") + [50, 70, 90, 110].map((x) => dot(x, 8)).join("") + dot(70, 38) + line(70, 34, 90, 12, 'stroke-width="3"') + line(70, 34, 50, 12),
  },
  "self-attention": {
    line: "The words of one text look at each other.",
    figure: [30, 60, 90].map((x) => dot(x, 34)).join("") + '<path d="M30 30C35 4 85 4 90 30" fill="none" stroke="currentColor" stroke-width="3"/>',
  },
  position: {
    line: "The place of a word in the text, told to the model as a code of numbers: without it, it could not know the order.",
    figure: '<path d="M4 22C16 -4 28 -4 34 22S58 48 64 22S88 -4 94 22S112 48 118 22" fill="none" stroke="currentColor"/>' + [34, 64, 94].map((x) => dot(x, 22)).join(""),
  },
  softmax: {
    line: "Turns any scores into shares that are positive and sum to 1; the largest gets most.",
    figure: [8, 14, 30, 10].map((h, i) => `<rect x="${20 + 20 * i}" y="${40 - h}" width="12" height="${h}" fill="currentColor"/>`).join(""),
  },
  scale: {
    line: "Scores are divided by the root of the keys’ width, or the softmax would be hard before it has learned.",
    figure: text(8, 27, "q·k ÷ √d") ,
  },
  residual: {
    line: "A path around each sub-layer: what it finds is added to what was there, so nothing is lost on the way.",
    figure: line(6, 34, 114, 34) + box(40, 6, 40, 14) + '<path d="M24 34V13H40M80 13H96V34" fill="none" stroke="currentColor"/>' + text(92, 44, "+"),
  },
  norm: {
    line: "Shifts and stretches a vector so that its numbers stay of one size from layer to layer.",
    figure: cells(6, 18, [1, 0.1, 0.9, 0]) + line(48, 22, 66, 22) + cells(74, 18, [0.7, 0.3, 0.6, 0.2]),
  },
  "feed-forward": {
    line: "Two matrices with a nonlinearity between them, applied to every word alone: it works on what was collected.",
    figure: box(12, 14, 16, 16) + box(44, 4, 32, 36) + box(92, 14, 16, 16) + line(28, 22, 44, 22) + line(76, 22, 92, 22),
  },
  token: {
    line: "What a model reads and writes: a word, a piece of one, or a patch of a picture.",
    figure: box(6, 14, 34, 16) + box(44, 14, 20, 16) + box(68, 14, 44, 16),
  },
  weight: {
    line: "How much one word looks at another, as a share: a row of weights sums to 1.",
    figure: cells(20, 18, [0.1, 0.7, 0.1, 0.05, 0.05]) + text(76, 26, "= 1"),
  },
  logit: {
    line: "The score of a possible next token; the softmax of all of them are the probabilities.",
    figure: [6, 22, 30, 12].map((h, i) => line(20, 8 + 10 * i, 20 + 2.5 * h, 8 + 10 * i, 'stroke-width="5"')).join(""),
  },
  vector: {
    line: "A list of numbers, such as those that stand for one word; words that are used alike have lists alike.",
    figure: text(4, 26, "cat") + line(28, 22, 44, 22) + cells(50, 18, [0.9, 0.1, 0.6, 0.3, 0.7, 0.2]),
  },
  mute: {
    line: "To switch a head off: it hands over nothing, and one sees what the answer loses. Papers say: to ablate it.",
    figure: [0, 1, 2, 3].map((h) => box(6 + 28 * h, 10, 24, 24, h === 1 ? 'stroke-dasharray="3 3"' : "") + (h === 1 ? "" : cells(9 + 28 * h, 18, [0.9, 0.4]))).join(""),
  },
  source: {
    line: "The text that is read, such as the English sentence.",
    figure: box(4, 14, 40, 16, 'stroke-width="3"') + line(48, 22, 70, 22) + box(74, 14, 40, 16),
  },
  target: {
    line: "The text that is written, such as its translation, one word after the other.",
    figure: box(4, 14, 40, 16) + line(48, 22, 70, 22) + box(74, 14, 40, 16, 'stroke-width="3"'),
  },
  "</s>": {
    line: "The sign for the end of a sentence; writing it is how a model says that it has finished. <s> is the sign for its beginning.",
    figure: box(4, 14, 34, 16) + box(42, 14, 26, 16) + box(72, 14, 14, 16, 'stroke-width="3"'),
  },
  beam: {
    line: "A search that keeps the few best beginnings of a sentence open, not only the single best one.",
    figure: dot(10, 22) + [6, 22, 38].map((y) => line(10, 22, 55, y) + dot(55, y)).join("") + [12, 30].map((y, i) => line(55, [6, 22][i], 105, y) + dot(105, y)).join(""),
  },
  temperature: {
    line: "A divisor of scores before they become shares: above 1 the shares even out, below 1 the largest takes nearly all.",
    figure: [6, 30, 8].map((h, i) => `<rect x="${10 + 14 * i}" y="${40 - h}" width="10" height="${h}" fill="currentColor"/>`).join("") + [14, 18, 15].map((h, i) => `<rect x="${68 + 14 * i}" y="${40 - h}" width="10" height="${h}" fill="currentColor"/>`).join(""),
  },
  "held-out": {
    line: "Kept away from training: sentences that the model has never seen, on which it is tested.",
    figure: box(4, 8, 74, 28) + box(88, 8, 26, 28, 'stroke-dasharray="3 3"') + text(16, 26, "trained on"),
  },
};

let last = 0;

/**
 * A word with its meaning one click, tap or Enter away.
 * @param {string} name of `WORDS`
 * @param {string} [shown] another form of it, such as a plural
 * @returns {HTMLElement}
 */
export function term(name, shown = name) {
  const id = `word-${++last}`;
  const button = el("button", { type: "button", class: "term", "aria-describedby": id, "data-term": name }, shown);
  button.setAttribute("popovertarget", id);
  const note = el("span", { id, popover: "auto", class: "meaning" }, el("b", {}, name), ` ${WORDS[name].line}`, pictureOf(WORDS[name].figure));
  note.addEventListener("toggle", () => place(note, button));
  return el("span", { class: "termed" }, button, note);
}

/** A figure of this file, which holds no words from elsewhere. */
function pictureOf(inside) {
  const parsed = new DOMParser().parseFromString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 44" aria-hidden="true" fill="currentColor">${inside}</svg>`, "image/svg+xml");
  return document.importNode(parsed.documentElement, true);
}

/** Below its word, inside the window. */
function place(note, button) {
  const [at, { width, height }, zoom] = [button.getBoundingClientRect(), note.getBoundingClientRect(), zoomOf(note)];
  note.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8)) / zoom}px`;
  const below = at.bottom + 6 + height < innerHeight;
  note.style.top = `${(below ? at.bottom + 6 : Math.max(8, at.top - height - 6)) / zoom}px`;
}

/**
 * A sentence in which `[word]` or `[word|shown]` is explained; what is no word of ours stays as it is.
 * @param {string} sentence
 * @returns {(Node|string)[]}
 */
export function explained(sentence) {
  return [...sentence.matchAll(/\[([^\][|]+)(?:\|([^\][]+))?\]|[^[]+|\[/g)].map(([whole, name, shown]) =>
    name !== undefined && Object.hasOwn(WORDS, name) ? term(name, shown ?? name) : whole,
  );
}

const SPOKEN = { en: "English", fr: "French", de: "German", es: "Spanish", cs: "Czech", it: "Italian" };

/**
 * What an attention is there for, in plain words before its name; languages that have no name in
 * words are left out.
 * @param {string} name such as decoder.cross
 * @param {string[]} [languages] of a run that translates: from, to
 * @returns {string}
 */
export function purpose(name, languages = []) {
  const [from, to] = languages.map((code) => SPOKEN[code]);
  const both = from && to;
  const known = {
    "encoder.self": both ? `reads ${from}` : "reads",
    "decoder.cross": both ? `writes ${to}, looking at ${from}` : "writes, looking at what was read",
    "decoder.self": both ? `looks back at its ${to}` : "looks back",
    "encoder.head.pool": "sums up what was read",
  };
  return known[name] ?? (name.endsWith(".compressed") ? "looks at the far past in short" : "");
}

/**
 * What follows “layer 1, head 3” in a sentence: what that attention does, and its name.
 * @param {string} name
 * @param {string[]} [languages]
 * @returns {string}
 */
export function whichDoes(name, languages) {
  const why = purpose(name, languages);
  return why ? `, which ${why} (${name})` : ` of ${name}`;
}

/**
 * The name of an attention with its purpose in front.
 * @param {string} name
 * @param {string[]} [languages]
 * @returns {string}
 */
export function called(name, languages) {
  const why = purpose(name, languages);
  return why ? `${why} · ${name}` : name;
}
