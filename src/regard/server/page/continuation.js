// Language models: a prompt is written on, and every token tells what might have come after it.

import { tokensOf } from "./draw.js";
import { el } from "./elements.js";
import { bare, bars, beside, marked } from "./outcomes.js";

/** @type {import("./answers.js").AnswerView} */
export const continuation = {
  question: ({ source, manner }) => ({
    ...manner,
    prompt: source,
    stop: manner.stop ? [manner.stop] : [],
  }),
  asked: ({ source, manner }, said, edits) =>
    edits.length && isCertain(manner)
      ? { source, max_tokens: manner.max_tokens }
      : { source, target: said.text },
  begun: ({ source }) => [read(source)],
  show: (state, looks, _info, _change) => {
    const { said, plain, changed } = looks;
    const now = changed ?? plain;
    const rewritten = changed && isCertain(state.manner);
    const words = rewritten ? marked(said.text, changed.outcome.text) : [said.text];
    return {
      words: [read(now?.source ?? state.source), ...words],
      below: [ending(state, said, changed, rewritten), ...(now ? next(state, plain, changed) : [])],
    };
  },
};

/** Whether the same text comes each time, so that what-ifs may write it anew. */
function isCertain({ temperature, stop }) {
  return temperature === 0 && !stop;
}

const read = (text) => el("span", { class: "read" }, text);

function ending({ manner }, said, changed, rewritten) {
  if (rewritten) return beside(said.text, changed.outcome.text, "The text");
  if (changed) {
    return el("p", { class: "against" }, "The text is kept as it was written, so that its weights can be compared. " +
      "At temperature 0 and without a stop it is written anew.");
  }
  if (said.finished) return null;
  return el("p", { class: "against" }, `Not at its end yet: ${manner.max_tokens} tokens were asked for, or the context is full.`);
}

/** What might come after a token: the chosen one, else the last of the prompt. */
function next(state, plain, changed) {
  const now = changed ?? plain;
  const { rows } = tokensOf(now, state.name);
  const row = Math.min(state.token ?? now.source_tokens.length - 1, rows.length - 1);
  const place = now.outcome?.places[row];
  if (!place) return [];
  const same = changed && row < plain.outcome.places.length;
  const was = same ? plain.outcome.places[row].choices : null;
  const title = el("p", { class: "caption" }, "What may come after “", bare(rows[row]), "”; choose another token below");
  return [el("div", { id: "next" }, title, bars(place.choices, { was }))];
}
