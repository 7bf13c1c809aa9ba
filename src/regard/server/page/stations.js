// The stations of the story, in order: a title, a formula, a sentence and a figure each. What a
// station needs decides whether a model has it; nothing here asks what kind of model it is.

import { probabilityText, shareText } from "./draw.js";
import { bars, boxesOn, chips, largestOf, patches, piecesOf, seen, strip, strips } from "./figures.js";
import { begun, codeless, fed, hasBias, hasBlocks, hasCode, isProduct, isRead, madeOf, mine, most, names, onPicture, placeIn, positionFigures, quoted, rowsOf, scores, size, slotFigures, slotOf, WINDOWS } from "./station_parts.js";
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
 * @property {string[]} positions that the columns are made of: mostly these
 * @property {any} story
 * @property {{choices: {text: string, probability: number}[], rest: number, chosen: string|null}|null} outcome
 * @property {{classes: "sigmoid"|"softmax", choices: {text: string, probability: number}[], chosen: string|null, boxes: number[][], anchored: boolean}} [found]
 *   what a query of a detector says: labels, and its box from layer to layer
 * @property {"source"|"target"|"text"|string} side whose rows are followed
 * @property {"source"|"input"|"text"|string} columns what they look at
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
  const [divided, bias] = [temperature === 1 ? "" : " / temperature", hasBias(told) ? " + {p:b_s}" : ""];
  const by = `score_s · ${own.toFixed(3)}${temperature === 1 ? "" : ` / ${short(temperature)}`}${bias}`;
  if (isRoot) return `score_s / √d_k${divided}${bias} = ${by}`;
  return temperature === 1 ? by : `score_s · ${own.toFixed(3)}${divided}${bias} = ${by}`;
}

function scaleSentence(told) {
  const { own, temperature, d, isRoot } = factorsOf(told);
  const why = isRoot ? `Keys have ${d} numbers, so a sum of so many products is large. ` : "";
  const scaled = `${why}All are multiplied by the same [scale]: ${isRoot ? `1/√${d} = ` : ""}${own.toFixed(3)}.`;
  const heated = temperature === 1 ? "" : ` The what-if divides them by its [temperature] as well: ${short(temperature)}. Together that is × ${short(told.steps.scale)}.`;
  const biased = hasBias(told) ? " Then something is added to each that goes by its place alone: what is near gets more." : "";
  return scaled + heated + biased;
}

