// The beam as a tree: pick a branch, and go on from it.

import { drawTree } from "./draw.js";
import { el } from "./elements.js";
import { ask } from "./api.js";

/** @typedef {import("./state.js").State} State */

/**
 * Ask for the tree and draw it.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {string} source the sentence
 * @param {(part: Partial<State>) => void} change
 */
export async function showBeam(box, state, source, change) {
  const { beams, prefix } = state;
  const edits = state.plain ? [] : state.edits;
  const note = el("div", { class: "branch", role: "status" });
  const canvas = el("div", { class: "canvas" }, "searching…");
  box.replaceChildren(note, canvas);
  showPrefix(note, prefix, edits, change);
  try {
    const tree = await ask("/api/beam", { source, n_beams: beams, prefix, edits });
    if (!canvas.isConnected) return;
    canvas.replaceChildren();
    drawTree(canvas, tree, {
      onPick: (node, tokens) => showBranch(note, node, tokens, prefix, change),
    });
  } catch (error) {
    canvas.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

function showPrefix(note, prefix, edits, change) {
  const under = edits.length ? "The search runs under the changes. " : "";
  if (!prefix.length) {
    return note.replaceChildren(el("p", { class: "hint" }, `${under}Pick a node to go on from it.`));
  }
  note.replaceChildren(
    el("p", {}, "Begun with ", el("q", {}, prefix.join(" "))),
    el("p", { class: "hint" }, under),
    button("From the start again", () => change({ prefix: [] })),
  );
}

/** What was picked: its tokens, its score, its fate, and the way on. */
function showBranch(note, node, tokens, prefix, change) {
  const parts = [
    el("p", {}, el("q", {}, tokens.join(" ") || node.token), ` ${node.why || node.state}`),
    el("p", { class: "caption" }, `score ${node.score.toFixed(3)}`),
  ];
  const ended = node.state === "finished" || node.state === "best";
  if (!ended && tokens.length) {
    parts.push(button("Go on from here", () => change({ prefix: tokens })));
  }
  if (prefix.length) parts.push(button("From the start again", () => change({ prefix: [] })));
  note.replaceChildren(...parts);
}

function button(text, onclick) {
  return el("button", { type: "button", onclick }, text);
}
