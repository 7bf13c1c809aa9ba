// The what-ifs as switches. They show the list of edits and change it; they keep nothing themselves.

import { ask } from "./api.js";
import { sidesOf, tokensOf } from "./draw.js";
import { choice, el, fill, tick } from "./elements.js";
import { found, plainly, spoken, without, withEdit } from "./edits.js";
import { oneHead } from "./state.js";
import { swapping } from "./swap.js";

/** @typedef {import("./state.js").State} State */

/**
 * Draw the switches.
 * @param {HTMLElement} box
 * @param {State} state
 * @param {Object} payload of the plain run: its tokens are offered
 * @param {string[]} kinds of edits that the task knows
 * @param {{refused: {edit: Object, why: string}[], trouble: string}} said about the edits
 * @param {(part: (now: State) => Partial<State>) => void} change
 */
export function showSwitches(box, state, payload, kinds, { refused, trouble }, change) {
  // By the edits as they are when it is called: another may be new, and not drawn yet.
  const set = (next) => change(({ edits }) => ({ edits: next(edits), plain: false }));
  const attends = Boolean(payload.attentions[state.name]);
  const about = (...some) => refusals(payload, refused, (kind) => some.includes(kind));
  const parts = [active(state, payload, set)];
  if (trouble) parts.push(el("p", { class: "trouble", role: "alert" }, trouble));
  if (attends) {
    parts.push(
      group(headTitle(state), ...headSwitches(state, payload, set), ...about("ablate", "force")),
      group("Softmax", temperature(state, payload, set), ...about("temperature")),
    );
  } else parts.push(...about("ablate", "force", "temperature"));
  const wanted = refused.map(({ edit }) => edit).find(({ kind }) => kind === "force_token");
  const words = [
    kinds.includes("no_positions") && positions(state, set),
    kinds.includes("swap") && swapping(state, payload, set),
    ...about("no_positions", "swap"),
  ].filter(Boolean);
  if (words.length) parts.push(group("Words", ...words));
  if (kinds.includes("occlude") && payload.picture) {
    parts.push(group("Picture", ...occlusion(state, payload, set), ...about("occlude")));
  }
  if (kinds.includes("force_token") && payload.target_tokens.length) {
    parts.push(group("Target", forceToken(state, payload, set, wanted), ...about("force_token")));
  } else parts.push(...about("force_token"));
  if (box.querySelector('input[type="range"]:active')) return; // it is held: drawn anew when let go
  fill(box, ...parts);
}

/** What could not be done, beside the switch that asked for it. */
function refusals({ source }, refused, isMine) {
  return refused
    .filter(({ edit }) => isMine(edit.kind))
    .map(({ edit, why }) =>
      el("p", { class: "trouble", role: "alert" }, `Not done: ${spoken(edit, source)}. ${plainly(why)}`),
    );
}

function group(title, ...children) {
  return el("fieldset", {}, el("legend", {}, title), ...children);
}

/** The edits that hold, each with a button that takes it back. */
function active(state, { source }, set) {
  if (!state.edits.length) {
    return el("p", { class: "hint" }, "Change something and see what becomes of it.");
  }
  const items = state.edits.map((edit) => {
    const words = spoken(edit, source);
    const undo = el(
      "button",
      {
        type: "button",
        "aria-label": `Take back: ${words}`,
        "data-control": `take back ${words}`,
        onclick: () => set((edits) => without(edits, edit)),
      },
      "×",
    );
    return el("li", {}, el("span", {}, words), undo);
  });
  const undoAll = { type: "button", class: "quiet", "data-control": "Undo all", onclick: () => set(() => []) };
  const all = el("button", undoAll, "Undo all");
  return el("div", { class: "active" }, el("ul", {}, ...items), all);
}

function headTitle({ name, layer, head }) {
  return oneHead(head) === null ? "One head" : `${name}, layer ${layer}, head ${head}`;
}

function headSwitches(state, payload, set) {
  const { name, layer, head, edits } = state;
  if (oneHead(head) === null) {
    const where = ["lines", "matrix", "picture"].includes(state.view) ? "above the picture" : payload.picture ? "in Picture or Matrix" : "in Lines or Matrix";
    return [el("p", { class: "hint" }, `Pick one head ${where}, then switch it here.`)];
  }
  const turn = (on, edit) => set((now) => (on ? withEdit(now, edit) : without(now, edit)));
  const ablate = { kind: "ablate", name, layer, head };
  const force = { kind: "force", name, layer, head, key: 0 };
  const forced = found(edits, force);
  const keys = tokensOf(payload, name).columns.map((token, s) => [String(s), `${s}: ${token}`]);
  const options = [["", "where it likes"], ...keys];
  return [
    tick("Mute it", Boolean(found(edits, ablate)), (on) => turn(on, ablate)),
    choice("It looks at", options, forced ? String(forced.key) : "", (key) =>
      turn(key !== "", { ...force, key: Number(key) }),
    ),
  ];
}

