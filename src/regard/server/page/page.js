// The page: one state; whatever changes it goes through `change`, and `show` draws what follows.

import { ask, hasKey, useKey } from "./api.js";
import { showAnswer } from "./answer.js";
import { showBeam } from "./beam.js";
import { copy, showCalls } from "./calls.js";
import { ChatView } from "./chat.js";
import { showCompare } from "./compare.js";
import { showControls, showTabs } from "./controls.js";
import { offerDrawing } from "./drawing.js";
import { cueEdges, follow, savePng, saveSvg } from "./draw.js";
import { showEffect } from "./effect.js";
import { spoken } from "./edits.js";
import { byId, el } from "./elements.js";
import { NO_FORM, taskOf } from "./form.js";
import { hasFullScreen, offerFullScreen } from "./full_screen.js";
import { called, explained } from "./glossary.js";
import { fetchKnownHeads, showHeads } from "./heads.js";
import { offerLessons, playLesson } from "./lesson.js";
import { looksFor } from "./looks.js";
import { showMinimap } from "./minimap.js";
import { looksAtPicture } from "./patches.js";
import { hasPicture, keepExamples, keepFile, listenForPictures, pictureOf, thumbnail } from "./pictures.js";
import { selfAttentions, showRollout } from "./rollout.js";
import { reseeded, showSampling } from "./sampling.js";
import { showSearch } from "./search.js";
import { bringIntoView } from "./reveal.js";
import { fitted, fromHash, linesOf, toHash } from "./state.js";
import { showSteps } from "./steps.js";
import { showStory } from "./story.js";
import { showSwitches } from "./switches.js";
import { toldRow } from "./told.js";
import { offerTraining } from "./training.js";
import { whileTyping } from "./typing.js";
import { markUnknown } from "./unknown.js";
import { showLook } from "./views.js";

const PLACES = "#view, #steps, #switches, #controls, #against, #minimap, #lesson"; // whose controls come and go
const WORDS_SHOWN = "What is [attention|an attention], [head|a head], [layer|a layer], [query|a query], [key|a key], [value|a value], [cross-attention], [position|a position], [softmax], [residual|a residual], [vector|a vector], [mute|to mute], [source] and [target], [</s>], [beam|a beam], [temperature], [held-out]? Layers and heads are counted from 0.";
const FOR_A_ROOM = " F shows the picture on the whole screen, with larger text; Escape leaves.";
const SENTENCE_BOUND = new Set(["swap", "force", "force_token", "occlude"]); // they count words or patches

let state = fromHash(location.hash);
let info = { attentions: [], examples: [], measures: [], antecedents: null };
let form = NO_FORM; // until the run tells its own
let task = taskOf(form);
/** @type {import("./looks.js").Looks & {key: string} | null} */
let looks = null; // those of the text that is drawn
/** @type {(() => void)[]} */
let lookAgain = []; // at texts that were set, not typed
let turn = 0; // answers to an earlier turn come too late
let isFar = false; // the picture was asked for from above, and may be out of sight
let isTyping = false; // the newest text was not sent by hand: what is typed on takes its place

/** Change a part of the state, perhaps by what it is now, and show what follows from it. */
async function change(given) {
  const part = typeof given === "function" ? given(state) : given;
  const held = document.activeElement?.closest(PLACES);
  const { token } = state;
  state = fittedHere({ ...state, ended: "", station: null, ...part });
  history.replaceState(null, "", toHash(state));
  await show();
  if (held && !document.activeElement?.closest("main")) focusNear(held, token);
}

/** A change asked for beside the answer; a picture that it opens may be far below. */
function changeFromAbove(part) {
  isFar = part.view !== undefined;
  return change(part);
}

/** The state as this run can show it. */
function fittedHere(one) {
  const view = viewsHere().includes(one.view) ? one.view : (viewsHere()[0] ?? "lines");
  return fitted({ ...one, view }, info.attentions, task.lines(one).length);
}

function viewsHere() {
  const rolls = selfAttentions(info.attentions).length > 0;
  const [first, ...others] = form.views.filter((view) => view !== "rollout" || rolls);
  if (!info.attentions.length || !first) return [first, ...others].filter(Boolean);
  const pairs = form.fields.length === 1 && !asksForPicture(); // two texts can stand beside each other
  return [first, "story", ...others, ...(pairs ? ["compare"] : [])];
}

