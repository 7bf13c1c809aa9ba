// What every Transformer is an assembly of, as `layers/` has it: tokens that become vectors,
// attention with several heads, and blocks of sub-layers with residual connections around them.
//
// Nothing is hidden: a block gives back all that happened in it, which is what a reader asks about.

import { ACTIVATIONS, alibiSlopes, applied, normOf, plus, product, rotated, sinusoid, softmax } from "./algebra.js";

/** @typedef {import("./algebra.js").Row} Row */
/** @typedef {import("./algebra.js").Tensor} Tensor */
/** @typedef {import("./what_ifs.js").Changes} Changes */

/**
 * The weights of a model by name.
 * @typedef {Object<string, Tensor>} Tensors
 */

/**
 * A linear layer, or a norm, by the beginning of its names.
 * @param {Tensors} tensors
 * @param {string} path
 */
export function layerAt(tensors, path) {
  return { weight: tensors[`${path}.weight`], bias: tensors[`${path}.bias`] ?? null };
}

// ---------------------------------------------------------------- tokens to vectors

/** By name: the code of a position, `d` wide. What is not here joins no token. */
const CODES = {
  sinusoidal: (position, d) => sinusoid(position, d),
  learned: (position, d, table) => Float64Array.from(table.data.subarray(position * d, (position + 1) * d)),
  index: (position) => Float64Array.of(position),
};

/**
 * How a token became a vector.
 * @typedef {Object} Embedded
 * @property {Row} token its own vector, scaled
 * @property {Row} code what its position added, or what stands beside the token
 * @property {Row} joined both together
 * @property {Row} vector what the first layer reads
 */

/** Token and position, and perhaps the kind of text, as one vector. */
export class Embedding {
  /**
   * @param {Tensors} tensors
   * @param {string} path
   * @param {Tensor} table of the tokens' vectors
   * @param {Object} config
   * @param {{scale: number, shrink: number}} sizes tokens are multiplied by scale before positions
   *   join them, and all is divided by shrink afterwards
   */
  constructor(tensors, path, table, config, { scale, shrink }) {
    Object.assign(this, { table, scale: scale / shrink, shrink, kind: config.positions });
    this.concat = (config.join ?? (this.kind === "index" ? "concat" : "add")) === "concat";
    this.learned = tensors[`${path}.positions.table`];
    this.width = this.kind === "index" ? 1 : (config.d_positions ?? table.shape[1]);
    this.toModel = tensors[`${path}.to_model.weight`] ? layerAt(tensors, `${path}.to_model`) : null;
    this.segments = tensors[`${path}.segments.weight`] ?? null;
    const norm = layerAt(tensors, `${path}.norm`);
    this.norm = norm.weight ? normOf(config.norm, config.eps, norm) : (row) => row;
  }

  /**
   * @param {number[]} ids
   * @param {number} first position of the first of them
   * @param {Changes} changes
   * @param {number[]} [segments] the kind of text that each belongs to; all 0 where they are not given
   * @returns {Embedded[]}
   */
  read(ids, first, changes, segments) {
    return ids.map((id, t) => {
      const token = rowOf(this.table, id).map((one) => one * this.scale);
      const code = this.code(first + t, changes)?.map((one) => one / this.shrink);
      const joined = code ? this.join(token, code) : token;
      const wide = this.toModel ? applied(this.toModel, joined) : joined;
      const whole = this.segments ? plus(wide, rowOf(this.segments, segments?.[t] ?? 0)) : wide;
      return { token, code: code ?? new Float64Array(token.length), joined, vector: this.norm(whole) };
    });
  }

  /** Null where positions join no token; nothing but zeros where they were taken away. */
  code(position, changes) {
    const codeOf = CODES[this.kind];
    if (!codeOf) return null;
    return changes.noPositions ? new Float64Array(this.width) : codeOf(position, this.width, this.learned);
  }

  join(token, code) {
    return this.concat ? Float64Array.of(...token, ...code) : plus(token, code);
  }
}

/** One row of a table. @param {Tensor} table @param {number} i @returns {Row} */
function rowOf({ shape: [, d], data }, i) {
  return Float64Array.from(data.subarray(i * d, (i + 1) * d));
}

// ---------------------------------------------------------------- attention

/** Keys and values, all heads of a position side by side. @typedef {{k: Row[], v: Row[]}} KeyValues */

/** @type {KeyValues} */
export const NOTHING_READ = Object.freeze({ k: [], v: [] });

