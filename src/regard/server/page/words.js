// Words as regard.text.words counts them: an elided word stands alone, and so does a sign.

const LETTER = "[\\p{L}\\p{N}_]";
const ACCENT = "[\\p{M}\\u200c\\u200d]";
const LETTERS = `${LETTER}+(?:${ACCENT}+${LETTER}*)*`;
const WORD = new RegExp(
  `\\p{Nd}+(?:[.,]\\p{Nd}+)+${LETTER}*` +
    `|${LETTERS}(?:-${LETTERS})*(?:['’](?![^\\p{L}\\p{N}_]))?` +
    `|[^\\p{L}\\p{N}_\\s]${ACCENT}*`,
  "gu",
);

/**
 * The words of a sentence.
 * @param {string} sentence
 * @returns {string[]}
 */
export function wordsOf(sentence) {
  return sentence.match(WORD) ?? [];
}
