// The whole model in small: every head of every layer as a picture of its weights, as large as the
// probability of the chosen word, or of the label, falls without it. Click to enter a head, press (or
// M) to mute it.

import { ask } from "./api.js";
import { cueEdges, probabilityText } from "./draw.js";
import { found, without, withEdit } from "./edits.js";
import { choice, el, fill } from "./elements.js";
import { purpose, term } from "./glossary.js";
import { stepOf as headlineStep } from "./rests.js";
import { oneHead } from "./state.js";

/** @typedef {import("./state.js").State} State */
/** @typedef {{attention: string, layer: number, head: number, without: number}} Cost */

const [SMALLEST, LARGEST, EQUAL] = [14, 34, 24]; // px of a side; what is clicked is larger
const PRESS = 500; // ms: longer is a press, not a click

const HOW = () =>
  matchMedia("(hover: none)").matches ? "Tap a head to enter it; hold it to mute it." : "Click a head to enter it; hold it, or press M, to mute it.";

let step = null; // the written token that sizes are about; a label is number 0
let picked = null; // where the reader was when they picked it here: another row is another choice
let turn = 0;
let unmeasured = false; // a server that does not know the question is not asked again

/**
 * Draw the map; sizes follow when the server has measured them.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object} body what was asked for that look
 * @param {Object} info of the run
 * @param {(part: any) => void} change
 */
export async function showMinimap(box, state, payload, body, info, change) {
  const { languages = [], antecedents } = info;
  const mine = ++turn;
  const names = Object.keys(payload.attentions);
  box.hidden = names.length === 0;
  if (box.hidden) return fill(box);
  step = stepOf(state, payload, antecedents?.written ?? []);
  const status = el("p", { class: "hint", role: "status" });
  const shown = names.map((name) => attentionOf(name, state, payload, languages, change));
  const models = el("div", { class: "models", tabindex: 0, role: "group", "aria-label": "Every head of the model" }, ...shown);
  fill(box, titleOf(state, payload, () => showMinimap(box, state, payload, body, info, change)), models, swipeHint(payload), ...muting(state, change), status);
  models.scrollLeft = shown[names.indexOf(state.name)]?.offsetLeft - models.offsetLeft; // where it is one strip
  cueEdges(models);
  const { said, costs } = await measured(body);
  if (mine !== turn) return;
  status.textContent = said;
  for (const thumb of box.querySelectorAll(".thumb")) sized(thumb, costs);
}

/** The written token that is meant: the one picked here, else the one that the headline is about. */
function stepOf(state, payload, telling) {
  const { name, token } = state;
  const n = payload.target_tokens.length;
  if (!n) return headlineStep(state, payload, telling);
  if (picked === `${name} ${token} ${payload.source}` && step !== null && step < n) return step;
  const told = headlineStep(state, payload, telling);
  return told ?? Math.floor(n / 2);
}

function titleOf({ name, token }, payload, again) {
  const title = el("h2", { id: "minimap-title" }, "The model, ", term("head", "head"), " by head");
  if (!payload.target_tokens.length) return el("div", {}, title); // a label is the only one
  const options = payload.target_tokens.map((token, t) => [String(t), token]);
  const pick = choice("Head sizes: what is lost of this word", options, String(step), (value) => {
    [step, picked] = [Number(value), `${name} ${token} ${payload.source}`];
    again();
  });
  return el("div", {}, title, pick);
}

/** On a narrow page the map is a strip, with a line instead of all that is told beside it. */
function swipeHint({ target_tokens: written, outcome }) {
  const sized = step === null ? "Every head" : `Large: “${written[step] ?? outcome.text}” needs it`;
  return el("p", { class: "swipe" }, `${sized} · swipe for more · hold to mute`);
}

function attentionOf(name, state, payload, languages, change) {
  const layers = Array.from(payload.attentions[name], (heads, layer) =>
    el("div", { class: "layer" }, el("span", { title: `layer ${layer}` }, `L${layer}`), ...Array.from(heads, (weights, head) => thumbOf({ name, layer, head }, weights, state, change))),
  );
  return el("div", {}, el("p", { class: "of", title: name }, purpose(name, languages) || name), el("div", { class: "heads" }, ...layers));
}