/** What had the focus is gone: whoever works with the keyboard goes on close by. */
function focusNear(place, token) {
  const row = place.id === "steps" && byId("view").querySelector(`[data-row="${token}"]`);
  const near = [place, byId("view"), byId("tabs")].filter((one) => !one.hidden);
  const first = near.map((one) => one.querySelector('[tabindex="0"], button, select, input')).find(Boolean);
  (row || first)?.focus({ preventScroll: true });
}

/** Edits that count the words of a sentence do not fit another; which those were is told once. */
function unbound() {
  const isBound = ({ kind }) => SENTENCE_BOUND.has(kind);
  const ended = state.edits.filter(isBound).map((edit) => spoken(edit, looks?.plain?.source ?? state.source)).join("; ");
  return { edits: state.edits.filter((edit) => !isBound(edit)), ended, token: null, patch: null, prefix: [], plain: false };
}

/** A new text; the way back leads to the last one. */
function open(source, other = "") {
  forgetTyped();
  showTexts(source, other);
  return goTo(source, other, false);
}

/** Show a text; one that is being typed is one step of the way back, however often it changes. */
function goTo(source, other, typed) {
  const isNew = source !== state.source || other !== state.other;
  if (isNew && !(typed && isTyping)) history.pushState(null, "", location.href);
  isTyping = typed;
  return change({ ...unbound(), source, other, line: 0, manner: reseeded(state.manner) });
}

/** A sentence that was found by what a head does in it: that head and that row. */
function openFound({ source, other, t }) {
  forgetTyped();
  showTexts(source, other ?? "");
  history.pushState(null, "", location.href);
  isTyping = false;
  return change({ ...unbound(), source, other: other ?? "", line: 0, view: "matrix", token: t });
}

function showTexts(source, other) {
  byId("source").value = source;
  byId("other").value = other;
  for (const look of lookAgain) look();
  if (!asksForPicture()) return;
  byId("given")?.remove();
  if (!hasPicture(source)) return;
  byId("drop").prepend(el("img", { id: "given", src: pictureOf(source), alt: "The picture that is asked about" }));
}

function asksForPicture() {
  return form.fields[0].kind === "image";
}

/** Show what is being typed, unless sampling would have to begin anew with every letter. */
function typed() {
  const [source, other] = [byId("source"), byId("other")].map((box) => box.value.trim());
  if (form.writes || asksForPicture() || !isReady({ source, other })) return;
  if (source !== state.source || other !== state.other) goTo(source, other, true);
}

/** A picture that was dropped, pasted or chosen: ask about it, if that is all that is needed. */
async function take(file) {
  try {
    const source = await keepFile(file);
    const other = byId("other").value.trim();
    showTexts(source, other);
    if (isReady({ source, other })) await open(source, other);
  } catch (error) {
    fail(error);
  }
}

/** Whether all that is needed has been typed. */
function isReady({ source, other }) {
  const typed = [source, other].map((text) => linesOf(text).length > 0);
  return form.fields.every(({ optional }, i) => optional || typed[i]);
}

async function show() {
  const mine = ++turn;
  showTabs(byId("tabs"), state, viewsHere(), change);
  if (form.writes) showSampling(byId("manner"), state, change);
  byId("view").setAttribute("aria-labelledby", `tab-${state.view}`);
  byId("caveat").hidden = state.view === "heads"; // the measures bring their own
  const isStory = state.view === "story"; // figures between words, not one picture
  for (const id of ["save-svg", "save-png"]) byId(id).disabled = isStory;
  byId("unsaved").hidden = !isStory;
  if (!isReady(state)) return clear(byId("said"));
  byId("view").setAttribute("aria-busy", "true");
  try {
    const found = await looksFor(task, state, form.stands, write);
    if (mine !== turn) return;
    looks = { ...found, key: keyOf(state) };
    drop(found.refused);
    say(found.plain ? "" : found.trouble);
    const drawn = draw();
    byId("view").removeAttribute("aria-busy");
    if (isFar) bringIntoView(byId("tabs"), byId("view"));
    isFar = false;
    await drawn;
  } catch (error) {
    if (mine !== turn || error.name === "AbortError") return;
    byId("view").removeAttribute("aria-busy");
    fail(error);
    if (looks?.key !== keyOf(state)) clear();
  }
}

/** What tells one text from another. */
function keyOf({ source, other }) {
  return JSON.stringify([source, other]);
}

/** Edits that could not be made are no part of the state, nor of a link. */
function drop(refused) {
  if (!refused.length) return;
  state = { ...state, edits: looks.kept };
  history.replaceState(null, "", toHash(state));
}

