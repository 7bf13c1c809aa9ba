// The beam as a tree: pick a branch, and go on from it.

import { drawTree, probabilityOf, probabilityText } from "./draw.js";
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
    canvas.before(winnerLine(tree));
    drawTree(canvas, tree, {
      onPick: (node, tokens) => {
        showBranch(note, node, tokens, probabilityOf(node, tree.nodes), prefix, change);
      },
    });
  } catch (error) {
    canvas.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

/** What won, and how probable the model finds it as a whole. */
function winnerLine({ nodes }) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const best = nodes.find(({ state }) => state === "best");
  const tokens = [];
  for (let node = best; node && node.parent !== null; node = byId.get(node.parent)) tokens.unshift(node.token);
  const share = best ? probabilityText(probabilityOf(best, nodes)) : "–";
  return el("p", { class: "winner" }, "★ ", el("q", {}, tokens.join(" ")), ` ${share}`);
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
function showBranch(note, node, tokens, share, prefix, change) {
  const parts = [
    el("p", {}, el("q", {}, tokens.join(" ") || node.token), ` ${node.why || node.state}`),
    el("p", { class: "caption" }, `probability ${probabilityText(share)}, score ${written(node.score)}`),
  ];
  const ended = node.state === "finished" || node.state === "best";
  if (!ended && tokens.length) {
    parts.push(button("Go on from here", () => change({ prefix: tokens })));
  }
  if (prefix.length) parts.push(button("From the start again", () => change({ prefix: [] })));
  note.replaceChildren(...parts);
}

/** A log-probability; one that rounds to nothing has no sign. */
function written(score) {
  return score.toFixed(3).replace(/^-(0\.0+)$/, "$1");
}

function button(text, onclick) {
  return el("button", { type: "button", onclick }, text);
}
