// Texts and ids, as `text/` has them: words or characters that are looked up in a table, or pieces.
//
// Places in a text count JavaScript's units; whoever asks in characters converts them.

import { Pieces } from "./pieces.js";

/** @typedef {[number, number]} Span */
/** @typedef {import("./pieces.js").Part} Part */

export const PAD_ID = 0;
export const BEGIN_ID = 1;
export const END_ID = 2;
export const UNKNOWN_ID = 3;
export const BEGIN = "<s>";
export const END = "</s>";
const PAD = "<pad>";
const UNKNOWN = "<unk>";

const SPACE = "▁"; // how a space is shown
const LETTER = "[\\p{L}\\p{N}_]"; // what Python calls \w
const BLANK = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const ACCENT = "(?:(?=[\\u0300-\\u30ff\\ua66f-\\uabff\\ufb1e-\\ufe2f])\\p{M}|[\\u200c\\u200d])";
const LETTERS = `${LETTER}+(?:${ACCENT}+${LETTER}*)*`;
const WORD = new RegExp(
  `\\p{Nd}+(?:[.,]\\p{Nd}+)+${LETTER}*` + // 3.5, 1,000
    `|${LETTERS}(?:-${LETTERS})*(?:['’](?=${LETTER}|$))?` + // well-known, l' of l'animal, dogs of dogs'
    `|[^\\p{L}\\p{N}_${BLANK}]${ACCENT}*`, // any sign
  "gu",
);
const GLUED_LEFT = new Set(".,;:!?)]}…%");
const GLUED_RIGHT = new Set("([{");

// ---------------------------------------------------------------- words

/**
 * Where each word begins and ends.
 * @param {string} text
 * @returns {Span[]}
 */
export function wordSpans(text) {
  return [...text.matchAll(WORD)].map(({ 0: word, index }) => [index, index + word.length]);
}

/**
 * Words to a sentence.
 * @param {string[]} words
 * @returns {string}
 */
export function joinWords(words) {
  return words.map((word, i) => (i === 0 || isGlued(words[i - 1], word) ? word : ` ${word}`)).join("");
}

function isGlued(left, right) {
  const elided = left.length > 1 && /['’]$/.test(left);
  return elided || GLUED_RIGHT.has(left) || GLUED_LEFT.has(right);
}

/** Whether a word has neither letter nor digit. */
function isSign(word) {
  return !/[\p{L}\p{N}]/u.test(word);
}

/**
 * A text in small letters and without signs, as the sentences of a built-in world are written.
 * @param {string} typed
 * @returns {{text: string, places: number[]}} and where each of its units stands in what was typed
 */
export function plain(typed) {
  const kept = []; // units, each with its place
  const keep = (letters, at) => letters.split("").forEach((unit) => kept.push([unit, at]));
  const keepBetween = (from, to) => typed.slice(from, to).split("").forEach((unit, i) => keep(unit, from + i));
  let [end, dropped] = [0, null];
  for (const [begin, after] of wordSpans(typed)) {
    let word = typed.slice(begin, after);
    if (isSign(word)) {
      [dropped, end] = [begin, after]; // the white space before it goes with it
      continue;
    }
    if (dropped !== null && end === begin && kept.length) keep(" ", dropped);
    if (dropped === null || kept.length) keepBetween(end, begin);
    if (after === typed.length) word = word.replace(/['’]+$/, ""); // no word follows that it could stand before
    let at = begin;
    for (const letter of word) {
      keep(letter.toLowerCase().replaceAll("’", "'"), at);
      at += letter.length;
    }
    [end, dropped] = [after, null];
  }
  keepBetween(end, typed.length);
  return { text: kept.map(([letter]) => letter).join(""), places: kept.map(([, at]) => at) };
}

// ---------------------------------------------------------------- tokens

/**
 * A tokenizer as it was exported.
 * @typedef {Object} TokenizerFile
 * @property {"word"|"char"|"bpe"} kind
 * @property {string[]} tokens by their ids
 * @property {number[][]} merges of pieces; none of other kinds
 * @property {boolean} lowercase
 * @property {boolean} plain whether what is typed is read in small letters and without signs
 */

/** Words or characters that are looked up, wherever `spans` finds them. */
class Lookup {
  constructor({ tokens, lowercase }, spans, joined, shown) {
    Object.assign(this, { lowercase, spans, joined, shown });
    this.ids = new Map(tokens.map((token, id) => [token, id]));
  }

  /** @param {string} text @returns {Part[]} */
  parts(text) {
    return this.spans(text).map(([begin, end]) => {
      const part = text.slice(begin, end);
      return { id: this.ids.get(this.lowercase ? part.toLowerCase() : part) ?? UNKNOWN_ID, begin, end };
    });
  }
}

function characterSpans(text) {
  let at = 0;
  return Array.from(text, (sign) => [at, (at += sign.length)]);
}

/** By kind: what finds the parts of a text, joins them, and shows one. */
const KINDS = {
  word: (file) => new Lookup(file, wordSpans, joinWords, (token) => token),
  char: (file) => new Lookup(file, characterSpans, (parts) => parts.join(""), (token) => token.replaceAll(" ", SPACE)),
  bpe: (file) => new Pieces(file),
};

/** Texts to ids and back. */
export class Tokenizer {
  /** @param {TokenizerFile} file */
  constructor(file) {
    this.vocabulary = file.tokens;
    this.isPlain = file.plain;
    this.kind = KINDS[file.kind](file);
  }

  /** What is read of a text that was typed: mostly itself. */
  readAs(text) {
    return this.isPlain ? plain(text).text : text;
  }

  /** @param {string} text @returns {number[]} */
  encode(text) {
    return this.kind.parts(this.readAs(text)).map(({ id }) => id);
  }

  /**
   * Where each token of `encode(text)` stands in what was typed.
   * @param {string} text
   * @returns {Span[]}
   */
  offsets(text) {
    if (!this.isPlain) return this.kind.parts(text).map(({ begin, end }) => [begin, end]);
    const { text: read, places } = plain(text);
    const behind = (at) => at + String.fromCodePoint(text.codePointAt(at)).length;
    return this.kind.parts(read).map(({ begin, end }) => [places[begin], behind(places[end - 1])]);
  }

  /**
   * Where the words stand in which something is that the model has never seen.
   * @param {string} text
   * @returns {Span[]}
   */
  unknownSpans(text) {
    const ids = this.encode(text);
    const strange = this.offsets(text).filter((_, i) => ids[i] === UNKNOWN_ID);
    return wordSpans(text).filter(([begin, end]) => strange.some(([from]) => from >= begin && from < end));
  }

  /**
   * Ids to text; padding, begin and end vanish, and what was unknown shows as the next of `said`.
   * @param {number[]} ids
   * @param {string[]} [said]
   * @returns {string}
   */
  decode(ids, said = []) {
    const left = [...said];
    const spoken = ids.filter((id) => id !== PAD_ID && id !== BEGIN_ID && id !== END_ID);
    return this.kind.joined(spoken.map((id) => (id === UNKNOWN_ID ? (left.shift() ?? UNKNOWN) : this.vocabulary[id])));
  }

  /** What to show for each id. */
  tokens(ids) {
    return ids.map((id) => (id <= UNKNOWN_ID ? this.vocabulary[id] : this.kind.shown(this.vocabulary[id])));
  }

  /** Tokens that can be written, as they are shown, with their ids. @returns {Map<string, number>} */
  sayable() {
    const shown = this.tokens([...this.vocabulary.keys()]);
    return new Map(shown.map((token, id) => [token, id]).filter(([token]) => token !== PAD && token !== BEGIN));
  }
}
