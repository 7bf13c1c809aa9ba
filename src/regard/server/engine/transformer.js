// The encoder-decoder Transformer, assembled of blocks as `models/transformer.py` has it.

import { NOTHING_READ } from "./blocks.js";
import { logitsOf, Stack, StackedModel } from "./stack.js";

/** @typedef {import("./algebra.js").Row} Row */
/** @typedef {import("./blocks.js").KeyValues} KeyValues */
/** @typedef {import("./stack.js").Known} Known */
/** @typedef {import("./stack.js").StackTold} StackTold */
/** @typedef {import("./what_ifs.js").Changes} Changes */

/**
 * What the decoder looks at: once a source.
 * @typedef {Object} Memory
 * @property {KeyValues[]} layers
 * @property {boolean[]} mask which source tokens may be looked at
 * @property {StackTold} told
 */

/** A model that reads one text and writes another. */
export class Transformer extends StackedModel {
  /**
   * @param {Object} config that of the run
   * @param {import("./blocks.js").Tensors} tensors
   */
  constructor(config, tensors) {
    super();
    this.config = config;
    const source = tensors["encoder.embedding.tokens.weight"];
    const target = tensors["decoder.embedding.tokens.weight"] ?? source; // one table where it is shared
    const scaleOf = (table) => (config.embedding_scale ? Math.sqrt(table.shape[1]) : 1);
    this.encoder = new Stack(tensors, "encoder.", "encoder", config, { scale: scaleOf(source) });
    this.decoder = new Stack(tensors, "decoder.", "decoder", config, { table: target, scale: scaleOf(target), looksAcross: true });
    this.stacks = { encoder: this.encoder, decoder: this.decoder };
    this.output = { weight: tensors["decoder.output_weight"] ?? target, bias: tensors["decoder.output_bias"] ?? null };
  }

  /**
   * Read a source.
   * @param {number[]} ids
   * @param {Changes} changes
   * @param {Known} [known]
   * @returns {Memory}
   */
  encode(ids, changes, known) {
    const { pad_id: pad, hidden_source_id: hidden, memory } = this.config;
    const mask = ids.map((id) => id !== pad && id !== hidden);
    const told = this.encoder.read(ids, 0, () => ({ mask }), changes, { known });
    const readBy = (i) => (memory === "each" ? told.layers[i].leaves.map(this.encoder.norm) : told.states);
    return { layers: this.decoder.layers.map(({ cross }, i) => cross.project(readBy(i))), mask, told };
  }

  /** @returns {KeyValues[]} what is remembered of a target before its first token */
  start() {
    return this.decoder.layers.map(() => NOTHING_READ);
  }

  /**
   * Read target tokens after those that are remembered.
   * @param {number[]} ids
   * @param {Memory} memory
   * @param {KeyValues[]} past
   * @param {Changes} changes
   * @param {Known} [known]
   * @returns {StackTold}
   */
  read(ids, memory, past, changes, known) {
    const howOf = (i) => ({ past: past[i], source: memory.layers[i], sourceMask: memory.mask });
    return this.decoder.read(ids, past[0].k.length, howOf, changes, { known });
  }

  /**
   * One token more.
   * @param {number} id
   * @param {Memory} memory
   * @param {KeyValues[]} past
   * @param {Changes} changes
   * @returns {{logits: Row, past: KeyValues[]}}
   */
  step(id, memory, past, changes) {
    const { layers, states } = this.read([id], memory, past, changes);
    return { logits: this.logits(states[0]), past: layers.map(({ present }) => present) };
  }

  /** Of a state (D,) how likely each token is, before the softmax: (V,). */
  logits(state) {
    return logitsOf(this.output, state);
  }
}
