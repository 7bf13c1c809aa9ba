// What each head does, measured over many sentences: a map, and the numbers beside it.

import { cueEdges, drawHeadMap } from "./draw.js";
import { el } from "./elements.js";
import { ask, reach } from "./api.js";
import { makeSortable } from "./sortable.js";
import { THEME } from "./theme.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {{key: string, name: string, unit: number, format: string, meaning: string}} Measure */

const ALIKE =
  "A point is a head, named layer.head. Near each other: they look alike. Same colour: one cluster, " +
  "numbered above each map. ";
const APART = "Each attention has a map of its own. Marks that would cover each other are moved apart.";
const BETTER = ["bleu", "accuracy", "spearman", "exact_match", "f1"]; // something is lost when they fall
const isWorth = ({ key }) => key.endsWith("_change"); // first: the others only say where a head looks

/**
 * Ask for the measures, which takes a while the first time, and draw them.
 * @param {HTMLElement} box
 * @param {Measure[]} measures those of `regard heads`
 * @param {(part: Partial<State>) => void} change
 */
export async function showHeads(box, measures, change) {
  const waiting = el("p", { class: "hint", role: "status" }, "Measuring…");
  box.replaceChildren(waiting);
  follow(waiting);
  const pick = ({ name, layer, head }) => change({ name, layer, head, token: null, view: "matrix" });
  try {
    const heads = (known = await ask("/api/heads"));
    if (!waiting.isConnected) return;
    const canvas = el("div", { class: "canvas" });
    const ordered = [...measures].sort((a, b) => Number(isWorth(b)) - Number(isWorth(a)));
    const shown = ordered.filter(({ key }) => heads.rows.some((row) => isKnown(row[key])));
    const worth = shown.find(isWorth);
    const [hint, caveat] = [el("p", { class: "hint" }, hintOn(worth)), el("p", { class: "caveat" }, heads.caveat)];
    box.replaceChildren(canvas, hint, caveat, ...figuresOf(heads), table(heads, shown, pick), meanings(shown));
    const cost = (row) => (worth ? signOf(worth) * worth.unit * (row[worth.key] ?? 0) : 0);
    const full = worth ? worth.unit * (THEME.fullCost[worth.key] ?? 0) : 0;
    drawHeadMap(canvas, heads, { onPick: pick, told: (row, cluster) => told(row, cluster, shown), cost, full });
  } catch (error) {
    box.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

/** @type {Object|null} what was measured, once it was */
let known = null;

/**
 * The measures of all heads, if they are known already.
 * @returns {Object|null}
 */
export function knownHeads() {
  return known;
}

/** Fetch the measures where the server has them, and measure nothing else. */
export async function fetchKnownHeads() {
  try {
    const { state } = await progress();
    if (state === "done") known = await ask("/api/heads");
  } catch {
    known = null; // the page does without
  }
}

/** Never kept, for it changes. */
async function progress() {
  return (await reach("/api/heads/progress", {})).json();
}

const PAUSE = 700; // milliseconds between two questions about the progress

/** Tell how far the measuring is, until its line is gone. */
async function follow(line) {
  const bar = el("progress", { "aria-label": "Heads measured" });
  while (line.isConnected) {
    try {
      const { done, of } = await progress();
      if (!line.isConnected) return;
      if (of) {
        bar.max = of;
        bar.value = done;
        line.replaceChildren(`Measuring: ${done} of ${of} heads muted, one after the other. `, bar);
      } else line.textContent = "Measuring: reading the sentences…";
    } catch {
      return; // what is wrong is told by the measuring itself
    }
    await new Promise((after) => setTimeout(after, PAUSE));
  }
}

/** How far heads look in a picture, and the like: drawn by the server, shown as pictures. */
function figuresOf({ figures = [] }) {
  const pictures = figures.map((svg) => {
    const alt = svg.match(/aria-label="([^"]*)"/)?.[1] ?? "";
    return el("img", { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, alt });
  });
  return pictures.length ? [el("div", { class: "figures" }, ...pictures)] : [];
}

const isKnown = (value) => value !== null && value !== undefined;

const signOf = ({ key }) => (BETTER.includes(key.replace(/_change$/, "")) ? -1 : 1);

function hintOn(worth) {
  const size = worth ? `Larger: more is lost without it (${worth.name}, ${worth.meaning}); a ring adds nothing. ` : "";
  return ALIKE + size + APART;
}

function table(heads, measures, pick) {
  const titles = measures.map(({ name, meaning }) => el("th", { scope: "col", title: meaning }, name));
  const cluster = el("th", { scope: "col", title: "cluster of heads that look alike" }, "cl");
  const rows = heads.rows.map((row, i) => {
    const name = `${row.name} ${row.layer}.${row.head}`;
    const open = el("button", { type: "button", class: "quiet", onclick: () => pick(row) }, name);
    const numbers = measures.map((measure) => el("td", {}, written(row[measure.key], measure)));
    return el("tr", {}, el("th", { scope: "row" }, open), ...numbers, el("td", {}, String(heads.clusters[i])));
  });
  const caption = `Measured on ${heads.n} sentences; Δ: what changes when the head is muted.${rulesOf(heads, measures)}`;
  const head = el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "head"), ...titles, cluster));
  const made = el("table", {}, el("caption", {}, caption), head, el("tbody", {}, ...rows));
  const wide = el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Measures" }, made);
  makeSortable(made);
  cueEdges(wide);
  return wide;
}

/** What rules find that know nothing of the words: a head that finds no more has found nothing. */
function rulesOf(heads, measures) {
  const told = measures
    .filter(({ key }) => isKnown(heads[`${key}_rule`]))
    .map((measure) => `${measure.name} ${written(heads[`${measure.key}_rule`], measure)}`);
  return told.length ? ` A rule that is blind to the words: ${told.join(", ")}.` : "";
}

/** What the columns are, in the words of `regard heads`. */
function meanings(measures) {
  const all = [...measures, { name: "cl", meaning: "cluster of heads that look alike" }];
  const parts = all.map(({ name, meaning }) => el("div", {}, el("dt", {}, name), el("dd", {}, meaning)));
  return el("dl", { class: "meanings" }, ...parts);
}

/** A number as `regard heads` writes it: format is Python's, such as ".0f" or "+.3f". */
function written(value, { unit, format }) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(unit * value).toFixed(Number(format.match(/\d+/)[0]));
  const isNegative = value < 0 || Object.is(value, -0);
  return (isNegative ? "−" : format.startsWith("+") ? "+" : "") + text;
}

function told(row, cluster, measures) {
  const parts = measures
    .filter(({ key }) => isKnown(row[key]))
    .map((measure) => `${measure.name} ${written(row[measure.key], measure)}${measure.unit === 100 ? " %" : ""}`);
  return `${row.name}, layer ${row.layer}, head ${row.head}, cluster ${cluster}: ${parts.join(", ")}`;
}
