// Lessons of 90 seconds: a table of steps. Each step says something and may set the page; one asks
// for a prediction, which the next one answers with what the model really did.

import { ask } from "./api.js";
import { scaleOf, sharpness } from "./claims.js";
import { probabilityOf, probabilityText, shareText, tokensOf } from "./draw.js";
import { whichDoes } from "./glossary.js";
import { answerOf, bare } from "./outcomes.js";
import { stepOf, weighed } from "./rests.js";
import { wordsOf } from "./words.js";

/**
 * What a step can look at: the state, both looks, what was asked for them, and what is known of the run.
 * @typedef {{state: any, plain: any, changed: any, body: any, changedBody: any, info: any}} Facts
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

/** The head of the cross-attention that looks from a written word at a read one most. */
function strongest({ plain }, written, read) {
  const name = "decoder.cross";
  const { rows, columns } = tokensOf(plain, name);
  const at = (tokens, word) => tokens.findIndex((one) => bare(one) === word);
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

/** The head that the pronoun of the answer loses most without, as it is measured, and the word's place. */
async function needed({ plain, body, info }) {
  const step = stepOf({ token: null }, plain, info.antecedents.written);
  const { packed: _, ...asked } = body;
  const { token, most } = await weighed({ ...asked, step });
  return { name: most.attention, layer: most.layer, head: most.head, token: step, word: token };
}

/** What became of the pronoun while a head is muted, and why it may still stand. */
function withoutIt({ plain, changed: edited }, { token, word, layer, head }) {
  const changed = edited ?? plain;
  const now = changed.target_tokens[token];
  if (now !== word) return `Without layer ${layer}, head ${head}, “${now}” stands where “${word}” was: this word rested on that head.`;
  const [was, is] = [plain, changed].map((look) => look.probabilities[token]);
  const isFirst = bare(changed.alternatives?.[token]?.[0]?.text ?? "") === bare(word);
  const why = isFirst ? " It is still written, for every other word has less." : " It is still written.";
  const rest = was - is < 0.01 ? "It does not rest on this head." : "So it rests on this head, but not on it alone.";
  return `“${word}” ${is < was ? "falls" : "goes"} from ${probabilityText(was)} to ${probabilityText(is)}.${why} ${rest}`;
}

/** Refuse to tell of edits that the model refused. */
function holds({ state }, ...kinds) {
  const missing = kinds.find((kind) => !state.edits.some((edit) => edit.kind === kind));
  if (missing) throw new Error(`this model refuses the change “${missing}” here`);
}

/** Whether a swap in a bag of words leaves the answer as it is. */
async function isBag(facts) {
  holds(facts, "no_positions", "swap");
  return answerOf(facts.changed) === (await bagAnswer(facts));
}

/** What is written without positions, no word swapped. */
async function bagAnswer({ changedBody: { packed: _, edits: __, ...asked } }) {
  return answerOf(await ask("/api/explain", { ...asked, edits: [{ kind: "no_positions" }] }));
}

const isSame = ({ plain, changed }) => !changed || answerOf(plain) === answerOf(changed);
const before = ({ plain, changed }) => `Before: “${answerOf(plain)}”. Now: “${answerOf(changed ?? plain)}”.`;

/** @type {{name: string, layer: number, head: number}|null} the head that the lesson on “il” found */
let surest = null;

/** The conclusion from the sentence with "wide", and where the head of the step before looks now. */
function meant({ plain }) {
  const { name, layer, head } = surest;
  const t = plain.target_tokens.findIndex((token) => bare(token) === "elle");
  if (t < 0) return "It does not write “elle” here: this model does not tell the two apart by that word.";
  const row = plain.attentions[name][layer][head][t];
  const most = row.indexOf(Math.max(...row));
  const now = `The head of the step before looks at “${bare(tokensOf(plain, name).columns[most])}” now, with ${shareText(row[most])} of its weight. What a head looks for was learned; it need not be a rule of grammar.`;
  return `“il” goes with l'animal (masculine), “elle” with la rue (feminine): one English word changed which of them “it” is. ${now} Which head the word needs is another question: the next lesson's.`;
}

const SAME = ["the same sentence", "another sentence"];
const NOUNS = ["it", "animal", "street", "tired"];

/** @type {Lesson[]} */
export const LESSONS = [
  {
    id: "il",
    title: "Where does “il” come from?",
    needs: knowsPronouns,
    steps: [
      {
        set: (facts) => ({ ...first(facts), view: "lines", name: "decoder.cross", head: null }),
        say: () => "French has two words for “it”: “il” for a masculine noun, “elle” for a feminine one. While “il” is written, every head looks at the English words in its own way. The surest of them looks at one word nearly alone. At which?",
        choices: NOUNS,
      },
      {
        set: (facts) => {
          surest = strongest(facts, "il", NOUNS[lookedAt(facts, "il", NOUNS)]);
          return { view: "lines", ...placeOf(surest) };
        },
        answer: (facts) => lookedAt(facts, "il", NOUNS),
        say: (facts) => {
          const read = NOUNS[lookedAt(facts, "il", NOUNS)];
          const found = strongest(facts, "il", read);
          return `Layer ${found.layer}, head ${found.head} (counted from 0) looks at “${read}” with ${shareText(found.weight)} of its weight. If that word tells what “it” is, another word there should change “il”. Let us see.`;
        },
      },
      { set: () => ({ ...placeOf(surest), ...CLEAN, source: WIDE }), say: (facts) => `One word is different now: “wide”, not “tired”. The model writes “${answerOf(facts.plain)}”. ${meant(facts)}` },
    ],
  },
  {
    id: "break",
    title: "Break a head",
    needs: (info, form) => knowsPronouns(info) && info.weighs && edits("ablate")(info, form),
    steps: [
      {
        set: (facts) => ({ ...first(facts), view: "lines", name: "decoder.cross" }),
        say: async (facts) => {
          const { layer, head, name, word } = await needed(facts);
          return `Where a head looks is not yet what a word rests on. So each head was muted in turn: “${word}” loses most without layer ${layer}, head ${head}${whichDoes(name, facts.info.languages ?? [])}. We mute that one. What becomes of the sentence?`;
        },
        choices: ["it stays as it is", "one word changes", "more changes"],
      },
      {
        set: async (facts) => {
          const { name, layer, head, token } = await needed(facts);
          return { name, layer, head, token: name === "decoder.cross" ? token : null, edits: [{ kind: "ablate", name, layer, head }] };
        },
        answer: (facts) => Math.min(2, differing(facts)),
        say: async (facts) => `${before(facts)} ${withoutIt(facts, await needed(facts))}`,
      },
      { set: () => CLEAN, say: () => "The head works again. To mute another: choose it in the map of the model, then Mute." },
    ],
  },
  {
    id: "positions",
    title: "Remove positions",
    needs: edits("no_positions"),
    steps: [
      { set: first, say: () => "Attention alone knows no order: it has to be told the position of every word. Without positions, the answer …", choices: ["stays the same", "changes"] },
      {
        set: () => ({ edits: [{ kind: "no_positions" }] }),
        answer: (facts) => (holds(facts, "no_positions"), isSame(facts) ? 0 : 1),
        say: (facts) => `${before(facts)} The model reads a bag of words now. It never met one while it learned, so words may come out that nobody wrote. Now we swap the first word with the last. In a bag, that …`,
        choices: ["makes no difference", "makes a difference"],
      },
      {
        set: ({ plain }) => ({ edits: [{ kind: "no_positions" }, { kind: "swap", first: 0, second: wordsOf(plain.source).length - 1 }] }),
        answer: async (facts) => ((await isBag(facts)) ? 0 : 1),
        say: async (facts) => ((await isBag(facts)) ? "The same answer, word for word: without positions the order is lost." : `Now: “${answerOf(facts.changed)}”. So something else still tells the order: a mask, or what was written before.`),
      },
      { set: () => ({ ...CLEAN, view: "story", station: "vector" }), say: () => "Positions are back. This station of the story shows their code: a heat map, waves, distances." },
    ],
  },
  {
    id: "soft",
    title: "Soft and hard",
    needs: edits("temperature"),
    steps: [
      { set: (facts) => ({ ...first(facts), view: "matrix" }), say: () => "Temperature divides the scores before they become shares. At 1 an attention may look at several words: it is soft. At 0.125 each looks at nearly one word alone: it is hard. Does the answer change?", choices: ["it stays", "it changes"] },
      { set: () => ({ edits: [{ kind: "temperature", value: 0.125, name: null }] }), answer: (facts) => (isSame(facts) ? 0 : 1), say: (facts) => `The largest weight of a row is ${shareText(sharpness(facts.plain))} on average, and ${shareText(sharpness(facts.changed ?? facts.plain))} now. ${before(facts)} And at temperature 8, where attention spreads over everything?`, choices: ["it stays", "it changes"] },
      { set: () => ({ edits: [{ kind: "temperature", value: 8, name: null }] }), answer: (facts) => (isSame(facts) ? 0 : 1), say: (facts) => `The largest weight of a row is ${shareText(sharpness(facts.changed ?? facts.plain))} on average. ${before(facts)}` },
      { set: () => CLEAN, say: () => "Back to 1, what the model learned with. Training changes a model a very little at a time, and sees whether that helps. Shares can change a little; a choice of one word cannot. That is why attention is soft." },
    ],
  },
  {
    id: "beam",
    title: "Let the beam choose",
    needs: (info, form) => form.views.includes("beam") && edits("no_positions")(info, form),
    steps: [
      { set: (facts) => ({ ...first(facts), view: "beam", beams: 4 }), say: () => "A greedy search takes the most probable word at every step. A beam of 4 keeps four beginnings open and takes the best whole. Do both end with the same sentence?", choices: SAME },
      { set: () => ({ view: "beam" }), answer: sameFound, say: bothFound },
      { set: () => ({ view: "beam", edits: [{ kind: "no_positions" }] }), say: (facts) => (holds(facts, "no_positions"), "A model that is sure leaves nothing to choose. So we make it unsure: its positions are gone. And now?"), choices: SAME },
      { set: () => ({ view: "beam" }), answer: sameFound, say: bothFound },
      { set: () => CLEAN, say: () => "Positions are back. In the tree, choose any node to go on from it." },
    ],
  },
  {
    id: "scale",
    title: "Why scale?",
    needs: edits("temperature"),
    steps: [
      { set: (facts) => ({ ...first(facts), view: "matrix" }), say: () => "Scores are divided by √d, the root of the width of keys. Without that, the weights of a head …", choices: ["spread out", "gather on one place", "stay"] },
      {
        set: async (facts) => ({ edits: [{ kind: "temperature", value: await scaleOf(facts.body, { name: facts.state.name, layer: 0 }), name: null }] }),
        answer: (facts) => {
          const by = sharpness(facts.changed ?? facts.plain) - sharpness(facts.plain);
          return by > 0.005 ? 1 : by < -0.005 ? 0 : 2;
        },
        say: (facts) => `The largest weight of a row went from ${shareText(sharpness(facts.plain))} to ${shareText(sharpness(facts.changed ?? facts.plain))} on average. A softmax that is hard from the start has hardly a gradient, and learns slowly. ${before(facts)}`,
      },
      { set: () => CLEAN, say: () => "The scale is back. The story shows it as a station of its own." },
    ],
  },
];

const placeOf = ({ name, layer, head, token }) => ({ name, layer, head, token });

function differing({ plain, changed }) {
  const [a, b] = [plain, changed ?? plain].map((one) => words(answerOf(one)));
  return a.length === b.length ? a.filter((word, i) => word !== b[i]).length : 2;
}

/** What a search finds under the edits of the page: its words and their probability as a whole. */
async function searched({ body, state }, beams) {
  const { nodes } = await ask("/api/beam", { source: body.source, n_beams: beams, prefix: [], edits: state.edits });
  const best = nodes.find(({ state }) => state === "best");
  const tokens = [];
  for (let node = best; node && node.parent !== null; node = nodes.find(({ id }) => id === node.parent)) tokens.unshift(node.token);
  return { text: tokens.filter((token) => token !== "</s>").join(" "), share: best ? probabilityOf(best, nodes) : 0 };
}

async function sameFound(facts) {
  const [greedy, beam] = [await searched(facts, 1), await searched(facts, 4)];
  return greedy.text === beam.text ? 0 : 1;
}

async function bothFound(facts) {
  const [greedy, beam] = [await searched(facts, 1), await searched(facts, 4)];
  const told = `Greedy: “${greedy.text}”, ${probabilityText(greedy.share)} as a whole.`;
  if (greedy.text === beam.text) return `${told} The beam finds the same sentence.`;
  const why = beam.share > greedy.share ? "Its single words need not be the most probable ones; the whole is more probable." : "It is chosen by its score, which allows for length.";
  return `${told} Beam: “${beam.text}”, ${probabilityText(beam.share)}. ${why}`;
}
