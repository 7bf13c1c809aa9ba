// What several stations of the story ask of it, and the larger of their figures.

import { bars, heat, largestOf, strip, strips, waves, weighed } from "./figures.js";
import { el } from "./elements.js";

/** @typedef {import("./stations.js").Told} Told */

export const size = (vector) => vector.length;
export const begun = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const quoted = (text) => `“${text}”`;
export const most = ({ steps }) => steps.columns[steps.weights.indexOf(Math.max(...steps.weights))];
export const hasBlocks = ({ kind }) => kind === "blocks";
export const mine = ({ steps, story }) => story.sublayers.find(({ kind }) => kind === steps.name.split(".").at(-1)) ?? story.sublayers[0];
export const fed = ({ story }) => story.sublayers.find(({ kind }) => kind === "feed_forward");
export const isRead = ({ side }) => side === "source"; // the token that is followed was read, not written
export const names = ({ steps }) => steps.columns;

/** Where the followed token stands among the pieces of the source; null where it is not of it. */
export const placeIn = ({ side, steps }) => (side === "source" || side === "text" ? steps.token : null);

/** Numbers of a head beside each other, as bars from 0; what is hidden has none. */
export function rowsOf(told, values, more = () => ({})) {
  const top = largestOf([values]);
  return values.map((value, s) => ({
    name: names(told)[s],
    value,
    share: told.steps.visible[s] ? Math.abs(value ?? 0) / top : 0,
    off: !told.steps.visible[s],
    ...more(s),
  }));
}

const productsOf = ({ query, keys }, s) => query.map((value, i) => value * keys[s][i]);
const sumOf = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** Whether scores are inner products of what is shown; additive and other ones are not. */
export function isProduct({ steps }) {
  if (steps.keys[0].length !== steps.query.length) return false;
  return steps.scores.every((score, s) => score === null || Math.abs(sumOf(productsOf(steps, s)) - score) < 1e-3 * (1 + Math.abs(score)));
}

/** Scores as numbers that can be picked, and the products of the one that is. */
export function scores(told) {
  const { steps } = told;
  const box = el("div", {});
  const show = (picked) => {
    const held = box.contains(document.activeElement);
    const rows = rowsOf(told, steps.scores, (s) => ({ on: s === picked }));
    box.replaceChildren(bars(rows, "w", { onPick: show, label: "Scores" }), ...products(told, picked));
    if (held) /** @type {any} */ (box.querySelector(`[data-control="number ${picked}"]`))?.focus();
  };
  show(steps.weights.indexOf(Math.max(...steps.weights)));
  return [box];
}

function products({ steps }, s) {
  const each = productsOf(steps, s);
  const total = sumOf(each);
  const largest = largestOf([steps.query, steps.keys[s]]);
  const line = `The ${size(each)} products of ${quoted(steps.columns[s])} sum to ${total.toFixed(3).replace("-", "−")}.`;
  return [
    el("div", { class: "products" }, strip("query", steps.query, "q", largest), strip(`key of ${steps.columns[s]}`, steps.keys[s], "k", largest), strip("products", each, "w")),
    el("p", { class: "hint", role: "status" }, line),
  ];
}

/** Whether a code of its position was added to the vector. */
export const hasCode = ({ story }) => story.embedded.codes.some((code) => code.some((one) => one !== 0));

/** Why no code was added. */
export function codeless({ story, edits }) {
  const { kind } = story.embedded;
  if (edits.some((edit) => edit.kind === "no_positions")) return "No code of its [position] was added, because positions are off.";
  if (kind === "none") return "This model has no positions, so no code is added.";
  return `Positions of the kind ${kind} add no code to the vector: they are told inside the attention.`;
}

export function positionFigures({ story, side }) {
  const { codes, distances, position: at } = story.embedded;
  const where = at < codes.length ? `the dot is position ${at}${side === "target" ? " of what is read while writing" : ""}` : `position ${at} is farther on`;
  const by = (t, s) => `position ${t}, dimension ${s}`;
  const tall = Math.min(160, Math.max(48, 9 * codes.length));
  const apart = (t, s) => `positions ${t} and ${s}: distance`;
  const map = heat(codes, `Code of ${codes.length} positions, a row each`, "p", { height: tall, names: by });
  const far = heat(distances, "Distances between positions", "p", { height: tall, names: apart });
  const captioned = (figure, caption) => el("figure", {}, figure, el("figcaption", {}, caption));
  return [
    el(
      "div",
      { class: "figures3" },
      captioned(map, `Rows are positions 0 to ${codes.length - 1}, columns are dimensions.`),
      captioned(waves(codes, at), `A few dimensions as waves; ${where}.`),
      captioned(far, "Rows and columns are positions; the stronger, the farther apart."),
    ),
  ];
}

/** By the kind of a window: what it lets through. @type {Object<string, (width: number) => string>} */
export const WINDOWS = {
  block: (width) => `Positions are cut into blocks of ${width}, and a position sees its own block only: a long text costs no more a word than a short one.`,
  local_m: (width) => `A position sees its neighbours only: ${width} positions around its own.`,
  local_p: (width) => `The query guesses where to look, and sees ${width} positions around that place; the nearer, the more they count.`,
};

/** The slot that is looked at most, without the null; 0 where no slot is whole. */
export function slotOf({ steps }) {
  const weights = steps.weights.slice(1);
  return weights.length ? 1 + weights.indexOf(Math.max(...weights)) : 0;
}

/** The positions that a slot is made of. */
export const madeOf = ({ story, positions }, slot) => Array.from({ length: story.window.width }, (_, i) => (slot - 1) * story.window.width + i).map((at) => ({ at, name: positions[at] }));

/** Positions that become the slot which is looked at most: their keys, what each adds, and the sum. */
export function slotFigures(told) {
  const slot = slotOf(told);
  if (!slot) return [strip("the learned null", told.steps.keys[0], "k")];
  const { keys, parts } = told.story.window;
  const own = madeOf(told, slot);
  return [
    strips(own.map(({ name }) => name), own.map(({ at }) => keys[at]), "k", "key"),
    strips(own.map(({ name }) => `${name} through its part`), own.map(({ at }) => parts[at]), "k", "its part"),
    strip(`= key of the slot ${told.steps.columns[slot]}`, told.steps.keys[slot], "k"),
  ];
}

/** Whether something is added to the scores once they are scaled, which no query has asked for. */
export const hasBias = ({ steps }) => steps.scores.some((score, s) => score !== null && steps.visible[s] && Math.abs(score * steps.scale - steps.scaled[s]) > 1e-4 * (1 + Math.abs(steps.scaled[s])));

/** The weights on the picture, where patches are looked at. */
export function onPicture({ picture, grid, steps }) {
  if (!picture || steps.columns.length < grid[0] * grid[1]) return [];
  return [weighed(picture, grid, steps.weights.slice(steps.columns.length - grid[0] * grid[1]))];
}
