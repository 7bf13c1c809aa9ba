// Classification: a label for a text, or for a pair of them.

import { ask } from "./api.js";
import { bars, beside } from "./outcomes.js";
import { ENCODER } from "./encoders.js";

/** @type {import("./tasks.js").Task} */
export const labelling = {
  ...ENCODER,
  words: ({ pairs, labels }) => ({
    label: pairs ? "The first text" : "A text",
    other: pairs ? "The second text" : "",
    go: "Classify",
    answer: "Label",
    about: `${labels.length} labels`,
    stands: "The label stands.",
  }),
  question: ({ source, other }) => (other ? { text: source, other } : { text: source }),
  say: (question) => ask("/api/classify", question),
  asked: ({ source, other }) => (other ? { source, other } : { source }),
  show: (_state, { said, changed }) => {
    const was = said.labels.map(({ label, probability }) => ({ text: label, probability }));
    const now = changed?.outcome.places[0].choices ?? was;
    return {
      words: [now[0].text],
      below: [changed && beside(was[0].text, now[0].text, "The label"), bars(now, { was: changed && was })],
    };
  },
};
