// Texts and ids, as `text/` has them: words or characters that are looked up in a table.
//
// Places in a text count JavaScript's units; whoever asks in characters converts them.

/** @typedef {[number, number]} Span */

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
 * @property {"word"|"char"} kind
 * @property {string[]} tokens by their ids
 * @property {boolean} lowercase
 * @property {boolean} plain whether what is typed is read in small letters and without signs
 */

/** Texts to ids and back. */
export class Tokenizer {
  /** @param {TokenizerFile} file */
  constructor({ kind, tokens, lowercase, plain: isPlain }) {
    Object.assign(this, { kind, vocabulary: tokens, lowercase, isPlain });
    this.ids = new Map(tokens.map((token, id) => [token, id]));
  }

  /** What is read of a text that was typed: mostly itself. */
  readAs(text) {
    return this.isPlain ? plain(text).text : text;
  }

  /** @param {string} text @returns {number[]} */
  encode(text) {
    const read = this.readAs(text);
    return this.spansIn(read).map(([begin, end]) => this.idOf(read.slice(begin, end)));
  }

  /** Where each token of a text that is read as it is begins and ends. */
  spansIn(read) {
    if (this.kind === "word") return wordSpans(read);
    let at = 0;
    return Array.from(read, (sign) => [at, (at += sign.length)]);
  }

  idOf(part) {
    return this.ids.get(this.lowercase ? part.toLowerCase() : part) ?? UNKNOWN_ID;
  }

  /**
   * Where each token of `encode(text)` stands in what was typed.
   * @param {string} text
   * @returns {Span[]}
   */
  offsets(text) {
    if (!this.isPlain) return this.spansIn(text);
    const { text: read, places } = plain(text);
    const behind = (at) => at + String.fromCodePoint(text.codePointAt(at)).length;
    return this.spansIn(read).map(([begin, end]) => [places[begin], behind(places[end - 1])]);
  }

  /**
   * Where the words stand in which something is that the model has never seen.
   * @param {string} text
   * @returns {Span[]}
   */
  unknownSpans(text) {
    const words = wordSpans(text);
    const ids = this.encode(text);
    const strange = this.offsets(text).filter((_, i) => ids[i] === UNKNOWN_ID);
    const holds = ([begin, end]) => strange.some(([from]) => from >= begin && from < end);
    return words.filter(holds);
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
    const parts = spoken.map((id) => (id === UNKNOWN_ID ? (left.shift() ?? UNKNOWN) : this.vocabulary[id]));
    return this.kind === "word" ? joinWords(parts) : parts.join("");
  }

  /** What to show for each id. */
  tokens(ids) {
    return ids.map((id) => (this.kind === "word" ? this.vocabulary[id] : this.vocabulary[id].replaceAll(" ", SPACE)));
  }

  /** Tokens that can be written, as they are shown, with their ids. @returns {Map<string, number>} */
  sayable() {
    const shown = this.tokens([...this.vocabulary.keys()]);
    return new Map(shown.map((token, id) => [token, id]).filter(([token]) => token !== PAD && token !== BEGIN));
  }
}
