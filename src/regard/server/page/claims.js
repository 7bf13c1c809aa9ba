// Claims of the lectures as cards in the story, each where it belongs, with a test on this sentence:
// what came out under a what-if is said, and the page shows it if the reader wants; the story goes on as it was.

import { ask } from "./api.js";
import { shareText, unpacked } from "./draw.js";
import { el, fill } from "./elements.js";
import { answerOf } from "./outcomes.js";
import { wordsOf } from "./words.js";

/** @typedef {import("./state.js").State} State */

/**
 * What a test can look at.
 * @typedef {Object} Tested
 * @property {State} state
 * @property {Object} told the answer of /api/story
 * @property {Object} body what was asked for the look without what-ifs
 * @property {(edits: Object[]) => Promise<Object>} look at the sentence under what-ifs
 */

/**
 * @typedef {Object} Claim
 * @property {string} station where its card stands
 * @property {(told: any, form: any) => boolean} needs
 * @property {(tested: Tested) => Promise<{said: string, edits: Object[]}>} test what came out, and
 *   the what-ifs that the page can show then
 */

const knows = (kind) => (_, form) => form.edits.includes(kind);

/**
 * The mean of the largest weight of a row, over all rows of all heads.
 * @param {Object} look
 * @param {{name: string, layer: number}} [place] one layer; else all layers of all attentions
 * @returns {number}
 */
export function sharpness(look, place) {
  const layers = place ? [look.attentions[place.name][place.layer]] : Object.values(look.attentions).flatMap((one) => Array.from(one));
  const rows = layers.flatMap((heads) => Array.from(heads, (head) => Array.from(head, (row) => Math.max(...row)))).flat();
  return rows.reduce((a, b) => a + b, 0) / rows.length;
}

/** The factor of a head's scores, without what-ifs; a temperature of as much takes it away. */
export async function scaleOf(body, { name, layer, head }) {
  const { packed, edits, ...asked } = body;
  const { steps } = await ask("/api/explain", { ...asked, steps: { name, layer, head: head ?? 0, token: 0 } });
  return Number(Math.max(0.01, steps.scale ?? 1).toPrecision(3));
}

/** Before and after, in words. */
function compared(plain, changed, what) {
  const [was, is] = [answerOf(plain), answerOf(changed)];
  return was === is ? `${what}, the answer stays “${is}”.` : `${what}, “${was}” becomes “${is}”.`;
}