/** The text so far, with a mark where the next token will stand. */
function write(text) {
  const line = byId("said");
  line.classList.toggle("writing", text !== null);
  if (text === null) return;
  line.replaceChildren(...(task.begun?.(state) ?? []), text);
  byId("against").replaceChildren();
}

function draw() {
  const { plain, changed } = looks;
  showAnswer(byId("said"), byId("against"), task, state, looks, info, changeFromAbove);
  byId("desk").hidden = !plain; // first, for pictures ask how much room there is
  if (!plain) return undefined;
  const openLine = (line) => change({ ...unbound(), line });
  const lines = task.lines(state);
  const inPicture = looksAtPicture(plain, state.name);
  showControls(byId("controls"), state, lines, info.attentions, inPicture, changed !== null, change, tune, openLine);
  showSwitches(byId("switches"), state, plain, form.edits, looks, change);
  showCalls(byId("calls"), drawnBody());
  byId("search").hidden = !info.searches || !info.attentions.length;
  if (!byId("search").hidden) showSearch(byId("search"), state, drawnLook(), info.word_kinds, openFound);
  showMinimap(byId("minimap"), state, drawnLook(), drawnBody(), info, change);
  return drawPictures();
}

/** All that depends on how wide and how dark the page is. */
function drawPictures() {
  const mapped = looksAtPicture(drawnLook(), state.name) && state.view !== "matrix"; // a row is a map there
  const alone = ["story", "compare"].includes(state.view); // they bring their own numbers
  const asked = mapped || alone ? { ...state, token: null } : state;
  showEffect(byId("effect"), state, looks.plain, looks.changed);
  return Promise.all([drawView(), showSteps(byId("steps"), asked, drawnLook(), drawnBody(), change)]);
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

/** What was asked for the look that is drawn. */
function drawnBody() {
  return drawnLook() === looks.changed ? looks.changedBody : looks.body;
}

function drawView() {
  const box = byId("view");
  if (state.view === "beam") return showBeam(box, state, looks.body.source, change);
  if (state.view === "rollout") return showRollout(box, state, drawnLook(), drawnBody(), change);
  if (state.view === "heads") return showHeads(box, info.measures, change);
  if (state.view === "story") {
    const drawn = drawnLook();
    const isShown = () => looks !== null && state.view === "story" && drawnLook() === drawn;
    return showStory(box, state, drawn, drawnBody(), info, change, isShown);
  }
  if (state.view === "compare") return showCompare(box, state, drawnLook(), drawnBody(), { ...info, examples: info.examples.map((one) => asExample(one).text) }, jump);
  return showLook(box, drawnLook(), state, toldRow(state, drawnLook(), info), change);
}

/** Change the state, a text included, as lessons do. */
function jump(part) {
  if (part.source !== undefined) showTexts(part.source, part.other ?? state.other);
  return change(part);
}

/** Change the state for a lesson: the steps of a word that it chooses do not pull the page away from it. */
function set(part) {
  if (part.token !== undefined) byId("steps").dataset.token = String(part.token);
  return jump(part);
}

/** What a lesson can look at. */
function facts() {
  return { state, info, plain: looks?.plain ?? null, changed: looks?.changed ?? null, body: looks?.body ?? {}, changedBody: looks?.changedBody ?? {} };
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
  const model = typeof info.model === "string" ? info.model : (info.preset ?? info.task);
  const size = Number(info.parameters).toLocaleString("en");
  byId("about").textContent = [model, `${size} parameters`, form.about].filter(Boolean).join(", ");
  const [first, second] = form.fields;
  byId("source-label").textContent = first.label;
  byId("source-label").htmlFor = asksForPicture() ? "file" : "source";
  byId("source").hidden = asksForPicture();
  byId("drop").hidden = !asksForPicture();
  byId("other-label").textContent = second?.label ?? "";
  byId("second").hidden = !second;
  byId("manner").hidden = !form.writes;
  byId("go").textContent = form.go;
  byId("answer-label").textContent = form.answer;
  byId("said").lang = form.language;
  byId("knows").textContent = [info.knows && `It knows ${info.knows}.`, form.hint].filter(Boolean).join(" ");
  const known = info.examples.map(asExample);
  if (asksForPicture()) keepExamples(known.map(({ text }) => text));
  const examples = known.map(({ text, other }, i) =>
    asksForPicture()
      ? thumbnail(i, other, () => open(`example ${i}`, other))
      : el("button", { type: "button", onclick: () => open(text, other) }, text),
  );
  byId("examples").replaceChildren(...examples);
  cueEdges(byId("examples"));
  byId("training").hidden = !info.has_training;
  byId("chat").hidden = !info.chats;
  if (info.chats && !byId("chat").hasChildNodes()) new ChatView(byId("chat"));
  info.attentions = info.attentions.map((one) => ({ ...one, title: called(one.name, info.languages) }));
  offerLessons(byId("lessons"), info, form, (id) => playLesson(byId("lesson"), id, 0, facts, set));
  byId("words").replaceChildren(...explained(WORDS_SHOWN + (hasFullScreen() ? FOR_A_ROOM : "")));
}

/** The state with a text; a picture that a link names may be in another tab. */
function here(one) {
  const first = asExample(info.examples[0] ?? "");
  if (asksForPicture() ? hasPicture(one.source) : one.source) return one;
  const source = asksForPicture() ? (info.examples.length ? "example 0" : "") : first.text;
  return { ...one, source, other: one.other || first.other };
}

/** An example is a text, or an object with a text and perhaps another. */
function asExample(one) {
  return typeof one === "string" ? { text: one, other: "" } : { other: "", ...one };
}

/** Nothing is asked any more, so nothing is answered. */
function empty() {
  const [source, other] = asksForPicture() ? [state.source, byId("other").value.trim()] : typedTexts();
  if (isReady({ source, other })) return;
  change({ ...unbound(), source, other, line: 0 });
  say(missing(source));
}

/** What to do where something is still to be given. */
function missing(source) {
  const field = form.fields[linesOf(source).length ? 1 : 0];
  const how = field.kind === "image" ? "Choose, drop or paste a picture" : `Type something into “${field.label}”`;
  return `${how}${info.examples.length ? ", or choose an example" : ""}.`;
}

function typedTexts() {
  return [byId("source"), byId("other")].map((box) => box.value.trim());
}

function listen() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const [source, other] = typedTexts();
    if (isReady({ source, other })) open(source, other);
    else empty();
  });
  for (const [id, isMeant] of [["source", (event) => !event.shiftKey], ["other", (event) => event.ctrlKey]]) {
    byId(id).addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !isMeant(event) || event.isComposing) return;
      event.preventDefault();
      byId("ask").requestSubmit();
    });
  }
  byId("key").addEventListener("submit", (event) => {
    event.preventDefault();
    useKey(byId("key-value").value);
    begin();
  });
  listenForPictures(byId("drop"), byId("file"), take);
  byId("save-svg").addEventListener("click", () => save(saveSvg, "svg"));
  byId("save-png").addEventListener("click", () => save(savePng, "png"));
  byId("view").addEventListener("station", (event) => {
    if (state.view !== "story") return;
    state.station = event.detail ?? null; // in place: nothing is drawn anew for it
    history.replaceState(null, "", toHash(state));
  });
  byId("copy-link").addEventListener("click", () => copy(location.href, byId("copied")));
  byId("copy-answer").addEventListener("click", () => copy(byId("said").innerText, byId("answer-copied")));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && (state.token ?? state.patch) !== null) change({ token: null, patch: null });
  });
  addEventListener("hashchange", () => {
    const linked = fromHash(location.hash);
    isTyping = false;
    state = fittedHere(asksForPicture() ? here(linked) : linked);
    showTexts(state.source, state.other);
    show();
  });
}

