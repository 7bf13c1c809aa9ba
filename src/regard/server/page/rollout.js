// Where a self-attention leads once the layers below are followed: one picture for all of them.

import { ask } from "./api.js";
import { drawMatrix } from "./draw.js";
import { canvasIn, el } from "./elements.js";
import { drawPicture, looksAtPicture } from "./patches.js";
import { chosenIn } from "./views.js";

/** @typedef {import("./state.js").State} State */

const HINT =
  "Attention of all layers multiplied: half of what each layer passes on is taken to be the word " +
  "itself, half what its heads look at on average. A rough map of where information may come from.";

/**
 * The attentions that can be rolled out.
 * @param {{name: string}[]} attentions
 * @returns {string[]}
 */
export function selfAttentions(attentions) {
  return attentions.map(({ name }) => name).filter((name) => name.endsWith(".self"));
}

/**
 * Ask for the rollout and draw it.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object} body what was asked for that look
 * @param {(part: Partial<State>) => void} change
 */
export async function showRollout(box, state, payload, body, change) {
  const names = selfAttentions(Object.keys(payload.attentions).map((name) => ({ name })));
  const name = names.includes(state.name) ? state.name : names[0];
  const canvas = canvasIn(box, el("p", { class: "hint" }, HINT));
  try {
    const { rollout } = await ask("/api/explain", { ...body, rollout: name });
    if (!canvas.isConnected) return;
    const title = `${name}, rollout of all layers`;
    const drawn = { ...payload, attentions: { [name]: [[rollout]] } };
    const one = { name, layer: 0, head: 0, title };
    if (looksAtPicture(payload, name)) drawPicture(canvas, drawn, { ...one, ...chosenIn(state, change) });
    else drawMatrix(canvas, drawn, one);
  } catch (error) {
    canvas.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}
