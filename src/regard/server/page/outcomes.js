// What a model makes of a text, drawn: shares as bars, and words that are new.

import { newWords } from "./changes.js";
import { probabilityText } from "./draw.js";
import { el } from "./elements.js";

/** @typedef {{text: string, probability: number}} Choice */

const SPACE = /^[▁Ġ]/; // how pieces of words spell the space before them

/**
 * A token without the sign for the space before it.
 * @param {string} token
 * @returns {string}
 */
export function bare(token) {
  return token.replace(SPACE, "") || token;
}

/**
 * What a model made of a text, in words: a translation, an answer, a label.
 * @param {any} look
 * @returns {string}
 */
export function answerOf(look) {
  return look.answer ?? look.translation ?? look.outcome?.text ?? "";
}

/**
 * Choices as bars, perhaps beside what they were.
 * @param {Choice[]} choices
 * @param {{was?: Choice[]|null, written?: (share: number) => string, open?: (i: number) => void,
 *   long?: boolean}} [options] was: of the plain run; open: a name may be chosen; long names
 * @returns {HTMLElement}
 */
export function bars(choices, { was = null, written = probabilityText, open, long = false } = {}) {
  const items = choices.map(({ text, probability }, i) => {
    const filled = el("i");
    filled.style.width = `${100 * Math.max(0, Math.min(1, probability))}%`;
    const before = was?.find((one) => one.text === text);
    const earlier = before ? `was ${written(before.probability)}` : `was under ${written(was?.at(-1)?.probability ?? 0)}`;
    const name = open
      ? el("button", { type: "button", class: "quiet", "data-control": `bar ${i}`, onclick: () => open(i) }, text)
      : bare(text);
    return el(
      "li",
      { "data-choice": text, "data-share": probability },
      el("span", { class: "of" }, name),
      el("span", { class: "bar", "aria-hidden": "true" }, filled),
      el("span", { class: "share" }, written(probability)),
      ...(was ? [el("span", { class: "was" }, earlier)] : []),
    );
  });
  const kinds = ["bars", long && "long", was && "compared"].filter(Boolean);
  return el("ol", { class: kinds.join(" ") }, ...items);
}

/**
 * A text with the words marked that are new against another.
 * @param {string} was
 * @param {string} is
 * @returns {(Node|string)[]}
 */
export function marked(was, is) {
  return newWords(was.split(" "), is.split(" ")).flatMap(({ word, isNew }, i) => {
    const shown = isNew ? el("mark", {}, word) : word;
    return i ? [" ", shown] : [shown];
  });
}

/**
 * A line that says what the plain run gave.
 * @param {string} was
 * @param {string} is
 * @param {string} what such as "The translation"
 * @returns {HTMLElement}
 */
export function beside(was, is, what) {
  if (was === is) return el("p", { class: "against" }, `${what} stays as it was.`);
  const label = el("span", { class: "caption" }, "plain ");
  return el("p", { class: "against" }, label, el("span", { id: "plain" }, was));
}
