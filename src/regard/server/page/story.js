// The story: one token travels a rail of live figures, from words to the next word. One scrolls,
// steps with buttons or arrow keys, or lets it play; nothing moves by itself for who wants it still.

import { ask } from "./api.js";
import { claimCards } from "./claims.js";
import { tokensOf } from "./draw.js";
import { el, fill } from "./elements.js";
import { formula } from "./figures.js";
import { explained, purpose } from "./glossary.js";
import { STATIONS } from "./stations.js";
import { oneHead } from "./state.js";
import { toldHead, toldRow } from "./told.js";

/** @typedef {import("./state.js").State} State */

const REFUSED = 422; // what was asked cannot be
const PAUSE = 6000; // ms that a station stands while it plays
const SETTLED = 1500; // ms until a page that was led somewhere stands still
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

let at = 0; // the station where the reader is
let turn = 0; // an answer to an earlier question comes too late
let steered = -Infinity; // when a button or key led to a station: where the page then scrolls is no choice
let opened = { state: null, screen: null }; // what was drawn last, and on which: a station is gone to once on each
let playing = 0; // of the timer, or 0

/**
 * Draw the story of the chosen token and head, or of those that the headline names.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {Object} body what was asked for that look
 * @param {Object} info of the run
 * @param {(part: Partial<State>) => void} change
 * @param {() => boolean} isShown whether the page still shows the story of this look
 */
export async function showStory(box, state, payload, body, info, change, isShown) {
  const mine = ++turn;
  const isLate = () => mine !== turn || !isShown();
  const { station } = state; // before drawing tells of another
  stop();
  if (!payload.attentions[state.name]) return fill(box, el("p", { class: "hint" }, "This system does not attend: it has no story of this kind."));
  const { rows, axes } = tokensOf(payload, state.name);
  const spoken = toldRow(state, payload, info) ?? (axes.rows === "target" ? payload.boxes?.[0]?.row : null) ?? null;
  const token = followed(spoken, rows);
  const head = oneHead(state.head) === null ? ((await toldHead(state, payload, body, info)) ?? { head: 0 }) : null;
  if (isLate()) return undefined;
  if (head) return change({ ...head, station }); // the lists above the picture name it, too
  const { packed, ...asked } = body;
  const steps = { name: state.name, layer: state.layer, head: state.head, token };
  try {
    const { picture } = payload;
    const grid = Object.values(payload.sides ?? {}).find((one) => one.grid)?.grid;
    const told = { ...(await ask("/api/story", { ...asked, steps })), side: axes.rows, columns: axes.columns, edits: body.edits ?? [], ...(picture && grid && { picture, grid }) };
    if (isLate()) return;
    const named = rows.length === told.rows.length ? { ...told, rows } : told;
    const cards = (id) => claimCards(id, named, state, body, info, change);
    const held = box.contains(document.activeElement);
    fill(box, ...railOf(named, steps, info.languages ?? [], cards, change));
    const lost = held && !box.contains(document.activeElement); // it was on a heading, which is another now
    watchScrolling(box);
    const screen = document.fullscreenElement;
    if (station && (opened.state !== state || opened.screen !== screen)) go(box, placeIn(box, station), lost);
    else if (box.dataset.story && box.dataset.story !== String(token)) go(box, at, false);
    box.dataset.story = String(token);
    opened = { state, screen };
  } catch (error) {
    if (!isLate()) fill(box, ...(error.status === REFUSED ? untold(error.message, token, change) : [el("p", { class: "trouble", role: "alert" }, error.message)]));
  }
}

/** Some systems have no story; what there is instead is one click away. */
function untold(why, token, change) {
  const steps = el("button", { type: "button", "data-control": "six steps", onclick: () => change({ view: "matrix", token }) }, "Show its six steps");
  return [el("p", { class: "hint", role: "status" }, `There is no story of this attention: ${why.replace(/^the story of .* cannot be told: /, "")}.`), steps];
}

/** The row that is followed: the one that is spoken of, else one in the middle, where something can be seen. */
export function followed(token, rows) {
  if (token !== null && token >= 0 && token < rows.length) return token;
  return Math.min(rows.length - 1, Math.floor(rows.length / 2));
}

function railOf(told, steps, languages, cards, change) {
  const stations = STATIONS.filter(({ needs }) => !needs || needs(told));
  at = Math.min(at, stations.length - 1);
  const rail = el("div", { class: "rail" }, mapOf(stations), el("div", { class: "stations" }, ...stations.map((one, i) => stationOf(one, i, told, cards(one.id)))));
  rail.addEventListener("keydown", onKey);
  const title = el("h2", {}, titleOf(told, told.rows[steps.token]));
  return [el("div", { class: "intro" }, title, chooser(told, steps, change), whereOf(told, steps, languages)), steering(stations), rail];
}

function titleOf({ side, found }, word) {
  if (found) return found.chosen ? `How “${word}” is found` : "The way of a query that finds nothing";
  return side === "target" ? `How “${word}” is written` : `The way of “${word}”`;
}