/**
 * What one attention did, for every head [h] and every position that asks [t].
 * @typedef {Object} Record
 * @property {(h: number, t: number) => Row} query
 * @property {(h: number, s: number) => Row} key
 * @property {(h: number, s: number) => Row} value
 * @property {number} nKeys
 * @property {number} scale of the scores
 * @property {Row[][]} scores before scaling
 * @property {Row[][]} scaled with what is added to them
 * @property {(h: number, t: number, s: number) => boolean} isVisible
 * @property {number[]|null} prior what multiplies the weights of each head; null: nothing does
 * @property {Row[][]} weights
 * @property {Row[][]} outputs the weighted values
 */

/** By name: what scores are multiplied by. */
const SCALES = { scaled_dot: (d) => 1 / Math.sqrt(d), dot: () => 1 };

/** Several heads on projections of the same input, joined by W_o. */
export class Attention {
  /**
   * @param {Tensors} tensors
   * @param {string} path
   * @param {{name: string, layer: number}} place as readers call it
   * @param {Object} config
   * @param {boolean} across to another text, where relative positions say nothing
   */
  constructor(tensors, path, place, config, across) {
    this.place = place;
    this.toQ = layerAt(tensors, `${path}.to_q`);
    this.toK = layerAt(tensors, `${path}.to_k`);
    this.toV = layerAt(tensors, `${path}.to_v`);
    this.toOut = layerAt(tensors, `${path}.to_out`);
    this.nHeads = config.n_heads;
    this.shared = config.n_heads / (config.n_kv_heads ?? config.n_heads); // heads with the same key
    this.width = this.toQ.weight.shape[0] / config.n_heads;
    this.scale = SCALES[config.score](this.width);
    this.positions = across ? "none" : config.positions;
    this.base = config.rotary_base;
  }

  /** @param {Row[]} x @returns {KeyValues} */
  project(x) {
    return { k: x.map((row) => applied(this.toK, row)), v: x.map((row) => applied(this.toV, row)) };
  }

  /**
   * x looks at keys and values.
   * @param {Row[]} x
   * @param {KeyValues} memory
   * @param {(t: number, s: number) => boolean} maySee
   * @param {number} first position of the first of x
   * @param {Changes} changes
   * @returns {{added: Row[], record: Record}}
   */
  look(x, memory, maySee, first, changes) {
    const { nHeads: H, width: d, shared } = this;
    const { temperature, prior, sees } = changes.at(this.place, H, memory.k.length);
    const scale = this.scale / temperature;
    const q = this.placed(x.map((row) => applied(this.toQ, row)), first, changes);
    const k = this.placed(memory.k, 0, changes);
    const biasOf = this.biasOf(first, temperature, changes);
    const isVisible = (h, t, s) => maySee(t, s) && sees(h, s);
    const of = (h) => Math.floor(h / shared) * d; // where the key and the value of a head begin
    const joined = x.map(() => new Float64Array(H * d));
    const record = {
      query: (h, t) => q[t].subarray(h * d, (h + 1) * d),
      key: (h, s) => k[s].subarray(of(h), of(h) + d),
      value: (h, s) => memory.v[s].subarray(of(h), of(h) + d),
      nKeys: k.length, scale, isVisible, prior, scores: [], scaled: [], weights: [],
      outputs: Array.from({ length: H }, (_, h) => joined.map((row) => row.subarray(h * d, (h + 1) * d))),
    };
    for (let h = 0; h < H; h++) {
      const scores = q.map((row) => Float64Array.from(k, (key) => product(key, of(h), row, h * d, d)));
      const scaled = scores.map((row, t) => row.map((one, s) => one * scale + biasOf(h, t, s)));
      const weights = scaled.map((row, t) => softmax(row, (s) => isVisible(h, t, s)).map((one) => one * (prior?.[h] ?? 1)));
      weights.forEach((row, t) => row.forEach((share, s) => share && add(record.outputs[h][t], share, memory.v[s], of(h))));
      record.scores.push(scores);
      record.scaled.push(scaled);
      record.weights.push(weights);
    }
    return { added: joined.map((row) => applied(this.toOut, row)), record };
  }

  /** Queries or keys that know where they stand. */
  placed(rows, first, changes) {
    if (this.positions !== "rotary" || changes.noPositions) return rows;
    return rows.map((row, i) => rotated(row, first + i, this.width, this.base));
  }

  /** What is added to a scaled score: the farther away, the less. */
  biasOf(first, temperature, changes) {
    if (this.positions !== "alibi" || changes.noPositions) return () => 0;
    const slopes = alibiSlopes(this.nHeads);
    return (h, t, s) => (-slopes[h] * Math.abs(first + t - s)) / temperature;
  }

  /** What a head's output becomes by its part of W_o, without the bias: (D,). */
  projected(output, h) {
    const [n, all] = this.toOut.weight.shape;
    return Float64Array.from({ length: n }, (_, i) => product(this.toOut.weight.data, i * all + h * this.width, output, 0, this.width));
  }
}

