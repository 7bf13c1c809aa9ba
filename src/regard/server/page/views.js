// One look as a picture: lines, matrix, or all heads at once.

import { drawGrid, drawLines, drawMatrix } from "./draw.js";
import { canvasIn, el } from "./elements.js";

/** @typedef {import("./state.js").State} State */

const HINTS = {
  lines: "Choose a word on the left for its six steps in numbers; point at any word to see its lines.",
  matrix: "Choose a row for its six steps in numbers.",
  grid: "Choose a head to see it alone.",
};

/**
 * Draw what the state asks for.
 * @param {HTMLElement} box
 * @param {Object} payload
 * @param {State} state
 * @param {(part: Partial<State>) => void} change
 */
export function showLook(box, payload, state, change) {
  const layers = payload.attentions[state.name];
  if (!layers) {
    const words = "This system does not attend: there is nothing to draw.";
    return box.replaceChildren(el("p", { class: "hint" }, words));
  }
  const canvas = canvasIn(box, el("p", { class: "hint" }, HINTS[state.view]));
  const { name, layer, head, threshold } = state;
  const onToken = (token) => change({ token });
  if (state.view === "matrix") drawMatrix(canvas, payload, { name, layer, head, onToken });
  else if (state.view === "grid") {
    const onPick = (picked) => change({ ...picked, view: "matrix" });
    drawGrid(canvas, payload, { name, onPick });
  } else {
    const heads = head === null ? [...layers[layer].keys()] : [head];
    drawLines(canvas, payload, { name, layer, heads, threshold, onToken });
  }
}
