// Similarity: which of some texts says the same as one.

import { ask } from "./api.js";
import { ENCODER } from "./encoders.js";
import { bars } from "./outcomes.js";
import { linesOf } from "./state.js";

/** @type {import("./tasks.js").Task} */
export const comparing = {
  ...ENCODER,
  words: () => ({
    label: "A text",
    other: "Texts to compare it with, one a line",
    optional: true,
    go: "Compare",
    answer: "Nearest",
    hint: "Numbers are cosines: 1 means the same direction. Choose a text to look into it.",
    about: "compares texts",
    stands: "The numbers stand.",
  }),
  lines: ({ source, other }) => [source, ...linesOf(other)],
  question: ({ source, other }) => ({ text: source, others: linesOf(other) }),
  say: async (question) => (question.others.length ? ask("/api/nearest", question) : { nearest: [] }),
  asked: ({ source, other, line }) => ({ source: [source, ...linesOf(other)][line] ?? source }),
  show: (state, { said }, _info, change) => {
    const near = said.nearest.map(({ text, score }) => ({ text, probability: score }));
    const lines = comparing.lines(state);
    const open = (i) => change({ line: Math.max(0, lines.indexOf(near[i].text, 1)), token: null });
    return {
      words: [near[0]?.text ?? ""],
      below: near.length ? [bars(near, { written: signed, open, long: true })] : [],
    };
  },
};

const signed = (cosine) => (cosine < 0 ? "−" : "") + Math.abs(cosine).toFixed(3);
