// The stations of the story, in order: a title, a formula, a sentence and a figure each. What a
// station needs decides whether a model has it; nothing here asks what kind of model it is.

import { shareText } from "./draw.js";
import { bars, chips, heat, largestOf, patches, piecesOf, strip, strips, waves } from "./figures.js";
import { el } from "./elements.js";
import { placeOf } from "./told.js";

/**
 * The answer of /api/story.
 * @typedef {Object} Told
 * @property {"blocks"|"states"} kind
 * @property {string} source
 * @property {{text: string, pieces: string[]}[]} words
 * @property {string[]} rows
 * @property {string} reads the token that stands at the position
 * @property {string|null} writes the token that was written there
 * @property {any} steps
 * @property {any} story
 * @property {{choices: {text: string, probability: number}[], rest: number, chosen: string|null}|null} outcome
 * @property {"source"|"target"|"text"|string} side whose rows are followed
 * @property {string} [picture] that was read, as a data URL
 * @property {number[]} [grid] its rows and columns of patches
 * @property {{kind: string}[]} edits what was changed for it
 */

/**
 * @typedef {Object} Station
 * @property {string} id
 * @property {string} title
 * @property {(told: Told) => boolean} [needs]
 * @property {(told: Told) => string} [formula] see `formula` of figures.js
 * @property {(told: Told) => string} say with `[words]` that are explained
 * @property {(told: Told) => (Node|string)[]} figure
 */

const size = (vector) => vector.length;
const begun = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const quoted = (text) => `“${text}”`;
const most = ({ steps }) => steps.columns[steps.weights.indexOf(Math.max(...steps.weights))];
const hasBlocks = ({ kind }) => kind === "blocks";
const mine = ({ steps, story }) => story.sublayers.find(({ kind }) => kind === steps.name.split(".").at(-1)) ?? story.sublayers[0];
const fed = ({ story }) => story.sublayers.find(({ kind }) => kind === "feed_forward");
const isRead = ({ side }) => side === "source"; // the token that is followed was read, not written
const names = ({ steps }) => steps.columns;

/** Where the followed token stands among the pieces of the source; null where it is not of it. */
const placeIn = ({ side, steps }) => (side === "source" || side === "text" ? steps.token : null);

/** Numbers of a head beside each other, as bars from 0; what is hidden has none. */
function rowsOf(told, values, more = () => ({})) {
  const top = largestOf([values]);
  return values.map((value, s) => ({
    name: names(told)[s],
    value,
    share: told.steps.visible[s] ? Math.abs(value ?? 0) / top : 0,
    off: !told.steps.visible[s],
    ...more(s),
  }));
}

const productsOf = ({ query, keys }, s) => query.map((value, i) => value * keys[s][i]);
const sumOf = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** Whether scores are inner products of what is shown; additive and other ones are not. */
function isProduct({ steps }) {
  if (steps.keys[0].length !== steps.query.length) return false;
  return steps.scores.every((score, s) => score === null || Math.abs(sumOf(productsOf(steps, s)) - score) < 1e-3 * (1 + Math.abs(score)));
}

/** Scores as numbers that can be picked, and the products of the one that is. */
function scores(told) {
  const { steps } = told;
  const box = el("div", {});
  const show = (picked) => {
    const held = box.contains(document.activeElement);
    const rows = rowsOf(told, steps.scores, (s) => ({ on: s === picked }));
    box.replaceChildren(bars(rows, "w", { onPick: show, label: "Scores" }), ...products(told, picked));
    if (held) /** @type {any} */ (box.querySelector(`[data-control="number ${picked}"]`))?.focus();
  };
  show(steps.weights.indexOf(Math.max(...steps.weights)));
  return [box];
}

function products({ steps }, s) {
  const each = productsOf(steps, s);
  const total = sumOf(each);
  const largest = largestOf([steps.query, steps.keys[s]]);
  const line = `The ${size(each)} products of ${quoted(steps.columns[s])} sum to ${total.toFixed(3).replace("-", "−")}.`;
  return [
    el("div", { class: "products" }, strip("query", steps.query, "q", largest), strip(`key of ${steps.columns[s]}`, steps.keys[s], "k", largest), strip("products", each, "w")),
    el("p", { class: "hint", role: "status" }, line),
  ];
}

/** Whether a code of its position was added to the vector. */
const hasCode = ({ story }) => story.embedded.codes.some((code) => code.some((one) => one !== 0));