/** Whose way it is: any row of the attention. */
function chooser(told, steps, change) {
  const buttons = told.rows.map((word, i) =>
    el("button", { type: "button", class: "chip", "aria-pressed": String(i === steps.token), "data-control": `follow ${i}`, onclick: () => change({ token: i }) }, word),
  );
  return el("div", { class: "follow", role: "group", "aria-label": "Follow" }, el("span", { class: "caption" }, told.found ? "Follow the query of" : told.side === "target" ? "Follow the writing of" : "Follow"), ...buttons);
}

function whereOf({ steps }, { name, layer, head }, languages) {
  const why = purpose(name, languages);
  return el("p", { class: "hint" }, `In ${name}${why ? ` (${why})` : ""}, layer ${layer}, head ${head}. In every figure colour is above 0 and grey below; a row is a position that may be looked at, unless it says otherwise.`, steps.prior?.every((one) => one === 0) ? " This head is muted: its weights are multiplied by 0." : "");
}

/** Back, next, play. */
function steering(stations) {
  const said = el("span", { class: "caption", role: "status", id: "station-now" }, nowOf(stations.length));
  const button = (text, name, act) => el("button", { type: "button", "data-control": name, onclick: (event) => act(event.currentTarget.closest(".view")) }, text);
  const play = still() ? [] : [el("button", { type: "button", "data-control": "play", "aria-pressed": "false", onclick: (event) => turnPlay(event.currentTarget) }, "Play")];
  return el("div", { class: "steering", role: "group", "aria-label": "Stations" }, button("Back", "back", (view) => go(view, at - 1)), button("Next", "next", (view) => go(view, at + 1)), ...play, said);
}

const nowOf = (n) => `Station ${at + 1} of ${n}`;

function mapOf(stations) {
  const items = stations.map(({ title }, i) =>
    el("li", {}, el("button", { type: "button", "aria-current": i === at ? "step" : null, "data-control": `station ${i}`, onclick: (event) => go(event.currentTarget.closest(".view"), i) }, title)),
  );
  return el("nav", { class: "stops", "aria-label": "Way of the token" }, el("ol", {}, ...items));
}

function stationOf({ id, title, formula: written, say, figure }, i, told, cards) {
  const heading = el("h3", { id: `station-${id}`, tabindex: -1 }, `${i + 1} ${title}`);
  const beside = el("div", { class: "beside" }, el("p", {}, ...explained(say(told))), ...(written ? [formula(written(told))] : []));
  return el("section", { class: "station", "data-station": id, "aria-labelledby": `station-${id}` }, heading, beside, el("div", { class: "drawn" }, ...figure(told)), ...cards);
}

const placeIn = (box, station) => [...box.querySelectorAll(".station")].findIndex((one) => one.dataset.station === station);

/** To a station; its heading takes the focus, so that those who hear it follow. */
function go(view, to, focus = true) {
  const stations = [...(view?.querySelectorAll(".station") ?? [])];
  if (!stations.length) return;
  at = Math.max(0, Math.min(stations.length - 1, to));
  steered = performance.now();
  mark(view);
  stations[at].scrollIntoView({ block: "start", behavior: still() ? "auto" : "smooth" });
  if (focus) stations[at].querySelector("h3").focus({ preventScroll: true });
}

/** Show where the reader is, and tell the page, which keeps it in the address. */
function mark(view) {
  const buttons = [...view.querySelectorAll(".stops button")];
  buttons.forEach((one, i) => (i === at ? one.setAttribute("aria-current", "step") : one.removeAttribute("aria-current")));
  const stations = [...view.querySelectorAll(".station")];
  stations.forEach((one, i) => one.classList.toggle("here", i === at));
  view.dispatchEvent(new CustomEvent("station", { bubbles: true, detail: at ? stations[at]?.dataset.station : null }));
  const now = view.querySelector("#station-now");
  if (now) now.textContent = nowOf(buttons.length);
}

/** The arrow keys step, unless something inside wants them. */
function onKey(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  event.preventDefault();
  go(event.currentTarget.closest(".view"), at + step);
}

function turnPlay(button) {
  if (playing) return stop(button);
  const view = button.closest(".view");
  button.setAttribute("aria-pressed", "true");
  button.textContent = "Pause";
  playing = window.setInterval(() => {
    const n = view.querySelectorAll(".station").length;
    if (!button.isConnected || at + 1 >= n) return stop(button);
    go(view, at + 1, false);
  }, PAUSE);
}

function stop(button = document.querySelector('.steering [data-control="play"]')) {
  clearInterval(playing);
  playing = 0;
  if (!button) return;
  button.setAttribute("aria-pressed", "false");
  button.textContent = "Play";
}

/** Whoever scrolls is where they look. */
function watchScrolling(box) {
  const stations = [...box.querySelectorAll(".station")];
  const watch = new IntersectionObserver(
    (seen) => {
      const one = seen.find(({ isIntersecting }) => isIntersecting);
      if (!one || playing || performance.now() - steered < SETTLED) return;
      at = stations.indexOf(one.target);
      if (box.isConnected && box.contains(one.target)) mark(box);
    },
    { rootMargin: "-30% 0px -60% 0px" },
  );
  stations.forEach((one) => watch.observe(one));
  mark(box);
}
