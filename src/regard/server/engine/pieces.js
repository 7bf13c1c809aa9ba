// Pieces of words, as kind `bpe` of `text/tokenizer.py` has them: a text is cut into words, each word
// into bytes, and neighbours are merged in the order in which that was learned.

/** @typedef {{id: number, begin: number, end: number}} Part a token, and where it stands in the text */

const SPACE = "▁"; // how a space is shown
const LETTER = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"; // what the library that learned them calls \w
const BLANK = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const INSIDE = `[${LETTER}\\u200c\\u200d]*`;
const WORD =
  `\\p{Nd}+(?:[.,]\\p{Nd}+)+[${LETTER}]*` + // 3.5, 1,000
  `|[${LETTER}]${INSIDE}(?:-[${LETTER}]${INSIDE})*(?:['’](?=[${LETTER}]|$))?` +
  `|[^${LETTER}${BLANK}][\\p{M}\\u200c\\u200d]*`;
const PART = new RegExp(` ?(?:${WORD})|[${BLANK}]+(?=[${BLANK}]|$)|[${BLANK}]+`, "gu");

/** Byte -> the sign that spells it: printable Latin-1 is itself, the rest, in order, from U+0100. */
const SIGNS = (() => {
  const isPrinted = (byte) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  let others = 0x100;
  return Array.from({ length: 0x100 }, (_, byte) => String.fromCharCode(isPrinted(byte) ? byte : others++));
})();
const BYTES = new Map(SIGNS.map((sign, byte) => [sign, byte]));

/** Texts to pieces and back. */
export class Pieces {
  /**
   * @param {import("./tokenizer.js").TokenizerFile} file whose merges are [left, right, both], by
   *   ids, in the order in which they were learned
   */
  constructor({ tokens, merges, lowercase }) {
    this.lowercase = lowercase;
    this.ids = new Map(tokens.map((token, id) => [token, id]));
    this.merges = new Map(merges.map(([left, right, both], rank) => [`${left} ${right}`, { rank, both }]));
  }

  /** @param {string} text @returns {Part[]} */
  parts(text) {
    const { read, places } = this.small(text);
    return [...read.matchAll(PART)].flatMap(({ 0: part, index }) => this.merged(bytesOf(part, index, this.ids, places)));
  }

  /** The text in small letters where it is read so, and where each of its units begins and ends. */
  small(text) {
    const places = [];
    let [read, at] = ["", 0];
    for (const letter of text) {
      const kept = this.lowercase ? letter.toLowerCase() : letter;
      for (let i = 0; i < kept.length; i++) places.push([at, at + letter.length]);
      read += kept;
      at += letter.length;
    }
    return { read, places };
  }

  /** Neighbours become one, those first that were learned first. */
  merged(parts) {
    for (;;) {
      const found = parts.slice(1).map((right, i) => this.merges.get(`${parts[i].id} ${right.id}`));
      const at = found.reduce((best, one, i) => (one && (best < 0 || one.rank < found[best].rank) ? i : best), -1);
      if (at < 0) return parts;
      const both = { id: found[at].both, begin: parts[at].begin, end: parts[at + 1].end };
      parts = [...parts.slice(0, at), both, ...parts.slice(at + 2)];
    }
  }

  /** @param {string[]} spelled tokens @returns {string} */
  joined(spelled) {
    const bytes = [...spelled.join("")].map((sign) => BYTES.get(sign));
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  /** What to show for a token: its text; bytes of a character that was torn apart as \xe2. */
  shown(token) {
    const bytes = [...token].map((sign) => BYTES.get(sign));
    let [text, at] = ["", 0];
    while (at < bytes.length) {
      const sizes = [1, 2, 3, 4].filter((n) => at + n <= bytes.length && isText(bytes.slice(at, at + n)));
      const n = sizes[0] ?? 0;
      text += n ? textOf(bytes.slice(at, at + n)) : `\\x${bytes[at].toString(16).padStart(2, "0")}`;
      at += n || 1;
    }
    return text.replaceAll(" ", SPACE);
  }
}

/** A part of a text as one token a byte. */
function bytesOf(part, index, ids, places) {
  let at = index;
  return Array.from(part, (letter) => {
    const [begin, end] = places[at];
    at += letter.length;
    return Array.from(new TextEncoder().encode(letter), (byte) => ({ id: ids.get(SIGNS[byte]), begin, end }));
  }).flat();
}

function textOf(bytes) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

function isText(bytes) {
  try {
    return [...textOf(bytes)].length === 1;
  } catch {
    return false;
  }
}
