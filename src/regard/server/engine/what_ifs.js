// What-ifs: changes to what attentions are given, to the source and to the target, as `tasks/edits.py`
// and `inspection/edits.py` have them.

import { wordSpans } from "./tokenizer.js";

/** What was asked cannot be; the message is for readers. */
export class Refusal extends Error {
  /**
   * @param {string} message
   * @param {number} [status] as the server would answer
   */
  constructor(message, status = 422) {
    super(message);
    this.status = status;
  }
}

/** @typedef {{kind: string, [field: string]: any}} Edit */
/** @typedef {{name: string, layer: number}} Place */

const [COLDEST, HOTTEST] = [0.01, 100]; // of temperatures
const [HIGHEST, LONGEST] = [100_000, 100]; // of a layer, a head or a position; characters of a name
const MOST = 16; // what-ifs at once

/** What is wrong with a value, or "". @type {Object<string, (value: any) => string>} */
const PROBLEMS = {
  index: (value) => (Number.isInteger(value) ? between(value, 0, HIGHEST) : "must be a whole number"),
  text: (value) =>
    typeof value !== "string" ? "must be a text" : value.length > LONGEST ? `may have at most ${LONGEST} characters` : "",
  optional: (value) => (value === null ? "" : PROBLEMS.text(value)),
  temperature: (value) => (Number.isFinite(value) ? between(value, COLDEST, HOTTEST) : "must be a number"),
};

function between(value, least, most) {
  if (value < least) return `must be at least ${least}`;
  return value > most ? `must be at most ${most}` : "";
}

const HEAD = { name: "text", layer: "index", head: "index" };

/** Kind of an edit -> its fields. @type {Object<string, Object<string, string>>} */
const KINDS = {
  ablate: HEAD,
  force: { ...HEAD, key: "index" },
  temperature: { value: "temperature", name: "optional" },
  no_positions: {},
  swap: { first: "index", second: "index" },
  force_token: { position: "index", token: "text" },
};

/**
 * Edits that came from outside, checked field by field.
 * @param {any} given
 * @returns {Edit[]}
 */
export function checkedEdits(given) {
  if (!Array.isArray(given)) throw new Refusal("edits must be a list");
  if (given.length > MOST) throw new Refusal(`edits may have at most ${MOST} entries`);
  return given.map((edit, i) => {
    const fields = Object.hasOwn(KINDS, edit?.kind) && KINDS[edit.kind];
    if (!fields) throw new Refusal(`edits.${i} has no known kind; it must be one of ${Object.keys(KINDS).join(", ")}`);
    const where = `edits.${i}.${edit.kind}`;
    const strange = Object.keys(edit).find((name) => name !== "kind" && !(name in fields));
    if (strange) throw new Refusal(`${where}.${strange} is not known here`);
    const told = { kind: edit.kind };
    for (const [name, kind] of Object.entries(fields)) {
      const value = edit[name] ?? (kind === "optional" ? null : undefined);
      const problem = value === undefined ? "is missing" : PROBLEMS[kind](value);
      if (problem) throw new Refusal(`${where}.${name} ${problem}`);
      told[name] = value;
    }
    return told;
  });
}

/**
 * A whole number that came from outside.
 * @param {any} value
 * @param {string} field its name
 * @param {number} least
 * @param {number} [most]
 * @returns {number}
 */
export function wholeNumber(value, field, least, most = Infinity) {
  if (!Number.isInteger(value)) throw new Refusal(`${field} must be a whole number`);
  if (value < least || value > most) throw new Refusal(`${field} must be ${most === Infinity ? `at least ${least}` : `from ${least} to ${most}`}`);
  return value;
}

// ---------------------------------------------------------------- of the model

/** What is changed in a model while it reads and writes. */
export class Changes {
  /** @param {Edit[]} [edits] those of the texts are left alone */
  constructor(edits = []) {
    this.edits = edits.filter(({ kind }) => ["ablate", "force", "temperature"].includes(kind));
    this.noPositions = edits.some(({ kind }) => kind === "no_positions");
  }

