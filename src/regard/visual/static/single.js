// A look with its controls, for the single HTML file and for notebooks: choose an attention, a
// layer, a head and a view; click a token for its steps. The page of `regard serve` has its own.
//
// show(root, data, onSelect): root gets a shadow root, so nothing around it can disturb it or be disturbed.
// data: a payload; its attentions and steps may be packed (see visual/payload.py). onSelect hears
// of every choice: {name, layer, head, token, view}.

import { drawPicture, drawPictureGrid, looksAtPicture } from "./patches.js";
import { arrayOf, drawGrid, drawLines, drawMatrix, drawSteps, drawTree, follow, probabilityText, savePng, saveSvg, unpacked } from "./draw.js";
import { THEME } from "./theme.js";

const STYLE = `
:host { display: block; color-scheme: light dark; }
.controls { display: flex; flex-wrap: wrap; gap: .5rem .9rem; align-items: end; margin: 0 0 .9rem; }
label, fieldset { font-size: .82rem; opacity: .95; border: 0; padding: 0; margin: 0; }
label > span { display: block; opacity: .75; }
select, button, input { font: inherit; font-size: .9rem; color: inherit; max-width: 100%; }
select, button {
  background: transparent; border: 1px solid color-mix(in srgb, currentColor 35%, transparent);
  border-radius: .35rem; padding: .3rem .55rem; min-height: 2rem;
}
select option { background: Canvas; color: CanvasText; }
button { cursor: pointer; }
button[aria-pressed="true"] { background: ${THEME.light.ink}; border-color: ${THEME.light.ink}; color: ${THEME.light.paper}; }
:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
.group { display: flex; flex-wrap: wrap; gap: .3rem; }
.note { font-size: .82rem; opacity: .75; margin: .3rem 0; }
h1, h2 { font-family: var(--serif, serif); font-weight: 600; line-height: 1.3; text-wrap: balance; }
h1 { font-size: 1.25rem; margin: 0; } h2 { font-size: 1.25rem; margin: 1.4rem 0 .5rem; }
.sentence { margin: 0 0 .9rem; overflow-wrap: anywhere; }
.sentence h1, .sentence p { margin: 0; max-height: 6.4em; overflow: auto; }
.sentence .translation { font: 1.25rem/1.4 var(--serif, serif); }
[hidden] { display: none !important; }
`;
const VIEWS = { picture: "Picture", lines: "Lines", matrix: "Matrix", grid: "All heads", tree: "Beam" }; // as on the page

export async function show(root, data, onSelect = () => {}) {
  const payload = await allUnpacked(data);
  const shadow = root.shadowRoot || root.attachShadow({ mode: "open" });
  const parts = page(payload);
  shadow.replaceChildren(...parts.all);
  const names = Object.keys(payload.attentions);
  const state = startOf(payload, names);
  const draw = () => refresh(parts, payload, state);
  const set = (changes) => {
    Object.assign(state, changes);
    draw();
    onSelect({ name: state.name, layer: state.layer, head: state.head, token: state.token, view: state.view });
  };
  parts.name.addEventListener("change", () => {
    const layer = Math.min(state.layer, payload.attentions[parts.name.value].length - 1);
    const view = state.view === "picture" && !looksAtPicture(payload, parts.name.value) ? "matrix" : state.view;
    set({ name: parts.name.value, layer, head: null, token: null, patch: null, view });
  });
  parts.layer.addEventListener("change", () => set({ layer: Number(parts.layer.value) }));
  parts.head.addEventListener("change", () => {
    set({ head: parts.head.value === "mean" ? null : parts.head.value === "all" ? "all" : Number(parts.head.value) });
  });
  parts.threshold.addEventListener("input", () => set({ threshold: Number(parts.threshold.value) }));
  parts.patches.addEventListener("change", () => set({ patches: parts.patches.checked }));
  for (const [view, button] of Object.entries(parts.views)) {
    button.addEventListener("click", () => set({ view, head: view === "lines" && state.head === null ? "all"
      : (view === "matrix" || view === "picture") && state.head === "all" ? null : state.head }));
  }
  parts.svg.addEventListener("click", () => saveSvg(parts.box, `${state.name}.svg`));
  parts.png.addEventListener("click", () => savePng(parts.box, `${state.name}.png`));
  state.set = set;
  draw();
  follow(parts.box, draw);
}

// Begin with what is selected: it is exact and has steps.
function startOf(payload, names) {
  const name = names.includes("decoder.cross") ? "decoder.cross" : names[0];
  const layer = name ? payload.attentions[name].length - 1 : 0;
  const start = { name, layer, head: null, token: null, patch: null, patches: false, ...payload.selected };
  const view = !name ? "tree" : looksAtPicture(payload, start.name) ? "picture" : THEME.start.view;
  const head = view === "lines" ? (start.head ?? "all") : start.head;
  return { ...start, head, view, threshold: THEME.start.threshold };
}