/** Why no code was added. */
function codeless({ story, edits }) {
  const { kind } = story.embedded;
  if (edits.some((edit) => edit.kind === "no_positions")) return "No code of its [position] was added, because positions are off.";
  if (kind === "none") return "This model has no positions, so no code is added.";
  return `Positions of the kind ${kind} add no code to the vector: they are told inside the attention.`;
}

function positionFigures({ story, steps, side }) {
  const { codes, distances } = story.embedded;
  const at = steps.token;
  const by = (t, s) => `position ${t}, dimension ${s}`;
  const tall = Math.min(160, Math.max(48, 9 * codes.length));
  const apart = (t, s) => `positions ${t} and ${s}: distance`;
  const map = heat(codes, `Code of ${codes.length} positions, a row each`, "p", { height: tall, names: by });
  const far = heat(distances, "Distances between positions", "p", { height: tall, names: apart });
  const captioned = (figure, caption) => el("figure", {}, figure, el("figcaption", {}, caption));
  return [
    el(
      "div",
      { class: "figures3" },
      captioned(map, `Rows are positions 0 to ${codes.length - 1}, columns are dimensions.`),
      captioned(waves(codes, at), `A few dimensions as waves; the dot is position ${at}${side === "target" ? " of what is written" : ""}.`),
      captioned(far, "Rows and columns are positions; the stronger, the farther apart."),
    ),
  ];
}

/** The factors of the scores: the model's own, and what the temperatures of what-ifs divide by. */
function factorsOf({ steps, edits }) {
  const here = edits.filter(({ kind, name }) => kind === "temperature" && (name ?? steps.name) === steps.name);
  const temperature = here.reduce((all, { value }) => all * value, 1);
  const own = steps.scale * temperature;
  const d = steps.keys[0].length;
  return { own, temperature, d, isRoot: Math.abs(own * Math.sqrt(d) - 1) < 1e-3 };
}

const short = (value) => String(Number(value.toPrecision(3)));

function scaleFormula(told) {
  const { own, temperature, isRoot } = factorsOf(told);
  const by = `score_s · ${own.toFixed(3)}`;
  const scaled = isRoot ? `score_s / √d_k = ${by}` : by;
  return temperature === 1 ? scaled : `score_s ${isRoot ? "/ √d_k " : `· ${own.toFixed(3)} `}/ temperature = score_s · ${own.toFixed(3)} / ${short(temperature)}`;
}

function scaleSentence(told) {
  const { own, temperature, d, isRoot } = factorsOf(told);
  const why = isRoot ? `Keys have ${d} numbers, so a sum of so many products is large. ` : "";
  const scaled = `${why}All are multiplied by the same [scale]: ${isRoot ? `1/√${d} = ` : ""}${own.toFixed(3)}.`;
  if (temperature === 1) return scaled;
  return `${scaled} The what-if divides them by its [temperature] as well: ${short(temperature)}. Together that is × ${short(told.steps.scale)}.`;
}

