// A classifier as one object, as `tasks/classification.py` has it: a text, or a pair, gets a label.

import { labelChoices, sharesOf } from "./choices.js";
import { Encoder } from "./encoder.js";
import { Run } from "./run.js";
import { BEGIN_ID, END_ID } from "./tokenizer.js";
import { Changes, forcedTokens, Refusal, swapped } from "./what_ifs.js";

const TAB = "\t"; // between the two texts of a pair

/**
 * A text or a pair as the model reads it.
 * @typedef {{ids: number[], segments: number[], isCut: boolean}} Laid
 */

/**
 * A look at a text.
 * @typedef {import("./run.js").Look & {laid: Laid, logits: import("./algebra.js").Row, choices: import("./choices.js").Choice[]}} Look
 */

/** A trained classifier with all it needs to be used. */
export class Classifier extends Run {
  answers = { "/api/classify": (asked) => this.classify(asked) };

  /**
   * @param {import("./run.js").RunFile} file
   * @param {import("./blocks.js").Tensors} tensors
   */
  constructor(file, tensors) {
    super(file, new Encoder(file.config, tensors));
    this.labels = file.labels;
  }

  // -------------------------------------------------------------- reading

  /** Refuse a text, or a pair, of more tokens than go in. */
  checkLength(texts, most, able) {
    const ends = texts.length > 1 ? 3 : 2; // begin and end, and one more end between two texts
    const limit = Math.min(most, this.file.config.max_len - ends);
    const n = texts.reduce((sum, text) => sum + this.reader.encode(text).length, 0);
    const named = texts.length > 1 ? "pair" : "text";
    if (n > limit) throw new Refusal(`the ${named} has ${n} tokens, at most ${limit} ${able}; shorten it`);
  }

  /**
   * One text or two between marks; what does not fit is cut, of the longer one first.
   * @param {string[]} texts
   * @returns {Laid}
   */
  laid(texts) {
    const [a, b = []] = texts.map((text) => this.reader.encode(text));
    const room = this.file.config.max_len - 2 - Number(b.length > 0);
    const first = a.slice(0, Math.max(room - b.length, Math.ceil(room / 2)));
    const second = b.slice(0, room - first.length);
    const ids = [BEGIN_ID, ...first, END_ID, ...second, ...(second.length ? [END_ID] : [])];
    const segments = ids.map((_, i) => Number(i > first.length + 1));
    return { ids, segments, isCut: a.length + b.length > room };
  }

  /** A question's two texts with a tab between them, or its one. */
  sourceOf(text, other) {
    if (this.file.pairs && other === null && !text.includes(TAB)) {
      throw new Refusal("this run reads pairs of texts: give two, or a tab between them");
    }
    if (!this.file.pairs && other !== null) throw new Refusal("this run reads each text alone: give one, not two");
    return other === null ? text : `${text}${TAB}${other}`;
  }

  /** The text or the two of a source. */
  textsOf(source) {
    const at = this.file.pairs ? source.indexOf(TAB) : -1;
    return at < 0 ? [source] : [source.slice(0, at), source.slice(at + 1)];
  }

  // -------------------------------------------------------------- a label

  /**
   * The label of a text, and how likely each label is.
   * @param {{text: any, other?: any}} asked
   */
  classify({ text, other = null }) {
    const given = [this.textIn(text, "text"), ...(other === null ? [] : [this.textIn(other, "other", { needed: false })])];
    this.checkLength(given.filter(Boolean), this.limits.tokens, "go in");
    const source = this.sourceOf(text, other);
    this.checkKnown(source);
    const { logits } = this.model.read(this.laid(given), new Changes());
    const labels = labelChoices(this.labels, logits).map(({ text: label, probability }) => ({ label, probability }));
    return { ...labels[0], labels, ...this.toldBeside(given.filter(Boolean)) };
  }

  // -------------------------------------------------------------- looking inside

  /** @returns {Look} */
  looked({ source: text, other, edits }) {
    this.checkLength([text, other].filter(Boolean), this.limits.look_tokens, "can be looked at");
    if (forcedTokens(edits).length) throw new Refusal("force_token: this run reads and writes nothing, so no token is forced");
    const source = swapped(this.sourceOf(text, other), edits);
    this.checkKnown(source);
    const texts = this.textsOf(source);
    if (!texts.some((one) => this.reader.encode(one).length)) throw new Refusal("there is nothing to look at in an empty text");
    const [laid, changes] = [this.laid(texts), new Changes(edits)];
    this.checkChanges(changes);
    const { told, logits } = this.model.read(laid, changes);
    const stacks = { encoder: told };
    const records = this.model.recordsOf(stacks);
    changes.checkKeys(records);
    const choices = labelChoices(this.labels, logits);
    const sides = { source: this.reader.tokens(laid.ids) };
    return { source, sides, tokens: [choices[0].text], edits, changes, stacks, records, laid, logits, choices };
  }

  /** Which sides an attention has. */
  axesOf() {
    return { rows: "source", columns: "source" };
  }

  /** What the payload of a look says of the answer. @param {Look} look */
  told({ sides, choices }) {
    const [{ text }] = choices;
    return {
      answer: text,
      translation: "",
      source_tokens: sides.source,
      target_tokens: [],
      task: this.file.task,
      outcome: { kind: "label", text, places: [{ rows: null, choices }] },
    };
  }

  /** How probable the label is that came out. @param {Look} look */
  shares({ tokens, logits }) {
    return sharesOf([this.labels.indexOf(tokens[0])], [logits]);
  }

  /** The same without one head. @param {Look} look @param {import("./run.js").HeadPlace} place */
  sharesWithout({ laid, tokens, changes, stacks }, place) {
    const { logits } = this.model.read(laid, changes.without(place), { told: stacks.encoder, layer: place.layer });
    return this.shares({ tokens, logits });
  }

  /** What is read at a row; nothing is written. */
  standsAt({ sides }, _side, t) {
    return { reads: sides.source[t], writes: null };
  }

  /** The labels: they are of the whole text, whatever row is followed. */
  outcomeAt({ choices }) {
    return { choices, rest: 0, chosen: choices[0].text };
  }

  /** What a reader should know of a text that did not fit. @param {Look} look */
  notes({ laid }) {
    const most = this.file.config.max_len.toLocaleString("en");
    return laid.isCut ? [`the text is longer than the ${most} tokens that the model reads: it was cut`] : [];
  }
}