function thumbOf(place, weights, state, change) {
  const { name, layer, head } = place;
  const isHere = name === state.name && layer === state.layer && head === state.head;
  const muted = Boolean(found(state.edits, { kind: "ablate", ...place }));
  const label = `${name}, layer ${layer}, head ${head}${muted ? ", muted" : ""}`;
  const mute = () => toggle(place, change);
  let [timer, pressed] = [0, false];
  const button = el(
    "button",
    {
      type: "button",
      class: muted ? "thumb muted" : "thumb",
      title: label,
      "aria-label": label,
      "aria-current": isHere ? "true" : null,
      "data-control": `thumb ${name} ${layer} ${head}`,
      "data-place": JSON.stringify(place),
      onclick: () => (pressed ? (pressed = false) : change({ name, layer, head })),
      onpointerdown: () => (timer = window.setTimeout(() => ((pressed = true), mute()), PRESS)),
      onpointerup: () => clearTimeout(timer),
      onpointerleave: () => clearTimeout(timer),
      oncontextmenu: (event) => event.preventDefault(),
      onkeydown: (event) => event.key.toLowerCase() === "m" && !event.ctrlKey && !event.metaKey && mute(),
    },
    ...(layer ? [] : [el("span", { class: "number", "aria-hidden": "true" }, String(head))]), // once, above the others
    pictureOf(weights),
  );
  return button;
}

function toggle(place, change) {
  const edit = { kind: "ablate", ...place };
  change(({ edits }) => ({ edits: found(edits, edit) ? without(edits, edit) : withEdit(edits, edit), plain: false }));
}

/** A pixel a weight; weak ones show, too. */
function pictureOf(weights) {
  const [nRows, nColumns] = [weights.length, weights[0].length];
  const canvas = /** @type {any} */ (el("canvas", { width: nColumns, height: nRows, "aria-hidden": "true" }));
  const context = canvas.getContext("2d");
  const colour = getComputedStyle(document.body).getPropertyValue("--accent");
  for (let t = 0; t < nRows; t++) {
    for (let s = 0; s < nColumns; s++) {
      context.globalAlpha = Math.sqrt(Math.min(1, Math.max(0, weights[t][s])));
      context.fillStyle = colour;
      context.fillRect(s, t, 1, 1);
    }
  }
  sideOf(canvas, EQUAL);
  return canvas;
}

function sideOf(canvas, side) {
  canvas.style.width = canvas.style.height = `${side.toFixed(1)}px`;
}

/** The head that is entered can be muted with a button as well. */
function muting({ name, layer, head, edits }, change) {
  if (oneHead(head) === null) return [];
  const place = { name, layer, head };
  const muted = Boolean(found(edits, { kind: "ablate", ...place }));
  return [el("button", { type: "button", class: "quiet", "aria-pressed": String(muted), "data-control": "mute", onclick: () => toggle(place, change) }, `${muted ? "Muted" : "Mute"}: layer ${layer}, head ${head}`)];
}

/**
 * What the word loses without each head; null where nobody can say.
 * @returns {Promise<{said: string, costs: {probability: number, heads: Cost[]}|null}>}
 */
async function measured(body) {
  const how = HOW();
  const { packed, steps, ...asked } = body;
  const silent = "what the answer loses without a head is not measured here";
  if (step === null || unmeasured) return { said: `All of one size: ${silent}. ${how}`, costs: null };
  try {
    const costs = await ask("/api/importance", { ...asked, step });
    const most = [...costs.heads].sort((a, b) => a.without - b.without)[0];
    const loss = most ? ` Without layer ${most.layer}, head ${most.head} of ${most.attention} it is ${probabilityText(most.without)}.` : "";
    return { said: `“${costs.token}” has ${probabilityText(costs.probability)}; the larger a head, the more of that is lost without it.${loss} ${how}`, costs };
  } catch (error) {
    unmeasured = error.status === 404;
    const why = unmeasured ? silent : "what the answer loses without a head could not be measured";
    return { said: `All of one size: ${why}. ${how}`, costs: null };
  }
}

function sized(thumb, costs) {
  const { name, layer, head } = JSON.parse(thumb.dataset.place);
  const canvas = thumb.querySelector("canvas");
  const one = costs?.heads.find((cost) => cost.attention === name && cost.layer === layer && cost.head === head);
  if (!one) return sideOf(canvas, EQUAL);
  const lost = (value) => Math.max(0, costs.probability - value);
  const most = Math.max(1e-6, ...costs.heads.map((cost) => lost(cost.without)));
  sideOf(canvas, SMALLEST + (LARGEST - SMALLEST) * Math.sqrt(lost(one.without) / most));
  thumb.dataset.lost = String(lost(one.without));
  const said = `${thumb.getAttribute("aria-label").split(": ")[0]}: without it “${costs.token}” has ${probabilityText(one.without)}`;
  thumb.title = said;
  thumb.setAttribute("aria-label", said);
}
