// Masked words: what may stand where a text leaves a word out.

import { ask } from "./api.js";
import { el } from "./elements.js";
import { ENCODER } from "./encoders.js";
import { bare, bars } from "./outcomes.js";

const MASK = "<mask>";

/** @type {import("./tasks.js").Task} */
export const filling = {
  ...ENCODER,
  words: () => ({
    label: "A text with words left out",
    go: "Fill in",
    answer: "Filled in",
    hint: `Write ${MASK} where a word is left out.`,
    about: "guesses words",
    stands: "The words stand.",
  }),
  question: ({ source }) => ({ text: source }),
  say: (question) => ask("/api/fill", question),
  show: ({ source }, { said, changed }) => {
    const was = said.masks.map((guesses) =>
      guesses.map(({ token, probability }) => ({ text: token, probability })),
    );
    const now = changed ? changed.outcome.places.map(({ choices }) => choices) : was;
    const places = now.map((choices, i) => {
      const title = now.length > 1 ? `Word ${i + 1}` : "The word";
      return el("div", {}, el("p", { class: "caption" }, title), bars(choices, { was: changed && was[i] }));
    });
    return { words: filledIn(changed?.source ?? source, now), below: [el("div", { class: "places" }, ...places)] };
  },
};

/** The text with the best guess at each mask. */
function filledIn(text, places) {
  return text.split(MASK).flatMap((part, i) => {
    const best = places[i - 1]?.[0];
    return best ? [el("span", { class: "filled" }, bare(best.text)), part] : [part];
  });
}
