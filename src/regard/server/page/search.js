// Where else does this head do this? Held-out sentences in which its weight from such a word to such
// a word is largest, with both words marked; a click opens one.

import { askAgain, reach } from "./api.js";
import { spoken, tokensOf } from "./draw.js";
import { choice, el, fill } from "./elements.js";
import { oneHead } from "./state.js";

/** @typedef {import("./state.js").State} State */

/**
 * An object of /api/search.
 * @typedef {Object} Match
 * @property {string} source
 * @property {string|null} other
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {number} t
 * @property {number} s
 * @property {number} weight
 */

const SPECIAL = /^(<\/?s>|<pad>|\[CLS\]|\[SEP\])$/; // they stand for no word

/**
 * Draw the form; what was found stays until another head or sentence is looked at.
 * @param {HTMLElement} box a details element
 * @param {State} state
 * @param {Object} payload the look that is drawn
 * @param {boolean} hasKinds whether kinds of words are known
 * @param {(match: Match) => void} open
 */
export function showSearch(box, state, payload, hasKinds, open) {
  const { name, layer, token } = state;
  const head = oneHead(state.head);
  const key = JSON.stringify([payload.source, name, layer, head, token]);
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  const inside = box.querySelector(":scope > div");
  const weights = head === null ? null : payload.attentions[name]?.[layer]?.[head];
  if (!weights) return fill(inside, el("p", { class: "hint" }, "Pick one head first, above the picture or in the map of the model."));
  const { rows, columns, axes } = tokensOf(payload, name);
  const [t, s] = strongest(weights, token, axes.rows === axes.columns);
  const asked = { name, layer, head, row: rows[t], column: columns[s], by: "kind" };
  const found = el("div", { class: "found" });
  const again = (part) => Object.assign(asked, part);
  const words = (tokens) => [...new Set(tokens)].map((one) => /** @type {[string, string]} */ ([one, one]));
  const kinds = /** @type {[string, string][]} */ ([["kind", "words of their kind"], ["word", "these very words"]]);
  const form = el(
    "form",
    { class: "controls", onsubmit: (event) => (event.preventDefault(), show(found, { ...asked }, open)) },
    choice("From", words(rows), asked.row, (row) => again({ row })),
    choice("to", words(columns), asked.column, (column) => again({ column })),
    hasKinds ? choice("Meant are", kinds, asked.by, (by) => again({ by })) : "",
    el("button", { type: "submit", "data-control": "search" }, "Search held-out sentences"),
  );
  fill(inside, form, found);
}

/** Row and column to begin with: the chosen row, else the strongest pair; not a word and itself. */
function strongest(weights, token, same) {
  const rows = token !== null && token >= 0 && token < weights.length ? [token] : Array.from(weights, (_, t) => t);
  let best = [rows[0], 0];
  for (const t of rows) {
    Array.from(weights[t]).forEach((weight, s) => {
      if (!(same && s === t) && weight > weights[best[0]][best[1]]) best = [t, s];
    });
  }
  return best;
}

async function show(box, asked, open) {
  const held = box.contains(document.activeElement);
  const waiting = el("p", { class: "hint", role: "status" }, "Searching…");
  box.replaceChildren(waiting);
  follow(waiting);
  try {
    const found = await askAgain("/api/search", asked);
    if (!waiting.isConnected) return;
    const items = found.found.map((match) => el("li", {}, entry(match, open)));
    const rest = el("button", { type: "button", class: "quiet", "data-control": "search the rest", onclick: () => show(box, asked, open) }, "Look at the rest");
    const missing = el("p", { class: "hint", id: "search-missing" }, ...missingOf(found), found.complete ? "" : rest);
    box.replaceChildren(el("p", { role: "status", id: "search-said", tabindex: -1 }, saidOf(found)), missing, el("ol", {}, ...items));
    if (held && document.activeElement === document.body) box.querySelector("#search-said").focus();
  } catch (error) {
    if (waiting.isConnected) box.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

const PAUSE = 500; // milliseconds between two questions about the progress

/** The first search looks at all sentences, which takes a while. */
async function follow(line) {
  for (;;) {
    await new Promise((after) => setTimeout(after, PAUSE));
    if (!line.isConnected) return;
    try {
      const { done, of } = await (await reach("/api/search/progress", {})).json();
      if (line.isConnected && !of) line.textContent = "Reading held-out sentences…";
      if (line.isConnected && done) line.textContent = `Looking at held-out sentences: ${done} of ${of} at most. They are kept for the next search.`;
    } catch {
      return; // what is wrong is told by the search itself
    }
  }
}

function saidOf({ row, column, n, n_having: having, mean }) {
  const named = ({ token, kinds }) => (kinds.length ? `a word like “${token}” (${kinds.join(" or ")})` : `“${token}”`);
  const what = `From ${named(row)} to ${named(column)}`;
  if (!having) return `${what}: none of ${n} held-out sentences has such a pair.`;
  return `${what}: ${having} of ${n} held-out sentences have such a pair; the largest weight in each is ${spoken(mean)} on average. The strongest first:`;
}

/** Sentences that were not searched, and why. */
function missingOf({ n, of, n_passed_over: passed, n_left_out: left, complete }) {
  const waiting = of - n - passed - left;
  return [
    passed ? `Passed over: ${counted(passed)} that cannot be looked at, most often because of their length. ` : "",
    left ? `Left out: ${counted(left)}, because the weights of all together would be too many to keep. ` : "",
    complete ? "" : `Not all sentences: ${counted(waiting)} of ${of} are still to be looked at, the time for one search was over. `,
  ];
}

const counted = (n) => `${n} ${n === 1 ? "sentence" : "sentences"}`;

/** One sentence as a button: the weight, then the text with both words marked. */
function entry(match, open) {
  const { rows, columns, t, s, weight } = match;
  const alike = rows.length === columns.length && rows.every((word, i) => word === columns[i]);
  const texts = alike ? [marked(rows, { [t]: "from", [s]: "to" })] : [marked(columns, { [s]: "to" }), marked(rows, { [t]: "from" })];
  const told = el("span", { class: "pair-told" }, `${rows[t]} → ${columns[s]}`);
  return el("button", { type: "button", class: "match", "data-weight": weight, onclick: () => open(match) }, el("b", {}, weight.toFixed(2)), " ", told, ...texts);
}

function marked(tokens, places) {
  const parts = tokens.flatMap((token, i) => {
    if (places[i]) return [el("mark", { class: places[i] }, token), " "];
    return SPECIAL.test(token) ? [] : [token, " "];
  });
  return el("span", { class: "sentence" }, ...parts);
}