function refresh(parts, payload, state) {
  const { name, view } = state;
  if (name) {
    options(parts.name, Object.keys(payload.attentions), name);
    options(parts.layer, payload.attentions[name].map((_, i) => i), state.layer);
    const heads = payload.attentions[name][state.layer].map((_, i) => i);
    options(parts.head, view === "lines" ? ["all", "mean", ...heads] : ["mean", ...heads], state.head ?? "mean", { mean: "mean of all" });
  }
  for (const [key, button] of Object.entries(parts.views)) button.setAttribute("aria-pressed", key === view);
  const single = view === "matrix" || view === "lines" || view === "picture";
  if (parts.views.picture) parts.views.picture.hidden = !looksAtPicture(payload, name);
  const drawsPicture = looksAtPicture(payload, name) && (view === "picture" || view === "grid");
  parts.patches.checked = state.patches;
  parts.patches.parentElement.hidden = !drawsPicture;
  parts.name.parentElement.hidden = view === "tree";
  for (const one of [parts.layer, parts.head]) one.parentElement.hidden = !single;
  parts.threshold.parentElement.hidden = view !== "lines";
  parts.level.textContent = `Hide below ${state.threshold.toFixed(2)}`;
  parts.note.textContent = name && view !== "tree" ? noteOf(payload, state) : "";
  drawView(parts, payload, state);
  drawStepsOf(parts, payload, state);
}

function drawView(parts, payload, state) {
  const { name, layer, head, threshold } = state;
  const onToken = (t, at) => state.set({ token: t, clicked: at.head });
  const smooth = !state.patches;
  if (state.view === "tree") drawTree(parts.box, payload.tree, {});
  else if (state.view === "picture") {
    const chosen = { row: state.token, patch: state.patch, smooth };
    drawPicture(parts.box, payload, { name, layer, head: head === "all" ? null : head, ...chosen,
      onRow: (token) => state.set({ token }), onPatch: (patch) => state.set({ patch: patch === state.patch ? null : patch }) });
  } else if (state.view === "grid" && looksAtPicture(payload, name)) {
    drawPictureGrid(parts.box, payload, { name, row: state.token, smooth, onPick: (at) => state.set({ ...at, view: "picture" }) });
  } else if (state.view === "grid") {
    drawGrid(parts.box, payload, { name, onPick: (at) => state.set({ ...at, view: "matrix" }) });
  } else if (state.view === "lines") {
    drawLines(parts.box, payload, { name, layer, heads: head === "all" ? null : [head], threshold, onToken });
  } else drawMatrix(parts.box, payload, { name, layer, head: head === "all" ? null : head, onToken });
}

function noteOf(payload, { name, layer, view }) {
  const rounded = payload.rounded[name];
  if (view === "picture" && !rounded[layer]) {
    return "The brighter, the more. Choose a small picture to see where it looks, or a patch to see who looks there.";
  }
  if (view === "grid") {
    return "Darker is more (the root of the weight). Choose one to see it large."
      + (rounded.some(Boolean) ? " Weights are kept in 8 bits here." : "");
  }
  if (!rounded[layer]) return "Point at a cell or a line for its number; choose a token for its steps.";
  const exact = rounded.findIndex((one) => !one);
  return "The weights of this layer are rounded to 1/255"
    + (exact < 0 ? `; those of ${payload.selected.name} in layer ${payload.selected.layer} are exact.` : `; those of layer ${exact} are exact.`);
}

function drawStepsOf(parts, payload, state) {
  const { name, layer, token } = state;
  parts.steps.hidden = token === null || token < 0 || state.view === "tree" || looksAtPicture(payload, name) && state.view !== "matrix";
  if (parts.steps.hidden) return;
  const head = typeof state.head === "number" ? state.head : null;
  const found = payload.steps.find((one) => one.name === name && one.layer === layer
    && one.token === token && (head === null || one.head === head));
  const where = `${name}, layer ${layer}, head ${found ? found.head : head ?? "any"}`;
  parts.stepsTitle.textContent = found ? `The six steps of ${found.row} (${where})` : "The six steps";
  parts.stepsNote.hidden = Boolean(found);
  if (found) drawSteps(parts.stepsBox, found);
  else {
    parts.stepsBox.replaceChildren();
    parts.stepsNote.textContent = `This file does not hold the steps of token ${token} in ${where}.`
      + " The page of regard serve has them all.";
  }
}

// ---------------------------------------------------------------- the page

function el(name, attributes = {}, ...children) {
  const one = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
  one.append(...children);
  return one;
}

