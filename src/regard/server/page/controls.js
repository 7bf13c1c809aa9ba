// Which view, attention, layer and head: tabs and lists above the picture.

import { choice, el, fill, tick } from "./elements.js";
import { selfAttentions } from "./rollout.js";
import { VIEWS } from "./state.js";

/** @typedef {import("./state.js").State} State */

/**
 * The tabs. Arrow keys move between them, as readers of screens expect.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {string[]} names of the views that the run has
 * @param {(part: Partial<State>) => void} change
 */
export function showTabs(box, state, names, change) {
  const tabs = names.map((view) =>
    el(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${view}`,
        "aria-controls": "view",
        "aria-selected": String(view === state.view),
        tabindex: view === state.view ? 0 : -1,
        "data-control": view === state.view ? "tab" : null,
        onclick: () => change({ view }),
      },
      VIEWS[view],
    ),
  );
  box.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = names.indexOf(state.view) + step + names.length;
    change({ view: names[at % names.length] });
  };
  fill(box, ...tabs);
  centre(box, tabs[names.indexOf(state.view)]);
}

/** The chosen tab in the middle of a bar that is too narrow for all. */
function centre(box, tab) {
  if (!tab) return;
  const [bar, mine] = [box, tab].map((one) => one.getBoundingClientRect());
  box.scrollLeft += mine.left + mine.width / 2 - (bar.left + bar.width / 2);
}

/**
 * The lists that fit the view.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {string[]} lines sentences of which one is looked at
 * @param {{name: string, layers: number, heads: number, title?: string}[]} attentions title: in words
 * @param {boolean} hasPicture whether weights are drawn over one
 * @param {boolean} edited whether there is a plain run to go back to
 * @param {(part: Partial<State>) => void} change
 * @param {(part: Partial<State>) => void} tune a change that only redraws the picture
 * @param {(line: number) => void} openLine look at another sentence of the text
 */
export function showControls(box, state, lines, attentions, hasPicture, edited, change, tune, openLine) {
  const one = attentions.find(({ name }) => name === state.name);
  const showsPatches = hasPicture && ["picture", "grid", "rollout"].includes(state.view);
  const parts = [];
  if (lines.length > 1 && state.view !== "heads") {
    const options = lines.map((line, i) => [String(i), `${i + 1}: ${line.slice(0, 40)}`]);
    parts.push(choice("Line", options, String(state.line), (line) => openLine(Number(line))));
  }
  if (one && state.view !== "beam" && state.view !== "heads") {
    parts.push(attentionChoice(state, attentions, change));
    if (["lines", "matrix", "picture", "story", "compare"].includes(state.view)) parts.push(layerChoice(one, state, change), headChoice(one, state, change));
    if (state.view === "lines") parts.push(thresholdChoice(state, tune));
    if (showsPatches) parts.push(tick("As patches", state.patches, (patches) => change({ patches })));
  }
  if (edited && state.view !== "heads") parts.push(plainChoice(state, change));
  if (state.view === "beam") {
    const widths = [1, 2, 3, 4, 5, 6, 7, 8].map((k) => [String(k), String(k)]);
    parts.push(choice("Beams", widths, String(state.beams), (k) => change({ beams: Number(k) })));
  }
  fill(box, ...parts);
}

function attentionChoice(state, attentions, change) {
  const own = selfAttentions(attentions);
  const names = state.view === "rollout" ? own : attentions.map(({ name }) => name);
  const chosen = names.includes(state.name) ? state.name : names[0];
  const titled = (name) => [name, attentions.find((one) => one.name === name)?.title ?? name];
  return choice("Attention", names.map(titled), chosen, (name) => change({ name, token: null, patch: null }));
}

function counted(n) {
  return Array.from({ length: n }, (_, i) => /** @type {[string, string]} */ ([`${i}`, `${i}`]));
}

function layerChoice(one, state, change) {
  return choice("Layer", counted(one.layers), String(state.layer), (layer) =>
    change({ layer: Number(layer) }),
  );
}

function headChoice(one, state, change) {
  const all = state.view === "lines" && one.heads > 1 ? [["all", "all, in colours"]] : [];
  const options = [["", "mean of all"], ...all, ...counted(one.heads)];
  return choice("Head", options, state.head === null ? "" : String(state.head), (head) =>
    change({ head: head === "" ? null : head === "all" ? "all" : Number(head) }),
  );
}

function thresholdChoice(state, tune) {
  const shown = el("b", {}, state.threshold.toFixed(2));
  const slider = el("input", {
    type: "range",
    min: 0,
    max: 0.5,
    step: 0.01,
    value: state.threshold,
    "data-control": "Hide below",
    oninput: (event) => {
      shown.textContent = Number(event.target.value).toFixed(2);
      tune({ threshold: Number(event.target.value) });
    },
  });
  return el("label", { class: "choice" }, el("span", {}, "Hide below ", shown), slider);
}

function plainChoice(state, change) {
  const options = [["", "with the changes"], ["plain", "plain"]];
  return choice("Draw", options, state.plain ? "plain" : "", (value) =>
    change({ plain: value === "plain" }),
  );
}