/** @type {Object<string, Claim>} by the lab's names; the server knows the words of all of them */
export const CLAIMS = {
  positions: {
    station: "vector",
    needs: knows("no_positions"),
    test: async ({ look }) => {
      const edits = [{ kind: "no_positions" }];
      const [plain, changed] = [await look([]), await look(edits)];
      return { edits, said: `${compared(plain, changed, "Without positions")} One sentence proves nothing: this model learned with them.` };
    },
  },
  permutation: {
    station: "vector",
    needs: (told, form) => knows("no_positions")(told, form) && knows("swap")(told, form) && wordsOf(told.source).length > 1,
    test: async ({ look, told }) => {
      const swap = { kind: "swap", first: 0, second: wordsOf(told.source).length - 1 };
      const edits = [{ kind: "no_positions" }, swap];
      const [blind, swapped] = [await look(edits.slice(0, 1)), await look(edits)];
      const same = answerOf(blind) === answerOf(swapped);
      return { edits, said: `Without positions: “${answerOf(blind)}”. With the first and the last word swapped as well: “${answerOf(swapped)}”. ${same ? "The order made no difference here." : "The order made a difference here, so something else still tells it: a mask, or what was written before."}` };
    },
  },
  scaling: {
    station: "scale",
    needs: knows("temperature"),
    test: async ({ look, told, state, body }) => {
      const edits = [{ kind: "temperature", value: await scaleOf(body, told.steps), name: null }]; // which undoes the division
      const [plain, changed] = [await look([]), await look(edits)];
      return { edits, said: `Divided by √d_k, the largest weight of a row is ${shareText(sharpness(plain, state))} on average in this layer; undivided ${shareText(sharpness(changed, state))}. ${compared(plain, changed, "Undivided everywhere")}` };
    },
  },
  future: {
    station: "softmax",
    needs: (told) => told.steps.name.endsWith(".self") && (told.side === "text" || told.columns === "input") && told.rows.length === told.steps.columns.length, // written word by word, none put together
    test: async ({ look, state }) => {
      const heads = Array.from((await look([])).attentions[state.name][state.layer]); // this layer's weights are exact
      const ahead = heads.flatMap((rows) => Array.from(rows, (row, t) => Array.from(row).slice(t + 1)).flat());
      const most = ahead.reduce((a, b) => Math.max(a, b), 0);
      return { edits: [], said: `In all ${heads.length} heads of layer ${state.layer} of ${state.name}, ${ahead.length} weights lead to words that were yet to come; the largest is ${most.toFixed(3)}.${most === 0 ? " The mask hides them all." : ""}` };
    },
  },
  heads: {
    station: "heads",
    needs: (told, form) => knows("ablate")(told, form) && told.story.heads?.length > 1 && told.story.heads.length <= 16, // so many what-ifs at once
    test: async ({ look, told }) => {
      const { name, layer, head } = told.steps;
      const edits = told.story.heads.map((_, h) => ({ kind: "ablate", name, layer, head: h })).filter((one) => one.head !== head);
      const [plain, changed] = [await look([]), await look(edits)];
      return { edits, said: compared(plain, changed, `With head ${head} alone in layer ${layer} of ${name}`) };
    },
  },
};

/** @type {Map<string, {said: string, edits: Object[]}>} what came out, by claim and by what was tested */
const found = new Map();

/**
 * The cards of a station.
 * @param {string} station
 * @param {Object} told the answer of /api/story
 * @param {State} state
 * @param {Object} body what was asked for the look that is drawn
 * @param {{claims: Object<string, string>, form: Object}} info of the run, with the words of all claims
 * @param {(part: Partial<State>) => void} change
 * @returns {HTMLElement[]}
 */
export function claimCards(station, told, state, body, info, change) {
  const { edits, packed, target, ...plain } = body; // a language model writes anew, the same way each time
  const look = async (some) => unpacked(await ask("/api/explain", { ...plain, ...(some.length && { edits: some }), packed: { name: state.name, layer: state.layer } }));
  const here = Object.entries(CLAIMS).filter(([name, one]) => one.station === station && info.claims?.[name] && one.needs(told, info.form));
  return here.map(([name, one]) => card(name, info.claims[name], one, { state, told, body: plain, look }, change));
}

function card(name, claim, { test }, tested, change) {
  const { steps } = tested.told;
  const key = JSON.stringify([name, tested.body, steps.name, steps.layer, steps.head]);
  const said = el("p", { class: "verdict", role: "status" });
  const tell = () => {
    const { said: words, edits } = found.get(key);
    const show = el("button", { type: "button", class: "quiet", "data-control": `show ${name}`, onclick: () => change({ edits, plain: false }) }, "Show it on the page");
    fill(said, words, " ", edits.length ? show : "");
  };
  if (found.has(key)) tell();
  const run = async (button) => {
    button.disabled = true;
    said.textContent = "Testing…";
    try {
      found.set(key, await test(tested));
      tell();
    } catch (error) {
      said.textContent = error.message;
    }
    button.disabled = false;
  };
  const button = el("button", { type: "button", "data-control": `test ${name}`, onclick: (event) => run(event.currentTarget) }, "Test it here");
  return el("div", { class: "claim-card", role: "group", "data-claim": name, "aria-label": `Claim: ${name}` }, el("p", {}, el("span", { class: "caption" }, "Claim: "), claim), button, said, el("p", { class: "hint" }, "The whole experiment: ", el("code", {}, `regard lab ${name}`)));
}