function add(sum, share, values, from) {
  for (let i = 0; i < sum.length; i++) sum[i] += share * values[from + i];
}

// ---------------------------------------------------------------- blocks

/**
 * A sub-layer and the residual connection around it; a row a position.
 * @typedef {Object} Sublayer
 * @property {"self"|"cross"|"feed_forward"} kind
 * @property {Row[]} enters the stream before it
 * @property {Row[]} given what it reads: the same, normalised first where the model is pre-norm
 * @property {Row[]} added what it adds to the stream
 * @property {Row[]} sum both together
 * @property {Row[]} leaves the stream behind it
 */

/**
 * All that happened in a block.
 * @typedef {Object} Told
 * @property {Sublayer[]} sublayers in the order in which the stream meets them
 * @property {Object<string, Record>} records by the name of an attention, such as decoder.cross
 * @property {Row[]} inner of the feed-forward, before the nonlinearity
 * @property {Row[]} active behind it
 * @property {KeyValues} present what later positions will look at
 * @property {Row[]} leaves the stream behind it
 */

/** Self-attention, perhaps attention to a source, feed-forward. */
export class Block {
  /**
   * @param {Tensors} tensors
   * @param {string} path
   * @param {"encoder"|"decoder"} stack
   * @param {number} layer
   * @param {Object} config
   * @param {boolean} looksAcross
   */
  constructor(tensors, path, stack, layer, config, looksAcross) {
    const at = (name) => ({ name: `${stack}.${name}`, layer });
    const around = (name) => normOf(config.norm, config.eps, layerAt(tensors, `${path}.around_${name}.norm`));
    this.normFirst = config.norm_first;
    this.isCausal = stack === "decoder";
    this.self = new Attention(tensors, `${path}.self_attention`, at("self"), config, false);
    this.cross = looksAcross ? new Attention(tensors, `${path}.cross_attention`, at("cross"), config, true) : null;
    this.norms = { self: around("self"), feed_forward: around("feed_forward"), ...(looksAcross && { cross: around("cross") }) };
    this.order = config.cross_after === "feed_forward" ? ["self", "feed_forward", "cross"] : ["self", "cross", "feed_forward"];
    this.activation = ACTIVATIONS[config.activation];
    const part = (name) => layerAt(tensors, `${path}.feed_forward.${name}`);
    this.feed = { inner: part("inner"), outer: part("outer"), beside: part("beside").weight ? part("beside") : null };
  }

  /**
   * @param {Row[]} x
   * @param {Object} how
   * @param {KeyValues} [how.past] of the positions before x
   * @param {boolean[]} [how.mask] which of x may be looked at; all where it is not given
   * @param {KeyValues} [how.source] what is looked at across
   * @param {boolean[]} [how.sourceMask]
   * @param {Changes} how.changes
   * @returns {Told}
   */
  read(x, { past = NOTHING_READ, mask, source, sourceMask, changes }) {
    const first = past.k.length;
    const told = { sublayers: [], records: {}, inner: [], active: [], present: past, leaves: x };
    const looks = (attention, y, memory, maySee) => {
      const { added, record } = attention.look(y, memory, maySee, first, changes);
      told.records[attention.place.name] = record;
      return added;
    };
    const does = {
      self: (y) => {
        const now = this.self.project(y);
        told.present = { k: [...past.k, ...now.k], v: [...past.v, ...now.v] };
        return looks(this.self, y, told.present, (t, s) => (mask?.[s] ?? true) && (!this.isCausal || s <= first + t));
      },
      cross: (y) => looks(this.cross, y, source, (_, s) => sourceMask?.[s] ?? true),
      feed_forward: (y) => this.fed(y, told),
    };
    for (const kind of this.order.filter((one) => this.norms[one])) {
      const sublayer = this.around(kind, told.leaves, does[kind]);
      told.sublayers.push(sublayer);
      told.leaves = sublayer.leaves;
    }
    return told;
  }

  /** norm(x + f(x)) as in the paper, or x + f(norm(x)). */
  around(kind, enters, f) {
    const norm = this.norms[kind];
    const given = this.normFirst ? enters.map(norm) : enters;
    const added = f(given);
    const sum = enters.map((row, t) => plus(row, added[t]));
    return { kind, enters, given, added, sum, leaves: this.normFirst ? sum : sum.map(norm) };
  }

  /** W₂ f(W₁ x) or W₂ (f(W₁ x) · W₃ x). */
  fed(x, told) {
    const { inner, outer, beside } = this.feed;
    told.inner = x.map((row) => applied(inner, row));
    told.active = told.inner.map((row, t) => {
      const open = row.map(this.activation);
      const gate = beside && applied(beside, x[t]);
      return gate ? open.map((one, i) => one * gate[i]) : open;
    });
    return told.active.map((row) => applied(outer, row));
  }
}