async function save(as, ending) {
  const canvas = document.querySelector("#view .canvas:has(svg)");
  try {
    if (!canvas) return say("There is no picture here that could be saved.");
    await as(canvas, `regard-${state.view}.${ending}`);
  } catch (error) {
    say(error.message);
  }
}

async function begin() {
  try {
    info = await ask("/api/info");
  } catch (error) {
    return fail(error);
  }
  byId("key").hidden = true;
  form = info.form;
  task = taskOf(form);
  showInfo();
  if (info.tells_unknown && !lookAgain.length) {
    const boxes = form.fields.flatMap(({ kind }, i) => (kind === "text" || kind === "lines" ? [["source", "other"][i]] : []));
    lookAgain = boxes.map((id) => markUnknown(byId(id), empty));
  }
  if (info.antecedents) await fetchKnownHeads(); // a claim about a head has the head map's numbers
  const { source, other, station } = here(state);
  showTexts(source, other);
  await change({ source, other, station });
  follow(byId("view"), () => looks?.plain && drawPictures());
}

const forgetTyped = whileTyping([byId("source"), byId("other")], typed);
listen();
cueEdges(document.querySelector(".side"));
cueEdges(byId("tabs"), { names: false });
offerFullScreen(byId("stage"), byId("full-screen"), byId("full-screen-said"));
offerDrawing(byId("drawing"));
offerTraining(byId("training"));
begin();
