// The page: one state; whatever changes it goes through `change`, and `show` draws what follows.

import { ask, hasKey, useKey } from "./api.js";
import { showAnswer } from "./answer.js";
import { showBeam } from "./beam.js";
import { showControls, showTabs } from "./controls.js";
import { follow, savePng, saveSvg } from "./draw.js";
import { byId, el } from "./elements.js";
import { showHeads } from "./heads.js";
import { looksFor } from "./looks.js";
import { fitted, fromHash, linesOf, toHash } from "./state.js";
import { showSteps } from "./steps.js";
import { showSwitches } from "./switches.js";
import { showLook } from "./views.js";

const PLACES = "#view, #steps, #switches, #controls, #against"; // whose controls come and go
const SENTENCE_BOUND = new Set(["swap", "force", "force_token"]); // they count words

let state = fromHash(location.hash);
let info = { attentions: [], examples: [], measures: [], antecedents: null };
/** @type {import("./looks.js").Looks & {source: string} | null} */
let looks = null; // those of the sentence that is drawn
let turn = 0; // answers to an earlier turn come too late

/** Change a part of the state, and show what follows from it. */
async function change(part) {
  const held = document.activeElement?.closest(PLACES);
  const { token } = state;
  state = fitted({ ...state, ...part }, info.attentions);
  history.replaceState(null, "", toHash(state));
  await show();
  if (held && !document.activeElement?.closest("main")) focusNear(held, token);
}

/** What had the focus is gone: whoever works with the keyboard goes on close by. */
function focusNear(place, token) {
  const row = place.id === "steps" && byId("view").querySelector(`[data-row="${token}"]`);
  const near = [place, byId("view"), byId("tabs")].filter((one) => !one.hidden);
  const first = near.map((one) => one.querySelector('[tabindex="0"], button, select, input')).find(Boolean);
  (row || first)?.focus({ preventScroll: true });
}

/** Edits that count the words of a sentence do not fit another. */
function unbound() {
  return { edits: state.edits.filter(({ kind }) => !SENTENCE_BOUND.has(kind)), token: null, prefix: [], plain: false };
}

/** A new text; the way back leads to the last one. */
function open(source) {
  byId("source").value = source;
  if (source !== state.source) history.pushState(null, "", location.href);
  return change({ ...unbound(), source, line: 0 });
}

async function show() {
  const mine = ++turn;
  showTabs(byId("tabs"), state, change);
  byId("view").setAttribute("aria-labelledby", `tab-${state.view}`);
  byId("caveat").hidden = state.view === "heads"; // the measures bring their own
  if (!state.source.trim()) return clear(byId("translation"));
  byId("view").setAttribute("aria-busy", "true");
  try {
    const found = await looksFor(state, write);
    if (mine !== turn) return;
    looks = { ...found, source: state.source };
    drop(found.refused);
    say(found.plain ? "" : found.trouble);
    const drawn = draw();
    byId("view").removeAttribute("aria-busy");
    await drawn;
  } catch (error) {
    if (mine !== turn || error.name === "AbortError") return;
    byId("view").removeAttribute("aria-busy");
    fail(error);
    if (looks?.source !== state.source) clear();
  }
}

/** Edits that could not be made are no part of the state, nor of a link. */
function drop(refused) {
  if (!refused.length) return;
  state = { ...state, edits: looks.kept };
  history.replaceState(null, "", toHash(state));
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
  const { plain, changed } = looks;
  showAnswer(byId("translation"), byId("against"), state, looks, info, change);
  byId("desk").hidden = !plain; // first, for pictures ask how much room there is
  if (!plain) return undefined;
  const openLine = (line) => change({ ...unbound(), line });
  showControls(byId("controls"), state, info.attentions, changed !== null, change, tune, openLine);
  showSwitches(byId("switches"), state, plain, looks, change);
  return drawPictures();
}

/** All that depends on how wide and how dark the page is. */
function drawPictures() {
  const drawn = drawnLook();
  const edits = drawn === looks.changed ? state.edits : [];
  return Promise.all([drawView(), showSteps(byId("steps"), state, drawn, edits, change)]);
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
  if (state.view === "beam") return showBeam(box, state, change);
  if (state.view === "heads") return showHeads(box, info.measures, change);
  return showLook(box, drawnLook(), state, change);
}

/** No picture is better than that of another sentence. */
function clear(...more) {
  looks = null;
  byId("desk").hidden = true;
  byId("view").removeAttribute("aria-busy");
  for (const one of [byId("view"), byId("against"), ...more]) one.replaceChildren();
}

/** Say what went wrong; where it was the key, ask for it. */
function fail(error) {
  const needsKey = error.status === 401;
  byId("key").hidden = !needsKey;
  say(!needsKey ? error.message : hasKey() ? "That key is not right." : "This server asks for a key.");
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
  byId("knows").textContent = info.knows ? `It knows ${info.knows}. Each line is a sentence.` : "Each line is a sentence.";
  const examples = info.examples.map((text) =>
    el("button", { type: "button", onclick: () => open(text) }, text),
  );
  byId("examples").replaceChildren(...examples);
}

function listen() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const source = byId("source").value.trim();
    if (linesOf(source).length) open(source);
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
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.token !== null) change({ token: null });
  });
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
    return fail(error);
  }
  byId("key").hidden = true;
  showInfo();
  const source = state.source || (info.examples[0] ?? "");
  byId("source").value = source;
  await change({ source });
  follow(byId("view"), () => looks?.plain && drawPictures());
}

listen();
begin();
