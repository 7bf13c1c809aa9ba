// What the what-ifs did, before → after: words, how probable each is, and the weights that moved.

import { changeOf, newWords } from "./changes.js";
import { drawCells, probabilityText } from "./draw.js";
import { el, fill } from "./elements.js";
import { answerOf, bare } from "./outcomes.js";
import { looksAtPicture } from "./patches.js";
import { oneHead } from "./state.js";

/** @typedef {import("./state.js").State} State */

/**
 * Show what changed, or nothing where nothing was.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {Object} plain payload of the plain run
 * @param {Object|null} changed payload with the edits
 */
export function showEffect(box, state, plain, changed) {
  box.hidden = !changed;
  if (!changed) return fill(box);
  const canvas = el("div", { class: "canvas" });
  const parts = [el("h2", { id: "effect-title" }, "Before → after"), ...wordRows(plain, changed), ...probabilities(plain, changed)];
  const attends = plain.attentions[state.name] && !looksAtPicture(plain, state.name);
  fill(box, ...parts, ...(attends ? [canvas] : []));
  if (attends) drawDifference(canvas, state, plain, changed);
  return undefined;
}

const wordsIn = (look) => answerOf(look).split(" ").filter(Boolean);

/** Both answers as chips; what is gone and what is new stands out. */
function wordRows(plain, changed) {
  const [was, is] = [wordsIn(plain), wordsIn(changed)];
  const row = (name, words, other, tag) => {
    const chips = newWords(other, words).flatMap(({ word, isNew }) => [el(isNew ? tag : "span", { class: "chip" }, word), " "]);
    return el("p", { class: "chips", id: `words-${name}` }, el("span", { class: "caption" }, name), " ", ...chips);
  };
  return [row("before", was, is, "del"), row("after", is, was, "ins")];
}

/** How probable each written token is, in both runs; none where the run does not tell. */
function probabilities(plain, changed) {
  const [was, is] = [plain.probabilities, changed.probabilities];
  if (!was || !is) return [];
  const rows = changed.target_tokens.map((token, t) => {
    const before = plain.target_tokens[t] === token ? was[t] : null;
    return el(
      "li",
      { "data-choice": token, "data-was": before, "data-share": is[t] },
      el("span", { class: "of" }, bare(token)),
      el("span", { class: "pairs", "aria-hidden": "true" }, bar(before ?? 0, "was"), bar(is[t], "is")),
      el("span", { class: "share" }, `${before === null ? "–" : probabilityText(before)} → ${probabilityText(is[t])}`),
    );
  });
  const title = el("p", { class: "caption" }, "How probable each word was when it was written; – : another word stood there");
  return [title, el("ol", { class: "bars changes" }, ...rows)];
}

function bar(share, kind) {
  const filled = el("i");
  filled.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
  return el("span", { class: `bar ${kind}` }, filled);
}

/** The weights that are drawn, minus those of the plain run. */
function drawDifference(canvas, state, plain, changed) {
  const { name, layer } = state;
  const head = oneHead(state.head);
  const found = changeOf(plain, changed, { name, layer, head });
  if (!found) {
    const why = "The weights cannot be subtracted: other words stand there now.";
    return canvas.replaceChildren(el("p", { class: "hint" }, why));
  }
  const which = head === null ? "mean of all heads" : `head ${head}`;
  const note = found.rows.length < found.of ? `; the first ${found.rows.length} of ${found.of} rows, for later ones had read other words` : "";
  drawCells(canvas, { ...found, label: `${name}, layer ${layer}, ${which}: after minus before`, signed: true, headLabel: "difference" });
  canvas.prepend(el("p", { class: "caption" }, `Weights of ${name}, layer ${layer}, ${which}: after minus before${note}`));
  return undefined;
}
