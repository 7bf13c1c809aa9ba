// Lessons of 90 seconds: a table of steps. Each step says something and may set the page; one asks
// for a prediction, which the next one answers with what the model really did.

import { ask } from "./api.js";
import { tokensOf } from "./draw.js";

/**
 * What a step can look at: the state, both looks, what was asked for them, and what is known of the run.
 * @typedef {{state: any, plain: any, changed: any, body: any, info: any}} Facts
 */

/**
 * @typedef {Object} LessonStep
 * @property {(facts: Facts) => string|Promise<string>} say
 * @property {(facts: Facts) => any} [set] what of the state changes, before it is said
 * @property {string[]} [choices] of a prediction
 * @property {(facts: Facts) => number|Promise<number>} [answer] which of the choices of the step
 *   before is right; it is asked once the page shows what `set` asks for
 */

/**
 * @typedef {Object} Lesson
 * @property {string} id
 * @property {string} title
 * @property {(info: any, form: any) => boolean} needs
 * @property {LessonStep[]} steps
 */

const TIRED = "the animal did not cross the street because it was too tired";
const WIDE = "the animal did not cross the street because it was too wide";
const CLEAN = { edits: [], plain: false, token: null, prefix: [], line: 0 };

const knowsPronouns = (info) => Boolean(info.antecedents);
const edits = (kind) => (info, form) => form.edits.includes(kind) && info.attentions.length > 0;
const words = (text) => text.trim().split(/\s+/);
const sentenceOf = ({ info, state }) => (knowsPronouns(info) ? TIRED : state.source);
const first = (facts) => ({ ...CLEAN, source: sentenceOf(facts) });
const share = (value) => `${(100 * value).toFixed(0)} %`;
const answerOf = (look) => look.translation || look.answer || "";

/** The head of the cross-attention that looks from a written word at a read one most. */
function strongest({ plain }, written, read) {
  const name = "decoder.cross";
  const { rows, columns } = tokensOf(plain, name);
  const at = (tokens, word) => tokens.findIndex((one) => one.replace(/^\W/, "") === word); // perhaps with a mark for a space
  const [t, s] = [at(rows, written), at(columns, read)];
  if (t < 0 || s < 0) throw new Error(`“${t < 0 ? written : read}” does not stand in this sentence as the model has it`);
  const heads = Array.from(plain.attentions[name], (layer, l) => Array.from(layer, (one, h) => ({ layer: l, head: h, weight: one[t][s] }))).flat();
  return { name, token: t, ...heads.sort((a, b) => b.weight - a.weight)[0] };
}

/** Of some read words, the one at which some head looks most while a word is written. */
function lookedAt(facts, written, among) {
  const found = among.map((read) => strongest(facts, written, read).weight);
  return found.indexOf(Math.max(...found));
}

/** The mean, over all rows of all heads, of the largest weight of a row. */
function sharpness(look) {
  const rows = Object.values(look.attentions).flatMap((layers) => Array.from(layers, (heads) => Array.from(heads, (one) => Array.from(one, (row) => Math.max(...row))))).flat(2);
  return rows.reduce((a, b) => a + b, 0) / rows.length;
}

const isSame = ({ plain, changed }) => !changed || answerOf(plain) === answerOf(changed);
const before = ({ plain, changed }) => `Before: “${answerOf(plain)}”. Now: “${answerOf(changed ?? plain)}”.`;

const NOUNS = ["it", "animal", "street", "tired"];

