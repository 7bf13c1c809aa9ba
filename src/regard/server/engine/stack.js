// Layers on top of each other: what every Transformer has once or twice.

import { applied, normOf } from "./algebra.js";
import { Block, Embedding, layerAt } from "./blocks.js";

/** @typedef {import("./algebra.js").Row} Row */
/** @typedef {import("./blocks.js").Told} Told */
/** @typedef {import("./what_ifs.js").Changes} Changes */

/**
 * What a stack of layers made of a text.
 * @typedef {Object} StackTold
 * @property {import("./blocks.js").Embedded[]} embedded
 * @property {Told[]} layers
 * @property {Row[]} states what is read off the last layer
 */

/**
 * What is known already of a text: the layers before one, which the changes leave as they are.
 * @typedef {{told: StackTold, layer: number}} Known
 */

/** Layers, with an embedding below and perhaps a norm above. */
export class Stack {
  /**
   * @param {import("./blocks.js").Tensors} tensors
   * @param {string} path before its names, such as "encoder."
   * @param {"encoder"|"decoder"} kind what its attentions are called by; a decoder sees no future
   * @param {Object} config
   * @param {{table?: import("./algebra.js").Tensor, scale?: number, shrink?: number, looksAcross?: boolean}} [how]
   *   table: of the tokens' vectors, where it is another stack's; scale and shrink: see `Embedding`
   */
  constructor(tensors, path, kind, config, { table, scale = 1, shrink = 1, looksAcross = false } = {}) {
    const tokens = table ?? tensors[`${path}embedding.tokens.weight`];
    this.embedding = new Embedding(tensors, `${path}embedding`, tokens, config, { scale, shrink });
    this.layers = Array.from({ length: config.n_layers }, (_, i) => new Block(tensors, `${path}layers.${i}`, kind, i, config, looksAcross));
    const last = layerAt(tensors, `${path}norm`);
    this.norm = last.weight ? normOf(config.norm, config.eps, last) : (row) => row;
  }

  /**
   * @param {number[]} ids
   * @param {number} first position of the first of them
   * @param {(layer: number) => Object} howOf what each block is told beside the stream
   * @param {Changes} changes
   * @param {{known?: Known, segments?: number[]}} [more]
   * @returns {StackTold}
   */
  read(ids, first, howOf, changes, { known, segments } = {}) {
    const embedded = known?.told.embedded ?? this.embedding.read(ids, first, changes, segments);
    const layers = known?.told.layers.slice(0, known.layer) ?? [];
    for (let i = layers.length; i < this.layers.length; i++) {
      const stream = i ? layers[i - 1].leaves : embedded.map(({ vector }) => vector);
      layers.push(this.layers[i].read(stream, { ...howOf(i), changes }));
    }
    return { embedded, layers, states: layers.at(-1).leaves.map(this.norm) };
  }
}

/** A model of one stack or two, by their kinds. */
export class StackedModel {
  /** @type {Object<string, Stack>} in the order in which a text meets them */
  stacks = {};

  /** Every attention by name and layer, in the order of the modules. */
  get places() {
    const layers = Object.values(this.stacks).flatMap((stack) => stack.layers);
    return layers.flatMap(({ self, cross }) => (cross ? [self.place, cross.place] : [self.place]));
  }

  /** @param {{name: string, layer: number}} place @returns {import("./blocks.js").Attention} */
  attentionAt({ name, layer }) {
    const [stack, kind] = name.split(".");
    return this.stacks[stack].layers[layer][kind];
  }

  /**
   * What every attention did.
   * @param {Object<string, StackTold>} told by the kind of a stack
   * @returns {Object<string, import("./blocks.js").Record[]>} by the name of an attention, a layer each
   */
  recordsOf(told) {
    const records = {};
    for (const { name, layer } of this.places) {
      (records[name] ??= [])[layer] = told[name.split(".")[0]].layers[layer].records[name];
    }
    return records;
  }
}

/**
 * Of a state (D,) how likely each token is, before the softmax: (V,).
 * @param {import("./algebra.js").Linear} output narrower than the state where positions stand beside tokens
 * @param {Row} state
 * @returns {Row}
 */
export function logitsOf(output, state) {
  const [, width] = output.weight.shape;
  return applied(output, width < state.length ? state.subarray(0, width) : state);
}
