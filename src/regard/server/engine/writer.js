// A language model as one object, as `tasks/writer.py` and `tasks/generation.py` have it: it writes on
// after a prompt, and shows where it looks.

import { logSoftmax } from "./algebra.js";
import { mostProbable, outcomeOf, sharesOf } from "./choices.js";
import { LanguageModel } from "./language_model.js";
import { Run } from "./run.js";
import { samplerOf } from "./sampler.js";
import { BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID } from "./tokenizer.js";
import { Changes, Refusal, swapped, wholeNumber } from "./what_ifs.js";

/** @typedef {import("./algebra.js").Row} Row */

const LOOKED = 20; // tokens that are written while it is looked at, where nothing is said
const WRITTEN = 40; // tokens that are written where nothing is said
const HIDDEN = [PAD_ID, BEGIN_ID, UNKNOWN_ID]; // what is never written
const TORN = /\ufffd+$/; // how bytes of a character are shown that is not complete

/**
 * A look at a prompt and what follows it.
 * @typedef {import("./run.js").Look & {read: number[], said: number[], text: string, logits: Row[]}} Look
 */

/** A trained language model with all it needs to be used. */
export class Writer extends Run {
  needsText = false; // it writes from nothing

  streams = { "/api/generate": (asked) => this.generating(asked) };

  /**
   * @param {import("./run.js").RunFile} file
   * @param {import("./blocks.js").Tensors} tensors
   */
  constructor(file, tensors) {
    super(file, new LanguageModel(file.config, tensors));
    this.decode = file.decode;
    this.context = file.config.max_len; // tokens that it can read
    this.ends = new Set(file.framing.lines ? [] : [END_ID]); // what ends a text
  }

  // -------------------------------------------------------------- texts and ids

  /** What follows a prompt, as ids; where lines go on, an end is a line break. */
  inside(text) {
    const lines = this.file.framing.lines ? text.split("\n") : [text];
    return lines.flatMap((line, i) => [...(i ? [END_ID] : []), ...this.reader.encode(line)]);
  }

  /** A text to go on from. */
  framed(prompt) {
    return [END_ID, ...this.inside(prompt)];
  }

  /** Ids to text. */
  say(ids) {
    if (!this.file.framing.lines) return this.reader.decode(ids);
    const parts = [[]];
    for (const id of ids) id === END_ID ? parts.push([]) : parts.at(-1).push(id);
    return parts.map((part) => this.reader.decode(part)).join("\n");
  }

  /** What ids say after a prompt, with the space that may belong between them. */
  saidAfter(prompt, ids) {
    const [before, whole] = [this.say(prompt), this.say([...prompt, ...ids])];
    return whole.startsWith(before) ? whole.slice(before.length) : this.say(ids);
  }

  // -------------------------------------------------------------- writing

  /**
   * Tokens after a prompt, each as it comes; an end token is the last.
   * @param {number[]} prompt
   * @param {number} limit tokens at most
   * @param {(logProbs: Row) => number} choose
   * @param {Changes} changes
   * @returns {Generator<number>}
   */
  *tokensAfter(prompt, limit, choose, changes) {
    let { logits, past } = this.model.step(prompt, this.model.start(), changes);
    for (let n = 1; ; n++) {
      const logProbs = logSoftmax(logits);
      for (const id of HIDDEN) logProbs[id] = -Infinity;
      const id = choose(logProbs);
      yield id;
      if (this.ends.has(id) || n >= limit) return;
      ({ logits, past } = this.model.step([id], past, changes));
    }
  }

  /**
   * A prompt written on: each piece of the text as it comes, and all of it at the end.
   * @param {{prompt?: any, max_tokens?: any, temperature?: number, top_k?: number|null, top_p?: number|null, stop?: string[], seed?: number|null}} asked
   * @returns {Generator<{text: string}, Object>}
   */
  *generating({ prompt: typed = "", max_tokens: most = WRITTEN, stop = [], ...manner }) {
    const prompt = this.textIn(typed, "prompt", { needed: false });
    const read = this.framed(prompt);
    if (read.length > this.context) {
      throw new Refusal(`the prompt has ${read.length} tokens, but the model's context holds ${this.context}; shorten it`);
    }
    this.checkKnown(prompt);
    const limit = Math.min(wholeNumber(most, "max_tokens", 1, this.limits.written), this.context - read.length + 1);
    const sampling = this.samplingOf(manner);
    const told = { seed: sampling.seed, ...this.toldBeside([prompt]) };
    const ids = [];
    let [sent, finished] = ["", false];
    for (const id of this.tokensAfter(read, limit, samplerOf(sampling), new Changes())) {
      finished = this.ends.has(id);
      if (finished) break;
      ids.push(id);
      const { text, isOver } = cutAt(this.saidAfter(read, ids), stop);
      const sure = isOver ? text : certain(text, stop);
      if (sure.length > sent.length) {
        yield { text: sure.slice(sent.length) };
        sent = sure;
      }
      if (isOver) return { text: sent, finished: true, ...told };
    }
    const whole = this.saidAfter(read, ids);
    if (whole.length > sent.length) yield { text: whole.slice(sent.length) };
    return { text: whole, finished, ...told };
  }

