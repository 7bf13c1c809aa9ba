// What is told of a look: weights, steps, rollout, what a word loses without each head, and a token's
// story. The same plain data as the server's `/api/explain`, `/api/importance` and `/api/story`.

import { Refusal } from "./what_ifs.js";

/** @typedef {import("./run.js").Run} Run */
/** @typedef {import("./run.js").Look} Look */
/** @typedef {{name: string, layer: number, head: number, token: string|number}} Chosen */

const POSITIONS = 64; // codes of so many positions are told
const DIGITS = 1e6; // numbers of a story are rounded to it

/**
 * The object of `explain --format json`.
 * @param {Run} run
 * @param {Look} look
 * @returns {Object}
 */
export function payloadOf(run, look) {
  const names = Object.keys(look.records);
  const axes = Object.fromEntries(names.map((name) => [name, run.axesOf(name)]));
  const used = new Set(Object.values(axes).flatMap(({ rows, columns }) => [rows, columns]));
  return {
    source: look.source,
    ...run.told(look),
    attentions: Object.fromEntries(names.map((name) => [name, look.records[name].map(({ weights }) => plainly(weights))])),
    axes,
    sides: Object.fromEntries([...used].map((side) => [side, { kind: "tokens", labels: look.sides[side] }])),
    edits: look.edits,
    ...run.toldBeside([look.source]),
    notes: run.notes(look),
  };
}

/** Rows of rows of numbers as lists. */
function plainly(rows) {
  return ArrayBuffer.isView(rows) ? Array.from(rows) : rows.map(plainly);
}

// ---------------------------------------------------------------- steps

/**
 * How one token attends, step by step.
 * @param {Run} run
 * @param {Look} look
 * @param {Chosen} chosen
 * @returns {Object}
 */
export function stepsOf(run, look, { name, layer, head, token }) {
  const { record, t, rows, columns } = rowOf(run, look, { name, layer, token });
  const { scale, prior, nKeys, isVisible } = record;
  if (head >= record.weights.length) throw new Refusal(`${name} has heads 0 to ${record.weights.length - 1}, not ${head}`);
  const keys = Array.from({ length: nKeys }, (_, s) => s);
  const weights = record.weights[head][t];
  const values = keys.map((s) => record.value(head, s));
  const total = record.outputs[head][t];
  const projected = Array.from(run.model.attentionAt({ name, layer }).projected(total, head));
  return {
    name, layer, head, token: t, row: rows[t], columns,
    query: Array.from(record.query(head, t)),
    keys: plainly(keys.map((s) => record.key(head, s))),
    scores: Array.from(record.scores[head][t]),
    scale,
    scaled: Array.from(record.scaled[head][t]),
    visible: keys.map((s) => isVisible(head, t, s)),
    prior: prior && keys.map(() => prior[head]),
    weights: Array.from(weights),
    values: plainly(values),
    weighted: values.map((value, s) => Array.from(value, (one) => one * weights[s])),
    sum: Array.from(total),
    projected,
    residual: projected,
  };
}

/** The record of an attention and the row that is meant: the first of that name, or that number. */
function rowOf(run, look, { name, layer, token }) {
  const layers = Object.hasOwn(look.records, name) ? look.records[name] : null;
  if (!layers) throw new Refusal(`no attention '${name}'; known: ${Object.keys(look.records).join(", ")}`);
  if (layer >= layers.length) throw new Refusal(`${name} has layers 0 to ${layers.length - 1}, not ${layer}`);
  const axes = run.axesOf(name);
  const rows = look.sides[axes.rows];
  const t = typeof token === "number" ? token : rows.indexOf(token);
  if (t < 0) throw new Refusal(`no row of ${name} is '${token}'; its rows are ${rows.join(" ")}`);
  if (t >= rows.length) throw new Refusal(`${name} has rows 0 to ${rows.length - 1}, not ${t}`);
  return { record: layers[layer], t, rows, columns: look.sides[axes.columns] };
}

/**
 * Where a self-attention leads through all its layers (Abnar & Zuidema 2020): half of what a layer
 * passes on is taken to be the position itself; layers multiply.
 * @param {Look} look
 * @param {string} name
 * @returns {number[][]}
 */
export function rolledOut(look, name) {
  const own = Object.keys(look.records).filter((one) => one.endsWith(".self"));
  if (!own.length) throw new Refusal("a rollout follows self-attention, and this system has none");
  if (!own.includes(name)) throw new Refusal(`rollout follows a self-attention, which '${name}' is not; this system has ${own.join(", ")}`);
  const n = look.records[name][0].nKeys;
  const places = Array.from({ length: n }, (_, i) => i);
  let through = places.map((t) => places.map((s) => Number(t === s)));
  for (const { weights } of look.records[name]) {
    through = places.map((t) => {
      const step = places.map((s) => 0.5 * (weights.reduce((sum, head) => sum + head[t][s], 0) / weights.length) + 0.5 * Number(t === s));
      const total = step.reduce((a, b) => a + b, 0);
      return places.map((s) => step.reduce((sum, share, u) => sum + (share / total) * through[u][s], 0));
    });
  }
  return through;
}