  /** The same with one head muted. @param {Place & {head: number}} place */
  without(place) {
    const found = new Changes([...this.edits, { kind: "ablate", ...place }]);
    found.noPositions = this.noPositions;
    return found;
  }

  /**
   * Refuse what changes nothing in a model.
   * @param {Place[]} places of its attentions
   * @param {boolean} hasPositions
   */
  check(places, hasPositions) {
    const known = places.map(({ name, layer }) => `${name} ${layer}`);
    for (const edit of this.edits) {
      const { kind, name, layer } = edit;
      if (name === null || places.some((one) => one.name === name && (kind === "temperature" || one.layer === layer))) continue;
      const which = kind === "temperature" ? name : `${name} ${layer}`;
      throw new Refusal(`no attention is concerned by ${kind} of ${which}; known: ${known.join(", ")}`);
    }
    if (this.noPositions && !hasPositions) throw new Refusal("no_positions: this system has no positions that could be removed");
  }

  /**
   * What is changed in one attention.
   * @param {Place} place
   * @param {number} nHeads
   * @param {number} nKeys
   * @returns {{temperature: number, prior: number[]|null, sees: (h: number, s: number) => boolean}}
   */
  at({ name, layer }, nHeads, nKeys) {
    const here = this.edits.filter((one) => (one.kind === "temperature" ? (one.name ?? name) === name : one.name === name && one.layer === layer));
    for (const { kind, head, key } of here) {
      if (kind !== "temperature" && head >= nHeads) throw new Refusal(`${name} has heads 0 to ${nHeads - 1}, not ${head}`);
      // Keys of a self-attention come one by one: whether this one ever comes is known afterwards.
      if (kind === "force" && key >= nKeys && !name.endsWith(".self")) throw noKey(name, nKeys, key);
    }
    const of = (kind) => here.filter((one) => one.kind === kind);
    const muted = of("ablate").map(({ head }) => head);
    const forced = of("force");
    return {
      temperature: of("temperature").reduce((product, { value }) => product * value, 1),
      prior: muted.length ? Array.from({ length: nHeads }, (_, h) => (muted.includes(h) ? 0 : 1)) : null,
      sees: (h, s) => forced.every(({ head, key }) => head !== h || key === s),
    };
  }

  /**
   * Refuse a forced key that never came.
   * @param {Object<string, import("./blocks.js").Record[]>} records by the name of an attention, a layer each
   */
  checkKeys(records) {
    for (const { kind, name, layer, key } of this.edits) {
      const nKeys = kind === "force" ? records[name][layer].nKeys : Infinity;
      if (key >= nKeys) throw noKey(name, nKeys, key);
    }
  }
}

function noKey(name, nKeys, key) {
  return new Refusal(`${name} has keys 0 to ${nKeys - 1}, not ${key}`);
}

// ---------------------------------------------------------------- of the texts

/**
 * The source after all swaps of two words; all between them stays.
 * @param {string} source
 * @param {Edit[]} edits
 * @returns {string}
 */
export function swapped(source, edits) {
  return edits.filter(({ kind }) => kind === "swap").reduce(withSwapped, source);
}

function withSwapped(source, edit) {
  const spans = wordSpans(source);
  for (const field of ["first", "second"]) {
    if (edit[field] >= spans.length) throw new Refusal(`swap.${field}: the source has words 0 to ${spans.length - 1}, not ${edit[field]}`);
  }
  if (edit.first === edit.second) throw new Refusal(`swap: first and second are both ${edit.first}; name two words`);
  const [[a, b], [c, d]] = [spans[edit.first], spans[edit.second]].sort((one, other) => one[0] - other[0]);
  return source.slice(0, a) + source.slice(c, d) + source.slice(b, c) + source.slice(a, b) + source.slice(d);
}

/** Edits that force a token, the first position first. @param {Edit[]} edits @returns {Edit[]} */
export function forcedTokens(edits) {
  return edits.filter(({ kind }) => kind === "force_token").sort((a, b) => a.position - b.position);
}
