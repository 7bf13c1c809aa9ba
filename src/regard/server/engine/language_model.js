// The decoder alone, as `models/decoder.py` has it: a token after the other.

import { NOTHING_READ } from "./blocks.js";
import { logitsOf, Stack, StackedModel } from "./stack.js";

/** @typedef {import("./algebra.js").Row} Row */
/** @typedef {import("./blocks.js").KeyValues} KeyValues */
/** @typedef {import("./stack.js").StackTold} StackTold */
/** @typedef {import("./what_ifs.js").Changes} Changes */

/** What comes next, given all before it. */
export class LanguageModel extends StackedModel {
  /**
   * @param {Object} config that of the run
   * @param {import("./blocks.js").Tensors} tensors
   */
  constructor(config, tensors) {
    super();
    this.decoder = new Stack(tensors, "", "decoder", config);
    this.stacks = { decoder: this.decoder };
    this.output = { weight: tensors["to_logits.weight"] ?? tensors["embedding.tokens.weight"], bias: null };
  }

  /** @returns {KeyValues[]} what is remembered of a text before its first token */
  start() {
    return this.decoder.layers.map(() => NOTHING_READ);
  }

  /**
   * Read tokens after those that are remembered.
   * @param {number[]} ids
   * @param {KeyValues[]} past
   * @param {Changes} changes
   * @param {import("./stack.js").Known} [known]
   * @returns {StackTold}
   */
  read(ids, past, changes, known) {
    return this.decoder.read(ids, past[0].k.length, (i) => ({ past: past[i] }), changes, { known });
  }

  /**
   * Some tokens more, and what may follow the last of them.
   * @param {number[]} ids
   * @param {KeyValues[]} past
   * @param {Changes} changes
   * @returns {{logits: Row, past: KeyValues[]}}
   */
  step(ids, past, changes) {
    const { layers, states } = this.read(ids, past, changes);
    return { logits: this.logits(states.at(-1)), past: layers.map(({ present }) => present) };
  }

  /** Of a state (D,) how likely each token is, before the softmax: (V,). */
  logits(state) {
    return logitsOf(this.output, state);
  }
}