// ---------------------------------------------------------------- what a word loses without a head

/**
 * How probable the tokens of a look are without each head, all else fixed; a pause comes after each
 * head, so that the page stays alive.
 * @param {Run} run
 * @param {Look} look
 * @param {() => Promise<void>} pause
 * @returns {Promise<{tokens: string[], whole: number[], heads: {attention: string, layer: number, head: number, without: number[]}[]}>}
 */
export async function importances(run, look, pause) {
  const heads = [];
  for (const { name, layer } of run.model.places) {
    for (let head = 0; head < look.records[name][layer].weights.length; head++) {
      await pause();
      heads.push({ attention: name, layer, head, without: run.sharesWithout(look, { name, layer, head }) });
    }
  }
  return { tokens: look.tokens, whole: run.shares(look), heads };
}

// ---------------------------------------------------------------- the story of one token

/**
 * One token's way through the model, stage by stage.
 * @param {Run} run
 * @param {Look} look
 * @param {Chosen} chosen
 * @returns {Object}
 */
export function storyOf(run, look, chosen) {
  const steps = stepsOf(run, look, chosen);
  const { name, token: t } = steps;
  const side = run.axesOf(name).rows;
  const { reads, writes } = run.standsAt(look, side, t);
  return {
    kind: "blocks",
    source: look.source,
    words: wordsOf(run, look.source, look.sides.source),
    rows: look.sides[side],
    reads,
    writes,
    steps,
    positions: steps.columns,
    story: rounded(blocksOf(run, look, name, chosen.layer, t)),
    outcome: run.outcomeAt(look, t, writes),
  };
}

/** The words of the source, each with its pieces; marks around them stand alone. */
function wordsOf(run, source, tokens) {
  const read = run.reader.tokens(run.reader.encode(source));
  const alone = (text) => ({ text, pieces: [text] });
  const first = tokens.findIndex((_, i) => read.every((piece, k) => piece === tokens[i + k]));
  if (first < 0) return tokens.map(alone); // two texts with marks between them
  const words = tokens.slice(0, first).map(alone);
  let last = -1;
  run.reader.offsets(source).forEach(([begin, end], i) => {
    const [text, piece] = [source.slice(begin, end), read[i]];
    if (begin === last && text.trimStart() === text) {
      words.at(-1).text += text;
      words.at(-1).pieces.push(piece);
    } else words.push({ text: text.trim(), pieces: [piece] });
    last = end;
  });
  for (const word of words) word.text ||= word.pieces[0]; // only now: a space of its own may begin a word
  return [...words, ...tokens.slice(first + read.length).map(alone)];
}

function blocksOf(run, look, name, layer, t) {
  const stack = look.stacks[name.split(".")[0]];
  const told = stack.layers[layer];
  const attention = run.model.attentionAt({ name, layer });
  const heads = told.records[name].outputs.map((rows) => rows[t]);
  return {
    layer,
    embedded: embeddedOf(run, stack, t),
    place: null, // positions of texts join what the first layer reads, or are told inside attention
    window: null, // none is known here
    norm_first: run.file.config.norm_first,
    sublayers: told.sublayers.map(({ kind, ...rows }) => ({ kind, ...Object.fromEntries(Object.entries(rows).map(([key, all]) => [key, all[t]])) })),
    heads,
    projected: heads.map((output, h) => attention.projected(output, h)),
    bias: attention.toOut.bias?.data ?? null,
    inner: told.inner[t],
    active: told.active[t],
    stream: [stack.embedded[t].vector, ...stack.layers.map(({ leaves }) => leaves[t])],
    states: stack.states[t],
  };
}

function embeddedOf(run, { embedded }, t) {
  const codes = embedded.slice(0, POSITIONS).map(({ code }) => code);
  const apart = (a, b) => Math.hypot(...a.map((one, i) => one - b[i]));
  return { kind: run.file.config.positions, position: t, ...embedded[t], codes, distances: codes.map((a) => codes.map((b) => apart(a, b))) };
}

/** The same with every row of numbers as a list, rounded. */
function rounded(told) {
  if (ArrayBuffer.isView(told)) return Array.from(told, rounded);
  if (typeof told === "number") return Math.round(told * DIGITS) / DIGITS;
  if (Array.isArray(told)) return told.map(rounded);
  if (told === null || typeof told !== "object") return told;
  return Object.fromEntries(Object.entries(told).map(([key, value]) => [key, rounded(value)]));
}
