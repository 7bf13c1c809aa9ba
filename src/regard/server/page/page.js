// The page: one state; whatever changes it goes through `change`, and `show` draws what follows.

import { ask, useKey } from "./api.js";
import { showAnswer } from "./answer.js";
import { showBeam } from "./beam.js";
import { showControls, showTabs } from "./controls.js";
import { savePng, saveSvg } from "./draw.js";
import { byId, el } from "./elements.js";
import { showHeads } from "./heads.js";
import { looksFor } from "./looks.js";
import { fitted, fromHash, toHash } from "./state.js";
import { showSteps } from "./steps.js";
import { showSwitches } from "./switches.js";
import { showLook } from "./views.js";

const SENTENCE_BOUND = new Set(["swap", "force", "force_token"]); // they count words

let state = fromHash(location.hash);
let info = { attentions: [], examples: [] };
/** @type {import("./looks.js").Looks & {source: string} | null} */
let looks = null; // those of the sentence that is drawn
let turn = 0; // answers to an earlier turn come too late

/** Change a part of the state, and show what follows from it. */
function change(part) {
  state = fitted({ ...state, ...part }, info.attentions);
  history.replaceState(null, "", toHash(state));
  return show();
}

/** A new sentence: what counted words of the old one is dropped. */
function open(source) {
  const edits = state.edits.filter(({ kind }) => !SENTENCE_BOUND.has(kind));
  byId("source").value = source;
  return change({ source, edits, token: null, prefix: [], plain: false });
}

async function show() {
  const mine = ++turn;
  showTabs(byId("tabs"), state, change);
  byId("view").setAttribute("aria-labelledby", `tab-${state.view}`);
  byId("caveat").hidden = state.view === "heads"; // the measures bring their own
  if (!state.source.trim()) return;
  byId("view").setAttribute("aria-busy", "true");
  try {
    const found = await looksFor(state, write);
    if (mine !== turn) return;
    looks = { ...found, source: state.source };
    say("");
    draw();
  } catch (error) {
    if (mine !== turn || error.name === "AbortError") return;
    say(error.message);
    if (looks?.source !== state.source) clear();
  }
  byId("view").removeAttribute("aria-busy");
}

/** The translation so far, with a mark where the next token will stand. */
function write(text) {
  const line = byId("translation");
  line.classList.toggle("writing", text !== null);
  if (text === null) return;
  line.textContent = text;
  byId("against").replaceChildren();
}

function draw() {
  const { plain, changed, trouble } = looks;
  byId("desk").hidden = false; // first, for pictures ask how much room there is
  showControls(byId("controls"), state, info.attentions, changed !== null, change, tune);
  showAnswer(byId("translation"), byId("against"), state, plain, changed);
  showSwitches(byId("switches"), state, plain, trouble, change);
  drawView();
  const drawn = drawnLook();
  showSteps(byId("steps"), state, drawn, drawn === changed ? state.edits : [], change);
}

/** A slider is being moved: redraw the picture and leave the slider alone. */
function tune(part) {
  state = { ...state, ...part };
  history.replaceState(null, "", toHash(state));
  drawView();
}

function drawnLook() {
  return looks.changed && !state.plain ? looks.changed : looks.plain;
}

function drawView() {
  const box = byId("view");
  if (state.view === "beam") showBeam(box, state, change);
  else if (state.view === "heads") showHeads(box, state, change);
  else showLook(box, drawnLook(), state, change);
}

/** No picture is better than that of another sentence. */
function clear() {
  looks = null;
  byId("desk").hidden = true;
  for (const id of ["view", "against"]) byId(id).replaceChildren();
}

function say(words) {
  byId("trouble").textContent = words;
  byId("trouble").hidden = !words;
}

function showInfo() {
  const [from, to] = info.languages ?? [];
  const model = typeof info.model === "string" ? info.model : (info.preset ?? info.task);
  const size = Number(info.parameters).toLocaleString("en");
  byId("about").textContent = `${model}, ${size} parameters, ${[from, to].filter(Boolean).join(" → ")}`;
  if (from) byId("source-label").textContent = `A sentence (${from})`;
  if (to) byId("translation").lang = to;
  const examples = info.examples.map((text) =>
    el("button", { type: "button", onclick: () => open(text) }, text),
  );
  byId("examples").replaceChildren(...examples);
}

function listen() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    open(byId("source").value.trim());
  });
  byId("source").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("ask").requestSubmit();
  });
  byId("key").addEventListener("submit", (event) => {
    event.preventDefault();
    useKey(byId("key-value").value);
    begin();
  });
  byId("save-svg").addEventListener("click", () => save(saveSvg, "svg"));
  byId("save-png").addEventListener("click", () => save(savePng, "png"));
  byId("copy-link").addEventListener("click", copyLink);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => looks && draw());
  addEventListener("hashchange", () => {
    state = fitted(fromHash(location.hash), info.attentions);
    byId("source").value = state.source;
    show();
  });
}

async function save(as, ending) {
  const canvas = document.querySelector("#view .canvas:has(svg)");
  try {
    if (canvas) await as(canvas, `regard-${state.view}.${ending}`);
  } catch (error) {
    say(error.message);
  }
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    byId("copied").textContent = "copied";
  } catch {
    byId("copied").textContent = "copy it from the address line";
  }
  setTimeout(() => (byId("copied").textContent = ""), 2500);
}

async function begin() {
  try {
    info = await ask("/api/info");
  } catch (error) {
    byId("key").hidden = error.status !== 401;
    return say(error.message);
  }
  byId("key").hidden = true;
  showInfo();
  const source = state.source || (info.examples[0] ?? "");
  byId("source").value = source;
  return change({ source });
}

listen();
begin();