/** @type {Station[]} */
export const STATIONS = [
  {
    id: "patches",
    title: "Patches",
    needs: ({ picture }) => Boolean(picture),
    say: (told) => `A picture is cut into ${told.grid[0]} × ${told.grid[1]} patches, which are read like words, row by row${told.found ? ", and an encoder lets them look at each other (encoder.self tells the way of each)" : ""}. We follow ${told.found ? "a query that looks for one object" : quoted(told.rows[told.steps.token])}.`,
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
    id: "cell",
    title: "A vector, and its place",
    needs: (told) => hasBlocks(told) && Boolean(told.story.place) && !told.found,
    formula: () => "{x:x} = features(patch)    {p:p} = code(row, column)",
    say: (told) => `What the picture shows at ${quoted(told.reads)} became a list of ${size(told.story.stream[0])} numbers. Where that is stays apart from it: a code of sines, which joins [query] and [key] in every layer and never the [value].`,
    figure: ({ story }) => [strip("what the first layer reads", story.stream[0], "x"), strip("code of its place", story.place, "p")],
  },
  {
    id: "object-query",
    title: "An object query",
    needs: ({ found }) => Boolean(found),
    formula: ({ found }) => (found.anchored ? "{x:x} = learned    {p:p} = f(code(box))" : "{x:x} = 0    {p:p} = learned"),
    say: ({ found, rows }) =>
      found.anchored
        ? `The model has learned ${rows.length} questions, one for each object that there may be. Each begins with a vector and a box, which is drawn here; a code of the box says where to look.`
        : `The model has learned ${rows.length} questions, one for each object that there may be. Each is a vector that says where to look; nothing is found yet.`,
    figure: ({ found, story, picture, steps }) => [
      strip("what it begins with", story.stream[0], "x"),
      ...(story.place ? [strip(`where it looks, in layer ${steps.layer}`, story.place, "p")] : []),
      ...(found.anchored ? [boxesOn(picture, found.boxes.slice(0, 1), "The box that the query begins with")] : []),
    ],
  },
  {
    id: "vector",
    title: "A vector, and its position",
    needs: (told) => hasBlocks(told) && Boolean(told.story.embedded),
    formula: (told) => `{x:x} = embedding(token)${hasCode(told) ? " + {p:code(position)}" : ""}`,
    say: (told) => {
      const list = `${quoted(told.reads)} becomes a list of ${size(told.story.embedded.vector)} numbers`;
      return hasCode(told) ? `${list}, and its [position] is joined to it: position ${told.story.embedded.position}.` : `${list}. ${codeless(told)}`;
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
    formula: ({ kind, story }) => {
      if (kind !== "blocks") return "{q:s_t} asks, {k:h_s} answer";
      return story.place ? "{q:q} = ({x:x} + {p:p}) W_Q    {k:k_s} = ({x:x_s} + {p:p_s}) W_K" : "{q:q} = {x:x} W_Q    {k:k_s} = {x:x_s} W_K";
    },
    say: (told) => `${begun(placeOf(told.reads, told.writes))} makes a [query]; each of ${names(told).length} positions offers a [key]. This is one [head] of one [layer].`,
    figure: (told) => [
      ...(hasBlocks(told) ? [strip("what the layer is given", mine(told).given, "x")] : []),
      ...(told.story.place ? [strip("+ its place", told.story.place, "p")] : []),
      strip("its query", told.steps.query, "q"),
      strips(names(told), told.steps.keys, "k", "key"),
    ],
  },
  {
    id: "window",
    title: "The window",
    needs: (told) => hasBlocks(told) && Boolean(told.story.window) && !told.story.window.parts,
    say: ({ story, steps }) => `${WINDOWS[story.window.kind](story.window.width)} Of ${steps.columns.length} positions, ours sees ${steps.visible.filter(Boolean).length}.`,
    figure: ({ steps }) => [seen(steps.columns, steps.visible)],
  },
  {
    id: "slots",
    title: "Compressed memory",
    needs: (told) => hasBlocks(told) && Boolean(told.story.window?.parts),
    formula: () => "{k:k_{slot}} = {k:k_1} W_1 + {k:k_2} W_2 + {k:k_3} W_3",
    say: (told) => {
      const { story, steps, positions } = told;
      const short = `${positions.length} positions are kept in short: ${story.window.width} neighbours become one slot, with one [key] and one [value], and a learned null stands before all slots so that there is always something to see. Ours sees ${steps.visible.filter(Boolean).length} of ${steps.columns.length}.`;
      const slot = slotOf(told);
      return slot ? `${short} Of the slots most goes to ${steps.columns[slot]}, which was made of ${madeOf(told, slot).map(({ name }) => quoted(name)).join(", ")}.` : `${short} No slot is whole yet.`;
    },
    figure: slotFigures,
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
    say: (told) => `The [softmax] makes shares of the scores. Most goes to ${quoted(most(told))}: ${shareText(Math.max(...told.steps.weights))}.${told.steps.visible.every(Boolean) ? "" : " Hidden positions get nothing."}`,
    figure: (told) => [...onPicture(told), bars(told.steps.weights.map((value, s) => ({ name: names(told)[s], value, share: value, off: !told.steps.visible[s] })), "w", { label: "Weights", percent: shareText })],
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
    say: ({ story, steps }) => `${story.heads.length} [head|heads] worked side by side; one more matrix joins what they brought. Ours is head ${steps.head}.`,
    figure: ({ story, steps }) => [
      strips(story.heads.map((_, h) => `head ${h}${h === steps.head ? " (ours)" : ""}`), story.heads, "v", "what was brought home"),
      strips(story.projected.map((_, h) => `head ${h} through that matrix`), story.projected, "x", "its part"),
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
    say: ({ story }) => `The same again in every [layer]. We looked into layer ${story.layer} of ${story.stream.length - 1}; this is the vector of our position on its way.`,
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
    needs: ({ outcome, found, kind }) => !outcome && !found && kind === "blocks",
    say: (told) => `Here the way of ${quoted(told.reads)} ends: every layer of the decoder makes a [key] and a [value] of this vector, or an answer is read off it. Follow a written word to see how they are used.`,
    figure: ({ story }) => [strip("the last vector", story.states, "x")],
  },
  {
    id: "box",
    title: "A box, layer by layer",
    needs: ({ found }) => Boolean(found),
    formula: ({ found }) => (found.anchored ? "box ← σ(f({x:x}) + σ^{-1}(box))" : "box = σ(f({x:x}))"),
    say: ({ found }) => `After every layer a small network reads a box off the vector: four numbers, its middle and its sides.${found.anchored ? " Each layer moves the box of the one before." : ""} The dashed boxes are the earlier ones.`,
    figure: ({ found, picture }) => [boxesOn(picture, found.boxes, "The picture with the boxes of the query, the last one drawn through")],
  },
  {
    id: "label",
    title: "What it is",
    needs: ({ found }) => Boolean(found),
    formula: ({ found }) => (found.classes === "sigmoid" ? "p_c = σ({x:x} · w_c)" : "p = softmax({x:x} W_{labels})"),
    say: ({ found }) => {
      const shares = found.classes === "sigmoid" ? "Every label has a chance of its own, and they need not sum to 1." : "What is missing to 1 is the share of “no object”.";
      const [best] = found.choices;
      return `${shares} ${found.chosen ? `This query has found ${quoted(found.chosen)}: ${probabilityText(best.probability)}.` : `The best, ${quoted(best.text)}, has ${probabilityText(best.probability)}: too little, so this query has found nothing.`}`;
    },
    figure: ({ found }) => [bars(found.choices.map(({ text, probability }) => ({ name: text, value: probability, share: probability, note: text === found.chosen ? "chosen" : "" })), "w", { percent: probabilityText, label: "Chances" })],
  },
  {
    id: "probabilities",
    title: "Probabilities",
    needs: ({ outcome }) => Boolean(outcome),
    formula: ({ kind }) => (kind === "blocks" ? "p = softmax({x:x} W_{vocabulary})" : "p = softmax({x:out} W_{vocabulary})"),
    say: ({ outcome }) => `Every possible outcome gets a score, a [logit]; the [softmax] makes probabilities of them. Most probable: ${quoted(outcome.choices[0].text)}, ${probabilityText(outcome.choices[0].probability)}.`,
    figure: ({ outcome }) => [
      bars(
        [...outcome.choices.map(({ text, probability }) => ({ name: text, value: probability, share: probability, note: text === outcome.chosen ? "chosen" : "" })), ...(outcome.rest > 5e-4 ? [{ name: "all others", value: outcome.rest, share: outcome.rest, note: "" }] : [])],
        "w",
        { percent: probabilityText, label: "Probabilities" },
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
