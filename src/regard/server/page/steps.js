// The six steps of one token in one head, in the numbers that the model used.

import { drawSteps, tokensOf } from "./draw.js";
import { el, fill } from "./elements.js";
import { ask } from "./api.js";

/** @typedef {import("./state.js").State} State */

/**
 * Show the steps of the chosen token, or nothing where none is chosen.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object[]} edits those of that look
 * @param {(part: Partial<State>) => void} change
 */
export async function showSteps(box, state, payload, edits, change) {
  const heads = payload?.attentions[state.name]?.[state.layer]?.length ?? 0;
  const tokens = heads ? tokensOf(payload, state.name).rows : [];
  const isNew = box.dataset.token !== String(state.token);
  box.dataset.token = String(state.token);
  box.hidden = state.token === null || state.token >= tokens.length;
  if (box.hidden) return fill(box);
  const head = state.head ?? 0;
  const canvas = el("div", { class: "canvas" });
  fill(box, title(tokens[state.token], state, change), headButtons(heads, head, change), canvas);
  const { name, layer, token } = state;
  const wanted = { source: state.source, edits, steps: { name, layer, head, token } };
  try {
    const { steps } = await ask("/api/explain", wanted);
    if (!canvas.isConnected) return;
    drawSteps(canvas, steps);
    if (isNew) box.scrollIntoView({ block: "nearest", behavior: "smooth" });
  } catch (error) {
    canvas.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

function title(token, { name, layer }, change) {
  const close = el(
    "button",
    { type: "button", class: "quiet", onclick: () => change({ token: null }) },
    "Close",
  );
  const words = el("h2", { id: "steps-title" }, "Six steps of “", token, "”");
  const where = el("p", { class: "caption" }, `${name}, layer ${layer}`);
  return el("div", { class: "title" }, words, where, close);
}

/** Steps belong to one head; choosing one here chooses it everywhere. */
function headButtons(n, chosen, change) {
  const buttons = Array.from({ length: n }, (_, head) =>
    el(
      "button",
      {
        type: "button",
        "aria-pressed": String(head === chosen),
        "data-control": `head ${head}`,
        onclick: () => change({ head }),
      },
      `head ${head}`,
    ),
  );
  return el("div", { class: "examples", role: "group", "aria-label": "Head" }, ...buttons);
}