  /** How to draw: what is not asked for, as the run was told to; a seed of its own without one. */
  samplingOf({ temperature = 1, top_k: topK, top_p: topP, seed }) {
    return {
      temperature,
      topK: topK ?? this.decode.top_k,
      topP: topP ?? this.decode.top_p,
      seed: seed ?? Math.floor(Math.random() * 2 ** 31),
    };
  }

  /** What begins so and is written on, always by the most probable token; the end is left out. */
  continued(read, most, begun, changes) {
    if (this.ends.has(begun.at(-1))) return begun.slice(0, -1);
    const before = [...read, ...begun];
    const room = Math.min(most - begun.length, this.context + 1 - before.length);
    if (room < 1) return begun;
    const ids = [...this.tokensAfter(before, room, samplerOf({ temperature: 0 }), changes)];
    return [...begun, ...ids.filter((id) => !this.ends.has(id))];
  }

  // -------------------------------------------------------------- looking inside

  /** @returns {Look} */
  looked({ source: typed, target, maxTokens, edits }) {
    const most = Math.min(this.room(typed, target), maxTokens ?? LOOKED);
    const source = swapped(typed, edits);
    const read = this.framed(source);
    if (target === null) this.checkKnown(source);
    const changes = new Changes(edits);
    this.checkChanges(changes);
    const goOn = (begun) => this.continued(read, most, begun, changes);
    const own = target === null ? goOn([]) : this.inside(target);
    const written = this.forced(own, edits, goOn, (n) => `${n} tokens follow the prompt, so it is from 0 to ${n}`);
    // What is written and read again: the token that fills the context is not.
    const said = read.length + written.length === this.context + 1 ? written.slice(0, -1) : written;
    const stacks = { decoder: this.model.read([...read, ...said], this.model.start(), changes) };
    const records = this.model.recordsOf(stacks);
    changes.checkKeys(records);
    const [before, after] = [this.reader.tokens(read), this.reader.tokens(said)];
    const sides = { source: before, target: after, text: [...before, ...after] };
    const logits = stacks.decoder.states.map((state) => this.model.logits(state));
    return { source, sides, tokens: after, edits, changes, stacks, records, read, said, text: this.saidAfter(read, written), logits };
  }

  /** Tokens that may be written after a prompt and perhaps a target; too many of these are refused. */
  room(source, target) {
    const full = this.context + 1; // the last is written and never read
    const n = this.framed(source).length + this.reader.encode(target ?? "").length;
    const most = Math.min(this.limits.look_tokens, target ? full : full - 1);
    if (n > most) throw new Refusal(`the text has ${n} tokens, at most ${most} can be looked at; shorten it`);
    return Math.max(1, Math.min(this.limits.look_tokens, full) - n);
  }

  /** Which sides an attention has: prompt and continuation are one text. */
  axesOf() {
    return { rows: "text", columns: "text" };
  }

  /** What the payload of a look says of the answer. @param {Look} look */
  told(look) {
    const choices = look.logits.map((logits) => mostProbable(this.writer, logits));
    return {
      answer: look.text,
      translation: look.text,
      source_tokens: look.sides.source,
      target_tokens: look.sides.target,
      probabilities: this.shares(look),
      alternatives: choices.slice(look.read.length - 1, -1),
      task: this.file.task,
      outcome: { kind: "text", text: look.text, places: choices.map((some, t) => ({ rows: [t, t + 1], choices: some })) },
    };
  }

  /** How probable each token is that follows the prompt. @param {Look} look */
  shares({ read, said, logits }) {
    return sharesOf(said, logits.slice(read.length - 1, -1));
  }

  /** The same without one head. @param {Look} look @param {import("./run.js").HeadPlace} place */
  sharesWithout({ read, said, changes, stacks }, place) {
    const known = { told: stacks.decoder, layer: place.layer };
    const { states } = this.model.read([...read, ...said], this.model.start(), changes.without(place), known);
    return sharesOf(said, states.slice(read.length - 1, -1).map((state) => this.model.logits(state)));
  }

  /** What is read at a row, and what follows it. */
  standsAt({ sides }, _side, t) {
    return { reads: sides.text[t], writes: sides.text[t + 1] ?? null };
  }

  /** What may come after a row. @param {Look} look */
  outcomeAt({ logits }, t, writes) {
    return outcomeOf(this.writer, logits[t], writes);
  }

  /** Nothing that a reader should know: what does not fit is refused. */
  notes() {
    return [];
  }
}

/** The text before the first of the stops, and whether there is one. */
function cutAt(text, stops) {
  const found = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
  return found.length ? { text: text.slice(0, Math.min(...found)), isOver: true } : { text, isOver: false };
}

/**
 * The beginning of a text that nothing which follows can change: a torn character may be completed,
 * and the beginning of a stop may become one.
 */
function certain(text, stops) {
  const whole = text.replace(TORN, "");
  const held = stops.flatMap((stop) => Array.from({ length: stop.length }, (_, n) => (whole.endsWith(stop.slice(0, n)) ? n : 0)));
  return whole.slice(0, whole.length - Math.max(0, ...held));
}
