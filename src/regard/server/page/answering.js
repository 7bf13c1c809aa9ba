// Questions: the answer is a piece of the text that is given with them.

import { ask } from "./api.js";
import { el } from "./elements.js";
import { ENCODER } from "./encoders.js";
import { bars, beside } from "./outcomes.js";

/** @type {import("./tasks.js").Task} */
export const answering = {
  ...ENCODER,
  words: () => ({
    label: "A question",
    other: "The text that holds the answer",
    go: "Answer",
    answer: "Answer",
    about: "answers questions",
    stands: "The answer stands.",
  }),
  question: ({ source, other }) => ({ question: source, text: other, n: 5 }),
  say: (question) => ask("/api/answer", question),
  asked: ({ source, other }) => ({ source, other }),
  show: ({ other }, { said, plain, changed }) => {
    const answer = changed?.outcome.text ?? said.answer;
    const choices = choicesOf(changed ?? plain) ?? said.answers.map((one) => ({ ...one, text: one.answer }));
    return {
      words: [answer],
      below: [
        changed && beside(said.answer, answer, "The answer"),
        inPlace(other, said),
        bars(choices, { was: changed && choicesOf(plain), long: true }),
      ],
    };
  },
};

function choicesOf(look) {
  return look?.outcome.places[0]?.choices;
}

/** The text with the answer of the plain run marked where it stands. */
function inPlace(context, { start, end }) {
  const letters = Array.from(context); // places count letters, not halves of them
  const part = (from, to) => letters.slice(from, to).join("");
  return el("p", { class: "context" }, part(0, start), el("mark", {}, part(start, end)), part(end));
}
