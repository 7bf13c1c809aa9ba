// The encoder-decoder Transformer, assembled of blocks as `models/transformer.py` has it.

import { applied, normOf } from "./algebra.js";
import { Block, Embedding, layerAt, NOTHING_READ } from "./blocks.js";

/** @typedef {import("./algebra.js").Row} Row */
/** @typedef {import("./blocks.js").KeyValues} KeyValues */
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

/**
 * What the decoder looks at: once a source.
 * @typedef {Object} Memory
 * @property {KeyValues[]} layers
 * @property {boolean[]} mask which source tokens may be looked at
 * @property {StackTold} told
 */

/** Layers on top of each other, with an embedding below and perhaps a norm above. */
class Stack {
  constructor(tensors, name, table, config) {
    const paths = Array.from({ length: config.n_layers }, (_, layer) => `${name}.layers.${layer}`);
    const scale = config.embedding_scale ? Math.sqrt(table.shape[1]) : 1;
    this.embedding = new Embedding(tensors, `${name}.embedding`, table, config, scale);
    this.layers = paths.map((path, i) => new Block(tensors, path, name, i, config, name === "decoder"));
    const last = layerAt(tensors, `${name}.norm`);
    this.norm = last.weight ? normOf(config.norm, config.eps, last) : (row) => row;
  }

  /**
   * @param {number[]} ids
   * @param {number} first position of the first of them
   * @param {(layer: number) => Object} howOf what each block is told beside the stream
   * @param {Changes} changes
   * @param {Known} [known]
   * @returns {StackTold}
   */
  read(ids, first, howOf, changes, known) {
    const embedded = known?.told.embedded ?? this.embedding.read(ids, first, changes);
    const layers = known?.told.layers.slice(0, known.layer) ?? [];
    for (let i = layers.length; i < this.layers.length; i++) {
      const stream = i ? layers[i - 1].leaves : embedded.map(({ vector }) => vector);
      layers.push(this.layers[i].read(stream, { ...howOf(i), changes }));
    }
    return { embedded, layers, states: layers.at(-1).leaves.map(this.norm) };
  }
}

/** A model that reads one text and writes another. */
export class Transformer {
  /**
   * @param {Object} config that of the run
   * @param {import("./blocks.js").Tensors} tensors
   */
  constructor(config, tensors) {
    this.config = config;
    const source = tensors["encoder.embedding.tokens.weight"];
    const target = tensors["decoder.embedding.tokens.weight"] ?? source; // one table where it is shared
    this.encoder = new Stack(tensors, "encoder", source, config);
    this.decoder = new Stack(tensors, "decoder", target, config);
    this.output = { weight: tensors["decoder.output_weight"] ?? target, bias: tensors["decoder.output_bias"] ?? null };
  }

  /** Every attention by name and layer, in the order of the modules. */
  get places() {
    const own = this.encoder.layers.map(({ self }) => self.place);
    return [...own, ...this.decoder.layers.flatMap(({ self, cross }) => [self.place, cross.place])];
  }

  /** @param {{name: string, layer: number}} place @returns {import("./blocks.js").Attention} */
  attentionAt({ name, layer }) {
    const [stack, kind] = name.split(".");
    return this[stack].layers[layer][kind];
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
    const told = this.encoder.read(ids, 0, () => ({ mask }), changes, known);
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
    return this.decoder.read(ids, past[0].k.length, howOf, changes, known);
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
    const width = this.output.weight.shape[1]; // narrower than the state where positions stand beside tokens
    return applied(this.output, width < state.length ? state.subarray(0, width) : state);
  }
}