function page(payload) {
  const parts = {
    name: el("select"), layer: el("select"), head: el("select"), level: el("span"),
    threshold: el("input", { type: "range", min: 0, max: 0.5, step: 0.01, value: THEME.start.threshold }),
    svg: el("button", { type: "button" }, "Save SVG"), png: el("button", { type: "button" }, "Save PNG"),
    box: el("div", { class: "view" }), note: el("p", { class: "note" }),
    steps: el("section", { hidden: "" }), stepsBox: el("div", { class: "steps" }),
    patches: el("input", { type: "checkbox" }), stepsTitle: el("h2"), stepsNote: el("p", { class: "note" }), views: {},
  };
  const attends = Object.keys(payload.attentions).length > 0;
  for (const [view, text] of Object.entries(VIEWS)) {
    if (view === "tree" ? !payload.tree : !attends || (view === "picture" && !payload.picture)) continue;
    parts.views[view] = el("button", { type: "button" }, text);
  }
  parts.steps.append(parts.stepsTitle, parts.stepsNote, parts.stepsBox);
  const labelled = (text, one) => {
    one.setAttribute("aria-label", text); // else the options would be part of the name
    return el("label", {}, el("span", {}, text), one);
  };
  const controls = el("div", { class: "controls" },
    el("div", { class: "group", role: "group", "aria-label": "View" }, ...Object.values(parts.views)),
    labelled("Attention", parts.name), labelled("Layer", parts.layer), labelled("Head", parts.head),
    el("label", {}, parts.level, parts.threshold),
    el("label", {}, parts.patches, " As patches"),
    el("div", { class: "group" }, parts.svg, parts.png));
  const wordless = payload.outcome || (payload.sides?.source?.kind ?? "tokens") !== "tokens";
  const read = payload.source || (wordless ? "" : payload.source_tokens.slice(0, -1).join(" "));
  const sentence = el("div", { class: "sentence" },
    el("h1", { class: "source", dir: "auto" }, read.split("\t").join(" | ") || "A picture"),
    el("p", { class: "translation", dir: "auto" }, payload.outcome ? payload.outcome.text : payload.translation),
    ...choicesOf(payload).map((text) => el("p", { class: "note", dir: "auto" }, text)));
  const empty = attends || payload.tree ? [] : [el("p", {}, "This system does not attend.")];
  parts.all = [el("style", {}, STYLE), sentence, ...editsOf(payload), ...empty, controls, parts.note, parts.box, parts.steps];
  controls.hidden = empty.length > 0;
  return parts;
}

// What else might have come out, a line a place: as visual/payload.py tells it.
function choicesOf({ outcome, source_tokens: source, target_tokens: target }) {
  if (!outcome || outcome.kind === "text") return [];
  const tokens = outcome.kind === "boxes" ? target : source;
  const places = outcome.places.slice(0, 8);
  return places.map(({ rows, choices }) => {
    const where = rows && places.length > 1 ? `${tokens[rows[0]]} ${rows[0]}: ` : "";
    return where + choices.map((one) => `${one.text} ${probabilityText(one.probability)}`).join(", ");
  });
}

function editsOf(payload) {
  const edits = payload.edits || [];
  if (!edits.length) return [];
  const words = edits.map((edit) => Object.entries(edit)
    .filter(([, value]) => value !== null).map(([key, value]) => (key === "kind" ? value : `${key} ${value}`)).join(" "));
  return [el("p", { class: "note" }, `Changed: ${words.join("; ")}`)];
}

function options(select, values, chosen, shown = {}) {
  const texts = values.map(String);
  if (texts.join("\n") !== Array.from(select.options, (one) => one.value).join("\n")) {
    select.replaceChildren(...texts.map((text) => el("option", { value: text }, shown[text] ?? text)));
  }
  select.value = String(chosen);
}

// ---------------------------------------------------------------- unpacking

async function allUnpacked(data) {
  const [payload, steps] = await Promise.all([unpacked(data), Promise.all((data.steps || []).map(stepsOf))]);
  return { ...payload, steps: steps.flat() };
}

async function stepsOf(group) {
  if (group.rows === undefined) return [group];
  const keys = ["keys", "values", "visible", "query", "scores", "scaled", "prior", "weights", "sum", "projected", "residual"];
  const all = Object.fromEntries(await Promise.all(keys.map(async (key) => [key, await arrayOf(group[key])])));
  if (!all.scaled) all.scaled = all.scores.map((row) => row.map((score) => score * group.scale));
  if (all.residual === "projected") all.residual = all.projected;
  return group.rows.map(([token, row, n], i) => {
    const one = { name: group.name, layer: group.layer, head: group.head, scale: group.scale, token, row };
    const [cutKeys, cutValues] = [all.keys.slice(0, n), all.values.slice(0, n)];
    for (const key of ["scores", "scaled", "prior", "weights"]) one[key] = all[key] ? all[key][i].subarray(0, n) : null;
    for (const key of ["query", "sum", "projected", "residual"]) one[key] = all[key] ? all[key][i] : null;
    one.visible = Array.from(all.visible[i].subarray(0, n), Boolean);
    const weighted = cutValues.map((value, s) => value.map((number) => number * one.weights[s]));
    return { ...one, columns: group.columns.slice(0, n), keys: cutKeys, values: cutValues, weighted };
  });
}
