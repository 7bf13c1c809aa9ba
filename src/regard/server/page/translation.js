// Translation: each line is a sentence, and the first attention is that from target to source.

import { antecedentLine } from "./antecedents.js";
import { beside, marked } from "./outcomes.js";
import { linesOf } from "./state.js";
import { streamed } from "./stream.js";

/** @type {import("./answers.js").AnswerView} */
export const translation = {
  lines: ({ source }) => linesOf(source),
  question: ({ source }) => ({ source }),
  say: (question, onText, signal) =>
    streamed("/api/stream?" + new URLSearchParams(question), null, ({ text }) => onText(text), signal),
  asked: ({ source, line }) => ({ source: linesOf(source)[line] ?? "" }),
  show: (state, looks, info, change) => {
    const { plain, changed } = looks;
    const drawn = state.plain ? plain : (changed ?? plain);
    return {
      words: whole(state, looks),
      below: changed ? [beside(plain.translation, changed.translation, "The translation")] : [],
      last: plain ? [antecedentLine(info.antecedents, drawn, info.languages ?? [], change)] : [],
    };
  },
};

/** All lines of the translation; that of the sentence which is looked at as the look has it. */
function whole(state, { said, plain, changed }) {
  const sources = state.source.split(/\r?\n/);
  let number = -1;
  return said.translation.split("\n").flatMap((text, i) => {
    const spoken = Boolean(sources[i]?.trim());
    if (spoken) number++;
    const looked = plain && spoken && number === state.line;
    const words = looked && changed ? marked(plain.translation, changed.translation) : [looked ? plain.translation : text];
    return i ? ["\n", ...words] : words;
  });
}