/** @type {Lesson[]} */
export const LESSONS = [
  {
    id: "il",
    title: "Where does il come from?",
    needs: knowsPronouns,
    steps: [
      {
        set: (facts) => ({ ...first(facts), view: "lines", name: "decoder.cross", head: null }),
        say: () => "French has two words for “it”: il for a masculine noun, elle for a feminine one. While il is written, which English word does some head look at most?",
        choices: NOUNS,
      },
      {
        set: (facts) => ({ view: "lines", ...placeOf(strongest(facts, "il", NOUNS[lookedAt(facts, "il", NOUNS)])) }),
        answer: (facts) => lookedAt(facts, "il", NOUNS),
        say: (facts) => {
          const found = strongest(facts, "il", NOUNS[lookedAt(facts, "il", NOUNS)]);
          return `Layer ${found.layer}, head ${found.head} looks there with ${share(found.weight)} of its weight. A weight says where a head looked, not what the word rests on: that is the next lesson.`;
        },
      },
      { set: () => ({ ...CLEAN, source: WIDE }), say: ({ plain }) => `One word is different now: wide. The model writes “${answerOf(plain)}”.` },
    ],
  },
  {
    id: "break",
    title: "Break a head",
    needs: (info, form) => knowsPronouns(info) && edits("ablate")(info, form),
    steps: [
      {
        set: (facts) => ({ ...first(facts), view: "lines", name: "decoder.cross" }),
        say: () => "We mute the one head that looks from il at animal most. What becomes of the sentence?",
        choices: ["it stays as it is", "one word changes", "more changes"],
      },
      {
        set: (facts) => {
          const { name, layer, head, token } = strongest(facts, "il", "animal");
          return { name, layer, head, token, edits: [{ kind: "ablate", name, layer, head }] };
        },
        answer: (facts) => Math.min(2, differing(facts)),
        say: (facts) => `${before(facts)} Several heads may know the same: the map of the model shows what each is worth to a word.`,
      },
      { set: () => CLEAN, say: () => "The head is whole again. Press any head of the map long, or M on it, to break another." },
    ],
  },
  {
    id: "positions",
    title: "Remove positions",
    needs: edits("no_positions"),
    steps: [
      { set: first, say: () => "Attention alone knows no order: positions are joined to the words to tell it. Without them, the answer …", choices: ["stays the same", "has the same words in another order", "has other words"] },
      {
        set: () => ({ edits: [{ kind: "no_positions" }] }),
        answer: (facts) => (isSame(facts) ? 0 : sorted(answerOf(facts.plain)) === sorted(answerOf(facts.changed)) ? 1 : 2),
        say: (facts) => `${before(facts)} What is left is a bag of words.`,
      },
      { set: () => ({ ...CLEAN, view: "story" }), say: () => "Positions are back. In the story, the third station shows their code: a heat map, waves, distances." },
    ],
  },
  {
    id: "soft",
    title: "Soft and hard",
    needs: edits("temperature"),
    steps: [
      { set: (facts) => ({ ...first(facts), view: "matrix" }), say: () => "At temperature 0.125 every attention looks at nearly one place only. Does the answer change?", choices: ["it stays", "it changes"] },
      { set: () => ({ edits: [{ kind: "temperature", value: 0.125, name: null }] }), answer: (facts) => (isSame(facts) ? 0 : 1), say: (facts) => `The largest weight of a row is ${share(sharpness(facts.plain))} on average, and ${share(sharpness(facts.changed ?? facts.plain))} now. ${before(facts)} And at temperature 8, where attention spreads over everything?`, choices: ["it stays", "it changes"] },
      { set: () => ({ edits: [{ kind: "temperature", value: 8, name: null }] }), answer: (facts) => (isSame(facts) ? 0 : 1), say: (facts) => `The largest weight of a row is ${share(sharpness(facts.changed ?? facts.plain))} on average. ${before(facts)}` },
      { set: () => CLEAN, say: () => "Temperature 1 is what the model was trained with." },
    ],
  },
  {
    id: "beam",
    title: "Let the beam choose",
    needs: (_info, form) => form.views.includes("beam"),
    steps: [
      { set: (facts) => ({ ...first(facts), view: "beam", beams: 4 }), say: () => "The search keeps four beginnings open. Does the winner begin with the word that was most probable at first?", choices: ["yes", "no"] },
      {
        set: () => ({ view: "beam" }),
        answer: async ({ body }) => ((await firstWords(body)).same ? 0 : 1),
        say: async ({ body }) => {
          const { best, likeliest } = await firstWords(body);
          return `Most probable at first: “${likeliest}”. The winner begins with “${best}”. A greedy search could never go back; a beam can.`;
        },
      },
    ],
  },
  {
    id: "scale",
    title: "Why scale?",
    needs: edits("temperature"),
    steps: [
      { set: (facts) => ({ ...first(facts), view: "matrix" }), say: () => "Scores are divided by √d, the root of the width of keys. Without that, the weights of a head …", choices: ["spread out", "gather on one place", "stay"] },
      {
        set: async (facts) => ({ edits: [{ kind: "temperature", value: await scaleOf(facts), name: null }] }),
        answer: (facts) => {
          const by = sharpness(facts.changed ?? facts.plain) - sharpness(facts.plain);
          return by > 0.005 ? 1 : by < -0.005 ? 0 : 2;
        },
        say: (facts) => `The largest weight of a row went from ${share(sharpness(facts.plain))} to ${share(sharpness(facts.changed ?? facts.plain))} on average. A softmax that is hard from the start has hardly a gradient, and learns slowly. ${before(facts)}`,
      },
      { set: () => CLEAN, say: () => "The scale is back. The story shows it as a station of its own." },
    ],
  },
];

const placeOf = ({ name, layer, head, token }) => ({ name, layer, head, token });
const sorted = (text) => words(text).sort().join(" ");

function differing({ plain, changed }) {
  const [a, b] = [plain, changed ?? plain].map((one) => words(answerOf(one)));
  return a.length === b.length ? a.filter((word, i) => word !== b[i]).length : 2;
}

async function firstWords({ source }) {
  const { nodes } = await ask("/api/beam", { source, n_beams: 4 });
  const begun = nodes.filter((node) => node.parent !== null && nodes.find(({ id }) => id === node.parent)?.parent === null);
  const likeliest = [...begun].sort((a, b) => b.log_prob - a.log_prob)[0];
  let best = nodes.find(({ state }) => state === "best");
  while (best && !begun.includes(best)) best = nodes.find(({ id }) => id === best.parent);
  return { best: best?.token ?? "", likeliest: likeliest?.token ?? "", same: best === likeliest };
}

/** The factor of the scores; a temperature of as much takes it away. */
async function scaleOf({ body, state }) {
  const { packed, edits: _, ...asked } = body;
  const { steps } = await ask("/api/explain", { ...asked, steps: { name: state.name, layer: 0, head: 0, token: 0 } });
  return Number(Math.max(0.01, steps.scale ?? 1).toPrecision(3));
}