const PAUSE = 120; // milliseconds between two questions while a slider is moved
let sliding = 0;

/** Do it soon, and the last of several only. */
function whileSliding(act) {
  clearTimeout(sliding);
  sliding = setTimeout(act, PAUSE);
}

/** A slider from 1/8 to 8 in powers of two: sharpening and spreading get the same room. */
function temperature(state, payload, set) {
  const heldIn = (edits) => found(edits, { kind: "temperature" }) ?? { kind: "temperature", value: 1, name: null };
  const now = heldIn(state.edits);
  const apply = (part) =>
    set((edits) => {
      const edit = { ...heldIn(edits), ...part };
      return edit.value === 1 ? without(edits, edit) : withEdit(edits, edit);
    });
  const shown = el("b", {}, String(now.value));
  const valueOf = (slider) => Number((2 ** Number(slider.value)).toPrecision(3));
  const slider = el("input", {
    type: "range",
    min: -3,
    max: 3,
    step: 0.25,
    value: Math.log2(now.value),
    "data-control": "Temperature",
    oninput: (event) => {
      shown.textContent = String(valueOf(event.target));
      whileSliding(() => apply({ value: valueOf(event.target) }));
    },
    onchange: (event) => {
      clearTimeout(sliding);
      apply({ value: valueOf(event.target) });
    },
  });
  const names = Object.keys(payload.attentions).map((name) => [name, name]);
  const where = choice("Temperature of", [["", "all attentions"], ...names], now.name ?? "", (name) =>
    apply({ name: name || null }),
  );
  if (now.value === 1) where.querySelector("select").disabled = true;
  const label = el("label", { class: "choice" }, el("span", {}, "Temperature ", shown), slider);
  return el("div", {}, label, where);
}

/** The patch that is chosen in the picture, painted grey. */
function occlusion(state, payload, set) {
  const columns = payload.attentions[state.name] && sidesOf(payload, state.name).columns;
  const at = columns?.grid && state.patch !== null ? state.patch - (columns.labels.length - columns.grid[0] * columns.grid[1]) : -1;
  if (at < 0) return [el("p", { class: "hint" }, "Choose a patch of the picture, then paint it grey here.")];
  const edit = { kind: "occlude", row: Math.floor(at / columns.grid[1]), column: at % columns.grid[1] };
  return [
    tick(`Occlude row ${edit.row}, column ${edit.column}`, Boolean(found(state.edits, edit)), (on) =>
      set((edits) => (on ? withEdit(edits, edit) : without(edits, edit))),
    ),
  ];
}

function positions(state, set) {
  const edit = { kind: "no_positions" };
  return tick("Without positions", Boolean(found(state.edits, edit)), (on) =>
    set((edits) => (on ? withEdit(edits, edit) : without(edits, edit))),
  );
}

/** @param {Object} [wanted] an edit of this kind that was refused: it is there to be mended */
function forceToken(state, payload, set, wanted = { position: 0, token: "" }) {
  const options = payload.target_tokens.map((token, t) => [String(t), `${t}: ${token}`]);
  const place = choice("Token", options, String(wanted.position), () => {});
  const known = el("datalist", { id: "sayable" });
  const word = el("input", {
    type: "text",
    "data-control": "becomes",
    size: 8,
    value: wanted.token,
    list: "sayable",
    autocomplete: "off",
    oninput: () => suggest(known, word.value.trim()),
    onfocus: () => suggest(known, word.value.trim()),
  });
  const apply = () => {
    const token = word.value.trim();
    const position = Number(place.querySelector("select").value);
    if (token) set((edits) => withEdit(edits, { kind: "force_token", position, token }));
  };
  word.addEventListener("keydown", (event) => {
    if (event.key === "Enter") apply();
  });
  return el(
    "div",
    { class: "pair" },
    place,
    el("label", { class: "choice" }, el("span", {}, "becomes"), word),
    el("button", { type: "button", "data-control": "Force", onclick: apply }, "Force"),
    known,
  );
}

/** Offer words that the model can say. Without them one can still type. */
async function suggest(list, begins) {
  const words = await ask("/api/words?" + new URLSearchParams({ begins })).catch(() => []);
  list.replaceChildren(...words.map((value) => el("option", { value })));
}
