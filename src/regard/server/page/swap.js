// Two words change places: drag one onto the other, or choose one after the other, with the keyboard
// as with a finger; or name both in the lists.

import { found, without, withEdit } from "./edits.js";
import { choice, el } from "./elements.js";
import { bare } from "./outcomes.js";
import { wordsOf } from "./words.js";

/** @typedef {import("./state.js").State} State */

/** @type {{source: string, word: number}|null} the word that is held, until it is put on another */
let held = null;

/**
 * The words of the sentence as chips that can be dragged, and as lists.
 * @param {State} state
 * @param {{source: string, source_tokens: string[]}} payload
 * @param {(next: (edits: any[]) => any[]) => void} set
 * @returns {HTMLElement}
 */
export function swapping(state, { source, source_tokens: tokens }, set) {
  const words = readWords(source, tokens);
  const now = found(state.edits, { kind: "swap" });
  const apply = (first, second) => {
    held = null;
    if (first !== second) set((edits) => withEdit(edits, { kind: "swap", first, second }));
  };
  const undo = () => set((edits) => without(edits, { kind: "swap" }));
  return el("div", {}, chips(source, words, now, apply), lists(words, now, apply, undo));
}

const SIGN = /^[^\p{L}\p{N}]+$/u; // no letter in it

/**
 * The words as the model read them, by their numbers in the sentence; null: it did not read that sign.
 * @returns {(string|null)[]}
 */
function readWords(source, tokens) {
  const read = tokens.map(bare);
  return wordsOf(source).map((word) => read.find((token) => token.toLowerCase() === word.toLowerCase()) ?? (SIGN.test(word) ? null : word));
}

function chips(source, words, now, apply) {
  if (held?.source !== source) held = null; // words are counted in one sentence
  const said = el("span", { class: "hint", role: "status" });
  const order = words.map((_, i) => (i === now?.first ? now.second : i === now?.second ? now.first : i));
  const all = order.filter((i) => words[i] !== null).map((i) => chip(i, words[i], now, source, apply, () => tell()));
  const tell = () => {
    all.forEach((one) => one.setAttribute("aria-pressed", String(Number(one.dataset.word) === held?.word)));
    said.textContent = held ? `“${words[held.word]}” is held: choose the word to swap it with, or the same word again to let go.` : "Drag a word onto another to swap them, or choose one and then the other.";
  };
  tell();
  const box = el("div", { class: "chips draggable", role: "group", "aria-label": "Words to swap" }, ...all);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !held) return;
    event.stopPropagation(); // it lets go of the word, and of nothing else
    held = null;
    tell();
  });
  return el("div", {}, box, said);
}

function chip(i, word, now, source, apply, tell) {
  const moved = i === now?.first || i === now?.second;
  const take = () => ((held = { source, word: i }), tell());
  const put = () => (held && held.word !== i ? apply(held.word, i) : ((held = held ? null : { source, word: i }), tell()));
  return el(
    "button",
    {
      type: "button",
      class: moved ? "chip moved" : "chip",
      draggable: "true",
      "aria-pressed": "false",
      "data-word": i,
      "data-control": `swap word ${i}`,
      onclick: put,
      ondragstart: (event) => {
        event.dataTransfer.setData("text/plain", word); // without any, some browsers drag nothing
        event.dataTransfer.effectAllowed = "move";
        take();
      },
      ondragover: (event) => {
        if (!held || held.word === i) return;
        event.preventDefault(); // it may be dropped here
        event.currentTarget.classList.add("over");
      },
      ondragleave: (event) => event.currentTarget.classList.remove("over"),
      ondrop: (event) => {
        event.preventDefault();
        event.currentTarget.classList.remove("over");
        if (held && held.word !== i) apply(held.word, i);
      },
      ondragend: () => ((held = null), tell()),
    },
    word,
  );
}

function lists(words, now, apply, undo) {
  const options = [["", "–"], ...words.flatMap((word, i) => (word === null ? [] : [[String(i), `${i}: ${word}`]]))];
  const change = () => {
    const [a, b] = [first, second].map((one) => one.querySelector("select").value);
    if (a !== "" && b !== "" && a !== b) apply(Number(a), Number(b));
    else if (now) undo();
  };
  const first = choice("Swap", /** @type {any} */ (options), now ? String(now.first) : "", change);
  const second = choice("with", /** @type {any} */ (options), now ? String(now.second) : "", change);
  return el("div", { class: "pair" }, first, second);
}