/** @type {Station[]} */
export const STATIONS = [
  {
    id: "patches",
    title: "Patches",
    needs: ({ picture }) => Boolean(picture),
    say: (told) => `A picture is cut into ${told.grid[0]} × ${told.grid[1]} patches, which are read like words, row by row. We follow ${quoted(told.rows[told.steps.token])}.`,
    figure: ({ picture, grid, words, steps, side }) => [patches(picture, grid, side === "source" ? steps.token - (words.length - grid[0] * grid[1]) : -1)],
  },
  {
    id: "words",
    title: "Words",
    needs: ({ source }) => Boolean(source),
    say: (told) =>
      isRead(told)
        ? `This is what is read. We follow ${quoted(told.reads)}.`
        : `This is what is read. We follow the position that has read ${quoted(told.reads)} and has to say what comes next.`,
    figure: (told) => [chips(told.words.map(({ text }) => text))],
  },
  {
    id: "pieces",
    title: "Pieces",
    needs: ({ source }) => Boolean(source),
    say: ({ words }) =>
      words.some(({ pieces }) => pieces.length > 1)
        ? "Each word is cut into pieces of the vocabulary: a [token|token] each, and a number each."
        : "Every word is one [token] of the vocabulary here; marks stand where a text begins or ends.",
    figure: (told) => [piecesOf(told.words, placeIn(told))],
  },
  {
    id: "vector",
    title: "A vector, and its position",
    needs: (told) => hasBlocks(told) && Boolean(told.story.embedded),
    formula: (told) => `{x:x} = embedding(token)${hasCode(told) ? " + {p:code(position)}" : ""}`,
    say: (told) => {
      const list = `${quoted(told.reads)} becomes a list of ${size(told.story.embedded.vector)} numbers`;
      return hasCode(told) ? `${list}, and its [position] is joined to it: position ${told.steps.token}.` : `${list}. ${codeless(told)}`;
    },
    figure: (told) => {
      const { token, code, vector } = told.story.embedded;
      if (!hasCode(told)) return [strip(`vector of ${told.reads}`, token, "x"), strip("= what the first layer reads", vector, "x")];
      return [strip(`vector of ${told.reads}`, token, "x"), strip("+ code of its position", code, "p"), strip("= what the first layer reads", vector, "x"), ...positionFigures(told)];
    },
  },
  {
    id: "states",
    title: "States that were read",
    needs: ({ kind, story }) => kind === "states" && Boolean(story.read),
    formula: () => "{k:h_s} = cell(word_s, {k:h_{s−1}})",
    say: () => "The encoder reads word after word; after each it has a state, and all of them are kept.",
    figure: (told) => [strips(names(told).slice(0, told.story.read.length), told.story.read, "k", "state")],
  },
  {
    id: "query",
    title: "A query and keys",
    formula: ({ kind }) => (kind === "blocks" ? "{q:q} = {x:x} W_Q    {k:k_s} = {x:x_s} W_K" : "{q:s_t} asks, {k:h_s} answer"),
    say: (told) => `${begun(placeOf(told.reads, told.writes))} makes a [query]; each of ${names(told).length} positions offers a [key]. This is one [head] of one [layer].`,
    figure: (told) => [
      ...(hasBlocks(told) ? [strip("what the layer is given", mine(told).given, "x")] : []),
      strip("its query", told.steps.query, "q"),
      strips(names(told), told.steps.keys, "k", "key"),
    ],
  },
  {
    id: "scores",
    title: "Query times key",
    needs: isProduct,
    formula: () => "score_s = {q:q} · {k:k_s} = Σ_i {q:q_i} {k:k_{s,i}}",
    say: () => "Where query and [key|keys] point the same way, the score is large. Choose a number to see its products.",
    figure: scores,
  },
  {
    id: "compared",
    title: "Query and key compared",
    needs: (told) => !isProduct(told),
    formula: () => "score_s = f({q:q}, {k:k_s})",
    say: () => "A small function compares the query with every [key]; the better they fit, the larger the score.",
    figure: (told) => [bars(rowsOf(told, told.steps.scores), "w", { label: "Scores" })],
  },
  {
    id: "scale",
    title: "Scale",
    needs: ({ steps }) => steps.scale !== null,
    formula: scaleFormula,
    say: scaleSentence,
    figure: (told) => [bars(rowsOf(told, told.steps.scaled, (s) => ({ note: `${told.steps.scores[s] === null ? "" : `from ${told.steps.scores[s].toFixed(2).replace("-", "−")}`}` })), "w", { label: "Scaled scores" })],
  },
  {
    id: "softmax",
    title: "Softmax",
    formula: () => "{w:w_s} = exp(score_s) / Σ_r exp(score_r)",
    say: (told) => `The [softmax] makes shares of the scores. Most goes to ${quoted(most(told))}: ${shareText(Math.max(...told.steps.weights))}. Hidden positions get nothing.`,
    figure: (told) => [bars(told.steps.weights.map((value, s) => ({ name: names(told)[s], value, share: value, off: !told.steps.visible[s] })), "w", { label: "Weights", percent: true })],
  },
  {
    id: "values",
    title: "Weighted values",
    formula: () => "{v:c} = Σ_s {w:w_s} {v:v_s}",
    say: () => "Each position hands over its [value], as much of it as its [weight] says; the sum is what this head brings home.",
    figure: (told) => [strips(names(told), told.steps.weighted, "v", "weighted value", told.steps.weights), strip("their sum", told.steps.sum, "v")],
  },
  {
    id: "heads",
    title: "Heads joined",
    needs: hasBlocks,
    formula: ({ story }) => `{v:[c_1 … c_${story.heads.length}]} W_O${story.bias ? " + b" : ""}`,
    say: ({ story, steps }) => `${story.heads.length} [head|heads] worked side by side; W_O joins what they brought. Ours is head ${steps.head}.`,
    figure: ({ story, steps }) => [
      strips(story.heads.map((_, h) => `head ${h}${h === steps.head ? " (ours)" : ""}`), story.heads, "v", "what was brought home"),
      strips(story.projected.map((_, h) => `head ${h} through W_O`), story.projected, "x", "its part"),
    ],
  },
  {
    id: "residual",
    title: "Residual and norm",
    needs: hasBlocks,
    formula: ({ story }) => (story.norm_first ? "{x:x} ← {x:x} + f(norm({x:x}))" : "{x:x} ← norm({x:x} + f({x:x}))"),
    say: ({ story }) => `What was found is added to what was there: the [residual] path. ${story.norm_first ? "The [norm] stands before the next sub-layer." : "Then a [norm] keeps the numbers of one size."}`,
    figure: (told) => {
      const { enters, added, sum, leaves } = mine(told);
      const largest = largestOf([enters, added, sum]);
      return [strip("what was there", enters, "x", largest), strip("+ what was found", added, "v", largest), strip("= their sum", sum, "x", largest), ...(told.story.norm_first ? [] : [strip("after the norm", leaves, "x")])];
    },
  },
  {
    id: "feed-forward",
    title: "Feed-forward",
    needs: (told) => hasBlocks(told) && Boolean(fed(told)),
    formula: () => "{x:x} + W_2 f(W_1 {x:x})",
    say: ({ story }) =>
      story.active
        ? `Every position alone goes through the [feed-forward]: ${size(story.active)} units, of which ${story.active.filter((one) => Math.abs(one) > 1e-6).length} answer here.`
        : "Every position alone goes through the [feed-forward]; here experts share the work.",
    figure: (told) => [
      ...(told.story.active ? [strip("units before", told.story.inner, "x"), strip("units that answer", told.story.active, "w")] : []),
      strip("what is added", fed(told).added, "v"),
      strip("what leaves it", fed(told).leaves, "x"),
    ],
  },
  {
    id: "layers",
    title: "The next layer",
    needs: hasBlocks,
    say: ({ story, steps }) => `The same again in every [layer]. We looked into layer ${steps.layer} of ${story.stream.length - 1}; this is the vector of our position on its way.`,
    figure: ({ story }) => [strips(story.stream.map((_, i) => (i ? `after layer ${i - 1}` : "at the start")), story.stream, "x", "the vector")],
  },
  {
    id: "output",
    title: "State, context, output",
    needs: ({ kind }) => kind === "states",
    formula: () => "{x:out} = f({q:s_t}, {v:c})",
    say: () => "State and context together are what the next word is read off.",
    figure: ({ story, steps }) => [...(story.word ? [strip("the word read last", story.word, "p")] : []), strip("state", steps.query, "q"), strip("context", steps.sum, "v"), strip("output", story.output, "x")],
  },
  {
    id: "handed",
    title: "Handed to the decoder",
    needs: ({ outcome, kind }) => !outcome && kind === "blocks",
    say: (told) => `Here the way of ${quoted(told.reads)} ends: every layer of the decoder makes a [key] and a [value] of this vector, or an answer is read off it. Follow a written word to see how they are used.`,
    figure: ({ story }) => [strip("the last vector", story.states, "x")],
  },
  {
    id: "probabilities",
    title: "Probabilities",
    needs: ({ outcome }) => Boolean(outcome),
    formula: ({ kind }) => (kind === "blocks" ? "p = softmax({x:x} W_{vocabulary})" : "p = softmax({x:out} W_{vocabulary})"),
    say: ({ outcome }) => `Every possible outcome gets a score, a [logit]; the [softmax] makes probabilities of them. Most probable: ${quoted(outcome.choices[0].text)}, ${shareText(outcome.choices[0].probability)}.`,
    figure: ({ outcome }) => [
      bars(
        [...outcome.choices.map(({ text, probability }) => ({ name: text, value: probability, share: probability, note: text === outcome.chosen ? "chosen" : "" })), ...(outcome.rest > 5e-4 ? [{ name: "all others", value: outcome.rest, share: outcome.rest, note: "" }] : [])],
        "w",
        { percent: true, label: "Probabilities" },
      ),
    ],
  },
  {
    id: "word",
    title: "The outcome",
    needs: ({ outcome }) => Boolean(outcome),
    say: (told) => (told.writes ? `${quoted(told.writes)} is written here. It is read next, and all begins again for the word after it.` : told.outcome.chosen ? `What comes out: ${quoted(told.outcome.chosen)}.` : "This would come next."),
    figure: (told) => {
      const followed = told.side === "target" ? told.rows : [told.writes ?? told.outcome.chosen ?? told.outcome.choices[0].text];
      return [chips(followed, told.side === "target" ? told.steps.token : 0)];
    },
  },
];
