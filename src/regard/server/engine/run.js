// What runs of all tasks have in common, as `tasks/opening.py` has it: texts are read or refused,
// tokens are forced, and looks are remembered. Each task has a class of its own.

import { END, Tokenizer, UNKNOWN_ID } from "./tokenizer.js";
import { forcedTokens, Refusal } from "./what_ifs.js";

/** @typedef {import("./algebra.js").Row} Row */
/** @typedef {import("./what_ifs.js").Edit} Edit */
/** @typedef {import("./what_ifs.js").Changes} Changes */
/** @typedef {{name: string, layer: number, head: number}} HeadPlace */

/**
 * What was exported of a run, beside its weights.
 * @typedef {Object} RunFile
 * @property {string} task
 * @property {Object} config of the model
 * @property {number|null} longest tokens that the model reads at most; null: any number
 * @property {{source: import("./tokenizer.js").TokenizerFile, target: import("./tokenizer.js").TokenizerFile|null}} tokenizers
 *   null: both sides share one, or nothing is written
 * @property {Object} [decode] how targets are searched for, of a run that writes
 * @property {string[]} [labels] of a classifier
 * @property {boolean} [pairs] whether a classifier reads two texts
 * @property {{lines: boolean}} [framing] of a language model
 * @property {boolean} [truncate] whether a summarizer cuts documents that are too long
 * @property {{tokens: number, look_tokens: number, new_tokens: number, characters: number, document: number, lines: number, beams: number, words: number, written: number}} limits
 * @property {Object} info what the page is told first
 * @property {Object|null} heads what each head does, measured before; null: it was not
 * @property {string} drawing the model as SVG
 */

/**
 * All that happened while a text was read and perhaps another written.
 * @typedef {Object} Look
 * @property {string} source after all swaps
 * @property {Object<string, string[]>} sides the labels of each, such as `source` and `target`
 * @property {string[]} tokens what came out, whose probabilities are asked for
 * @property {Edit[]} edits
 * @property {Changes} changes
 * @property {Object<string, import("./stack.js").StackTold>} stacks encoder, decoder or both
 * @property {Object<string, import("./blocks.js").Record[]>} records by the name of an attention, a layer each
 */

const SHOWN = 60; // characters of a text that is only mentioned
const KEPT = 6; // looks that are remembered: steps, stories and costs are asked of the same ones

/**
 * A trained run with all it needs to be used. What a task adds:
 * `looked(asked)` looks; `axesOf(name)` says which sides an attention has; `told(look)` is what
 * its payload says of the answer; `notes(look)` what a reader should know; `shares(look)` how
 * probable each of its tokens is and `sharesWithout(look, place)` the same without one head;
 * `standsAt(look, side, t)` what is read and written at a row, and `outcomeAt(look, t, writes)`
 * what may come out of it.
 */
export class Run {
  needsText = true; // nothing is made of an empty source

  /** Paths that only runs of this task answer. @type {Object<string, (asked: any) => any>} */
  answers = {};

  /** Paths whose answers come in pieces. @type {Object<string, (asked: any) => Generator>} */
  streams = {};

  /**
   * @param {RunFile} file
   * @param {import("./stack.js").StackedModel} model
   */
  constructor(file, model) {
    Object.assign(this, { file, model, limits: file.limits });
    this.reader = new Tokenizer(file.tokenizers.source);
    this.writer = file.tokenizers.target ? new Tokenizer(file.tokenizers.target) : this.reader;
    /** @type {Map<string, Look>} */
    this.seen = new Map();
  }

  // -------------------------------------------------------------- reading

  /** What is read of a text that was typed. */
  readAs(text) {
    return text.split(/(<mask>|\t)/).map((part, i) => (i % 2 ? part : this.reader.readAs(part))).join("");
  }

  /** Words of a text that the model has never seen. */
  unknownWords(text) {
    const parts = text.split("<mask>");
    return parts.flatMap((part) => this.reader.unknownSpans(part).map(([begin, end]) => part.slice(begin, end)));
  }

  /** What is told beside an answer. */
  toldBeside(texts) {
    const pairs = texts.map((typed) => ({ typed, read: this.readAs(typed) }));
    return { unknown: texts.flatMap((text) => this.unknownWords(text)), changed: pairs.filter(({ typed, read }) => typed !== read) };
  }

  /** Why nothing can be made of a text, where it has words and none is known; else null. */
  nothingKnown(text) {
    if (!text.trim() || this.reader.encode(text).some((id) => id !== UNKNOWN_ID)) return null;
    const such = this.file.info.examples.slice(0, 3).map((one) => one.text ?? one).join("; ");
    const remedy = `take texts like those that it was trained on${such && `, such as: ${such}`}`;
    return `the model knows no word of ${mentioned(text)}; ${remedy}`;
  }

  /** Refuse a text of which no word is known. */
  checkKnown(text) {
    const why = this.nothingKnown(text);
    if (why) throw new Refusal(why);
  }

  /**
   * A text that came from outside.
   * @param {any} text
   * @param {string} field its name
   * @param {{most?: number, needed?: boolean}} [bounds]
   * @returns {string}
   */
  textIn(text, field, { most = this.limits.characters, needed = true } = {}) {
    if (typeof text !== "string") throw new Refusal(`${field} is missing`);
    if (needed && !text) throw new Refusal("the text must not be empty");
    if ([...text].length > most) throw new Refusal(`the text may have at most ${most.toLocaleString("en")} characters`);
    return text;
  }

  // -------------------------------------------------------------- tokens that are forced

  /**
   * What is written once every forced token stands where it should.
   * @param {number[]} written
   * @param {Edit[]} edits
   * @param {(prefix: number[]) => number[]} continued
   * @param {(n: number) => string} where a token may stand, given the number of those written
   * @returns {number[]}
   */
  forced(written, edits, continued, where) {
    return forcedTokens(edits).reduce((found, { position, token }) => {
      if (position > found.length) throw new Refusal(`force_token.position: ${where(found.length)}, not ${position}`);
      return continued([...found.slice(0, position), this.idOf(token, "force_token.token")]);
    }, written);
  }

  /** The id of a token as it is shown; the end token is one. */
  idOf(token, field) {
    const id = this.writer.sayable().get(token);
    if (id !== undefined) return id;
    throw new Refusal(`${field}: the model cannot say ${mentioned(token)}; take a token as it is shown, or ${END} to end`);
  }

  /** Refuse changes that concern nothing in the model. @param {Changes} changes */
  checkChanges(changes) {
    changes.check(this.model.places, this.file.config.positions !== "none");
  }

  // -------------------------------------------------------------- looking inside

  /**
   * Where every attention looks while a text is read and perhaps another written.
   * @param {{source: string, other: string|null, target: string|null, maxTokens: number|null, edits: Edit[]}} asked
   * @returns {Look}
   */
  look(asked) {
    const key = JSON.stringify(asked);
    const known = this.seen.get(key) ?? this.looked(asked);
    this.seen.delete(key);
    this.seen.set(key, known);
    if (this.seen.size > KEPT) this.seen.delete(this.seen.keys().next().value);
    return known;
  }
}

/**
 * A text in quotation marks, cut where it is long.
 * @param {string} text
 * @returns {string}
 */
export function mentioned(text) {
  const signs = [...text];
  const short = signs.length <= SHOWN ? text : `${signs.slice(0, SHOWN - 1).join("")}…`;
  return short.includes("'") && !short.includes('"') ? `"${short}"` : `'${short}'`;
}
