// What each head does, measured over many sentences: a map, and the numbers beside it.

import { drawHeadMap } from "./draw.js";
import { el } from "./elements.js";
import { ask } from "./api.js";

/** @typedef {import("./state.js").State} State */

const PAUSE = 1000; // milliseconds

// What a head is worth comes first: the other columns only say where it looks.
const COLUMNS = {
  loss_change: "Δ loss",
  bleu_change: "Δ BLEU",
  entropy: "entropy",
  confidence: "confidence",
  self: "self",
  previous: "previous",
  next: "next",
  first: "first",
  separator: "separator",
  distance: "distance",
  aer: "AER",
  antecedent: "antecedent",
};

/**
 * Ask for the measures, which takes a while the first time, and draw them.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {(part: Partial<State>) => void} change
 */
export async function showHeads(box, state, change) {
  const waiting = el("p", { class: "hint", role: "status" }, "measuring…");
  box.replaceChildren(waiting);
  const pick = ({ name, layer, head }) => change({ name, layer, head, token: null, view: "matrix" });
  try {
    const heads = await measured(() => waiting.isConnected);
    if (!heads || !waiting.isConnected) return;
    const canvas = el("div", { class: "canvas" });
    box.replaceChildren(canvas, el("p", { class: "caveat" }, heads.caveat), table(heads, pick));
    drawHeadMap(canvas, heads, { onPick: pick });
  } catch (error) {
    box.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

/** Measuring may outlast one request. The server goes on with it, so ask again while it matters. */
async function measured(matters) {
  while (matters()) {
    try {
      return await ask("/api/heads");
    } catch (error) {
      if (error.status !== 503) throw error;
      await new Promise((done) => setTimeout(done, PAUSE));
    }
  }
  return null;
}

function table(heads, pick) {
  const titles = ["head", ...Object.values(COLUMNS)].map((text) => el("th", { scope: "col" }, text));
  const rows = heads.rows.map((row) => {
    const name = `${row.name} ${row.layer}.${row.head}`;
    const open = el("button", { type: "button", class: "quiet", onclick: () => pick(row) }, name);
    const numbers = Object.keys(COLUMNS).map((key) => el("td", {}, shown(row[key])));
    return el("tr", {}, el("th", { scope: "row" }, open), ...numbers);
  });
  const caption = `Measured on ${heads.n} sentences; Δ: what changes when the head is ablated.`;
  const head = el("thead", {}, el("tr", {}, ...titles));
  const made = el("table", {}, el("caption", {}, caption), head, el("tbody", {}, ...rows));
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Measures" }, made);
}

function shown(value) {
  return value === null || value === undefined ? "–" : value.toFixed(3);
}
