// The six steps of one token in one head, in the numbers that the model used.

import { drawCells, drawSteps, headOf, tokensOf } from "./draw.js";
import { el, fill, scrollBehaviour } from "./elements.js";
import { ask } from "./api.js";
import { oneHead } from "./state.js";
import { placeOf } from "./told.js";

/** @typedef {import("./state.js").State} State */

/**
 * Show the steps of the chosen token, or nothing where none is chosen.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object} body what was asked for that look
 * @param {(part: Partial<State>) => void} change
 */
export async function showSteps(box, state, payload, body, change) {
  const heads = payload?.attentions[state.name]?.[state.layer]?.length ?? 0;
  const { rows: tokens, columns } = heads ? tokensOf(payload, state.name) : { rows: [], columns: [] };
  const isNew = box.dataset.token !== String(state.token);
  box.dataset.token = String(state.token);
  box.hidden = state.token === null || state.token < 0 || state.token >= tokens.length;
  if (box.hidden) return fill(box);
  const head = oneHead(state.head) ?? (heads === 1 ? 0 : null);
  const canvas = el("div", { class: "canvas" });
  const { name, layer, token } = state;
  const parts = [title(tokens[token], state, head, change), madeAt(payload, state), headButtons(heads, head, change)];
  if (head === null) {
    fill(box, ...parts, el("p", { class: "hint" }, EACH), canvas);
    drawHeads(canvas, state, payload, change);
    if (isNew) box.scrollIntoView({ block: "nearest", behavior: scrollBehaviour() });
    return undefined;
  }
  fill(box, ...parts, ...editedNote(body.edits ?? [], name, layer, head), canvas);
  try {
    const { steps } = await ask("/api/explain", { ...body, steps: { name, layer, head, token } });
    if (!canvas.isConnected) return;
    const named = { row: tokens[token], columns: columns.slice(0, steps.columns.length) };
    drawSteps(canvas, { ...steps, ...named });
    if (isNew) box.scrollIntoView({ block: "nearest", behavior: scrollBehaviour() });
  } catch (error) {
    canvas.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

const EACH = "Each head has six steps of its own: choose one. The last row is the mean of all.";

/** Where the token looks in each head, and on average: what the picture is made of. */
function drawHeads(canvas, { name, layer, token }, payload, change) {
  const { columns, headings } = tokensOf(payload, name);
  const heads = payload.attentions[name][layer];
  const weights = [...Array.from(heads, (one) => one[token]), headOf(payload, name, layer, null)[token]];
  const rows = [...Array.from(heads, (_, head) => `head ${head}`), "mean"];
  drawCells(canvas, {
    label: `${name}, layer ${layer}: one word in each head`, rows, columns: columns.slice(0, weights[0].length),
    headings: { rows: "head", columns: headings.columns }, weights, headLabel: "each",
    onCell: (row) => row < heads.length && change({ head: row }),
  });
}

function title(token, { name, layer }, head, change) {
  const close = el(
    "button",
    { type: "button", class: "quiet", onclick: () => change({ token: null }) },
    "Close",
  );
  const words = el("h2", { id: "steps-title" }, head === null ? "Every head of “" : "Six steps of “", token, "”");
  const where = el("p", { class: "caption" }, `${name}, layer ${layer}${head === null ? "" : `, head ${head}`}`);
  return el("div", { class: "title" }, words, where, close);
}

/** Where the query is made: a word that is written has not been read there. */
function madeAt({ axes, target_tokens: written, sides }, { name, token }) {
  if (axes?.[name]?.rows !== "target") return "";
  const reads = token ? written[token - 1] : sides?.input?.labels?.[0];
  return reads ? el("p", { class: "made-at" }, `The query is made at ${placeOf(reads, written[token]).replace(/,$/, "")}.`) : "";
}

/** Why the numbers of a head that was changed are as they are. */
function editedNote(edits, name, layer, head) {
  const said = {
    ablate: "This head is muted: after the softmax its weights are multiplied by 0.",
    force: "This head is made to look at one key: all others are hidden from it.",
  };
  return edits
    .filter((edit) => said[edit.kind] && edit.name === name && edit.layer === layer && edit.head === head)
    .map((edit) => el("p", { class: "hint" }, said[edit.kind]));
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
