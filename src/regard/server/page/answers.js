// What a run says of a text, drawn; a task names the view that fits its answers.

import { el } from "./elements.js";
import { bare, bars, beside, marked } from "./outcomes.js";
import { linesOf } from "./state.js";

/** @typedef {Partial<import("./form.js").Task> & {more?: Object}} AnswerView more: sent with it */

const MASK = "<mask>";

/** @type {AnswerView} labels with their shares, the likeliest first */
const labels = {
  show: (_state, { said, changed }) => {
    const was = said.labels.map(({ label, probability }) => ({ text: label, probability }));
    const now = placesOf(changed)?.[0].choices ?? was;
    return {
      words: [now[0].text],
      below: [changed && beside(was[0].text, now[0].text, "The label"), bars(now, { was: changed && was })],
    };
  },
};

/** @type {AnswerView} words where a text leaves some out */
const masks = {
  show: ({ source }, { said, changed }) => {
    const was = said.masks.map((guesses) =>
      guesses.map(({ token, probability }) => ({ text: token, probability })),
    );
    const now = placesOf(changed)?.map(({ choices }) => choices) ?? was;
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

/** @type {AnswerView} a piece of the second text, which answers the first */
const span = {
  more: { n: 5 },
  show: ({ other }, { said, plain, changed }) => {
    const answer = changed?.outcome.text ?? said.answer;
    const choices = placesOf(changed ?? plain)?.[0]?.choices ?? said.answers.map((one) => ({ ...one, text: one.answer }));
    return {
      words: [answer],
      below: [
        changed && beside(said.answer, answer, "The answer"),
        inPlace(other, said),
        bars(choices, { was: changed && placesOf(plain)?.[0]?.choices, long: true }),
      ],
    };
  },
};

/** The text with the answer of the plain run marked where it stands. */
function inPlace(context, { start, end }) {
  const letters = Array.from(context); // places count letters, not halves of them
  const part = (from, to) => letters.slice(from, to).join("");
  return el("p", { class: "context" }, part(0, start), el("mark", {}, part(start, end)), part(end));
}

/** @type {AnswerView} other texts by their cosine, each of which can be looked into */
const nearest = {
  show: ({ source, other }, { said }, _info, change) => {
    const near = (said.nearest ?? []).map(({ text, score }) => ({ text, probability: score }));
    const lines = [source, ...linesOf(other)];
    const open = (i) => change({ line: Math.max(0, lines.indexOf(near[i].text, 1)), token: null });
    return {
      words: [near[0]?.text ?? ""],
      below: near.length ? [bars(near, { written: signed, open, long: true })] : [],
    };
  },
};

const signed = (cosine) => (cosine < 0 ? "−" : "") + Math.abs(cosine).toFixed(3);

/** @type {AnswerView} objects of a picture, each of which can be chosen to see where it was found */
const boxes = {
  show: (_state, { said, plain, changed }, _info, change) => {
    const found = (look) => (look?.boxes ?? []).map(({ label, probability }) => ({ text: label, probability }));
    const told = (look) => (look.boxes.length ? look.boxes.map(({ label }) => label).join(", ") : "nothing");
    const now = changed ?? plain;
    if (!now?.boxes) return { words: [said.objects.map(({ label }) => label).join(", ") || "nothing"] };
    const open = (i) => change({ token: now.boxes[i].row, name: "decoder.cross", view: "picture" });
    return {
      words: [told(now)],
      below: [changed && beside(told(plain), told(changed), "What was found"), now.boxes.length ? bars(found(now), { open }) : null],
    };
  },
};

/** @type {AnswerView} what a picture shows, in words; those that are new are marked */
const caption = {
  show: (_state, { said, plain, changed }) => {
    const was = plain?.answer ?? firstText(said);
    if (!changed) return { words: [was] };
    return { words: marked(was, changed.answer), below: [beside(was, changed.answer, "The caption")] };
  },
};

/** @type {AnswerView} where the task names no view: what came out, its choices, and all fields */
export const plainAnswer = {
  show: (_state, { said, plain, changed }) => {
    const was = plain?.answer || firstText(said);
    const now = changed?.answer || was;
    const choices = placesOf(changed ?? plain)?.[0]?.choices;
    return {
      words: [now],
      below: [
        changed && beside(was, now, "The answer"),
        choices && bars(choices, { was: changed && placesOf(plain)?.[0]?.choices }),
        choices ? null : table(said),
      ],
    };
  },
};

function placesOf(look) {
  return look?.outcome?.places;
}

function firstText(said) {
  const value = Object.values(said).find((one) => typeof one === "string" || typeof one === "number");
  return value === undefined ? "" : String(value);
}

const BESIDE = ["unknown", "changed", "notes"]; // told elsewhere

/** All fields of an answer, as they are. */
function table(said) {
  const shown = Object.entries(said).filter(([name]) => !BESIDE.includes(name));
  const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const parts = shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, written(value))));
  return el("dl", { class: "meanings" }, ...parts);
}

/** @type {Object<string, AnswerView>} */
export const VIEWS_OF_ANSWERS = { labels, masks, span, nearest, boxes, caption };
