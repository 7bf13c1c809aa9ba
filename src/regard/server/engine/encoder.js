// The encoder alone with a head that tells labels, as `models/encoder.py` has it.

import { applied, plus } from "./algebra.js";
import { layerAt } from "./blocks.js";
import { Stack, StackedModel } from "./stack.js";

/** @typedef {import("./algebra.js").Row} Row */
/** @typedef {import("./stack.js").StackTold} StackTold */

/**
 * By name: what a label is read from, and how.
 * @type {Object<string, (tensors: import("./blocks.js").Tensors) => (states: Row[]) => Row>}
 */
const POOLINGS = {
  cls: (tensors) => {
    const dense = layerAt(tensors, "head.dense");
    return ([first]) => applied(dense, first).map(Math.tanh);
  },
  mean: () => (states) => states.reduce(plus).map((one) => one / states.length),
};

/** A text, or a pair, to a score a label. */
export class Encoder extends StackedModel {
  /**
   * @param {Object} config that of the run
   * @param {import("./blocks.js").Tensors} tensors
   */
  constructor(config, tensors) {
    super();
    // Tokens start small here and sinusoids do not: they are divided by √D.
    const [, d] = tensors["embedding.tokens.weight"].shape;
    const size = config.positions === "sinusoidal" ? Math.sqrt(d) : 1;
    this.encoder = new Stack(tensors, "", "encoder", config, { scale: size, shrink: size });
    this.stacks = { encoder: this.encoder };
    this.tellsApart = config.n_segments > 1;
    this.pooled = POOLINGS[config.pooling](tensors);
    this.toLabels = layerAt(tensors, "head.to_labels");
  }

  /**
   * @param {{ids: number[], segments: number[]}} laid
   * @param {import("./what_ifs.js").Changes} changes
   * @param {import("./stack.js").Known} [known]
   * @returns {{told: StackTold, logits: Row}}
   */
  read({ ids, segments }, changes, known) {
    const told = this.encoder.read(ids, 0, () => ({}), changes, { known, segments: this.tellsApart ? segments : undefined });
    return { told, logits: applied(this.toLabels, this.pooled(told.states)) };
  }
}
