// One look as a picture: lines, matrix, or all heads at once.

import { drawGrid, drawLines, drawMatrix } from "./draw.js";
import { drawPicture, drawPictureGrid, looksAtPicture } from "./patches.js";
import { canvasIn, el } from "./elements.js";
import { oneHead } from "./state.js";

/** @typedef {import("./state.js").State} State */

const HINTS = {
  picture: "The brighter, the more. Choose a small picture to see where it looks; choose a patch to see who looks there, or to paint it grey.",
  lines: "Each word on the left looks at those on the right; the stronger a line, the more. Choose one",
  matrix: "A row is where one word looks: its weights sum to 1. Choose a row",
  grid: "Choose a head to see it alone.",
};

/** What comes below when a word is chosen, of views where one can be. */
function hintOn(view, head) {
  const comes = oneHead(head) === null ? "to see below where it looks in every head" : "for its six steps in numbers, below";
  return ["lines", "matrix"].includes(view) ? `${HINTS[view]} ${comes}.` : HINTS[view];
}

/**
 * Draw what the state asks for.
 * @param {HTMLElement} box
 * @param {Object} payload
 * @param {State} state
 * @param {number|null} row that is spoken of, and marked
 * @param {(part: Partial<State>) => void} change
 */
export function showLook(box, payload, state, row, change) {
  if (!payload.attentions[state.name]) {
    const words = "This system does not attend: there is nothing to draw.";
    return box.replaceChildren(el("p", { class: "hint" }, words));
  }
  const { name, layer, head, threshold } = state;
  const inPicture = looksAtPicture(payload, name);
  const view = state.view === "picture" && !inPicture ? "matrix" : state.view;
  const canvas = canvasIn(box, el("p", { class: "hint" }, hintOn(view, head)));
  const onToken = (token) => change({ token });
  if (view === "picture") drawPicture(canvas, payload, { name, layer, head, ...chosenIn(state, change) });
  else if (view === "grid" && inPicture) {
    const onPick = (picked) => change({ ...picked, view: "picture" });
    drawPictureGrid(canvas, payload, { name, row: state.token, smooth: !state.patches, onPick });
  } else if (view === "matrix") drawMatrix(canvas, payload, { name, layer, head, row, onToken });
  else if (view === "grid") {
    const onPick = (picked) => change({ ...picked, view: "matrix" });
    drawGrid(canvas, payload, { name, onPick });
  } else {
    drawLines(canvas, payload, { name, layer, heads: head === "all" ? null : [head], threshold, onToken });
  }
}

/**
 * What is chosen in a picture, and what choosing does.
 * @param {State} state
 * @param {(part: Partial<State>) => void} change
 * @returns {Object}
 */
export function chosenIn({ token, patch, patches }, change) {
  return {
    row: token,
    patch,
    smooth: !patches,
    onRow: (row) => change({ token: row }),
    onPatch: (column) => change({ patch: column === patch ? null : column }),
  };
}
