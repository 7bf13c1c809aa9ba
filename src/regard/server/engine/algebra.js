// The arithmetic of a Transformer on rows of numbers, as `functional/` and `layers/` have it.
//
// A vector is a Float64Array; several positions are an array of them, x[t]. Weights are as they were
// saved: {shape: [outputs, inputs], data: Float32Array}, row after row. Sums are made in 64 bits, so
// that results are at least as exact as those of the server, which has 32.

/** @typedef {Float64Array} Row */
/** @typedef {{shape: number[], data: Float32Array}} Tensor */
/** @typedef {{weight: Tensor, bias: Tensor|null}} Linear */

/**
 * W x + b.
 * @param {Linear} linear
 * @param {Row} x (inputs,)
 * @returns {Row} (outputs,)
 */
export function applied({ weight, bias }, x) {
  const [n, d] = weight.shape;
  const { data: w } = weight;
  const found = new Float64Array(n);
  const whole = n - (n % 4);
  for (let i = 0; i < whole; i += 4) { // four rows at once: x is read once for all of them
    let [a, b, c, e] = [0, 0, 0, 0];
    const at = i * d;
    for (let j = 0; j < d; j++) {
      const one = x[j];
      a += w[at + j] * one;
      b += w[at + d + j] * one;
      c += w[at + 2 * d + j] * one;
      e += w[at + 3 * d + j] * one;
    }
    found[i] = a;
    found[i + 1] = b;
    found[i + 2] = c;
    found[i + 3] = e;
  }
  for (let i = whole; i < n; i++) for (let j = 0; j < d; j++) found[i] += w[i * d + j] * x[j];
  if (bias) for (let i = 0; i < n; i++) found[i] += bias.data[i];
  return found;
}

/**
 * The inner product of n numbers of a and of b, each from a place of its own on.
 * @param {Float32Array|Row} a
 * @param {number} i
 * @param {Row} b
 * @param {number} j
 * @param {number} n
 * @returns {number}
 */
export function product(a, i, b, j, n) {
  let sum = 0;
  for (let l = 0; l < n; l++) sum += a[i + l] * b[j + l];
  return sum;
}

/**
 * @param {Row} a
 * @param {Row} b
 * @returns {Row}
 */
export function plus(a, b) {
  return a.map((one, i) => one + b[i]);
}

/**
 * Shares of scores that sum to 1; of those that may not be seen 0, of all where none may.
 * @param {Row} scores
 * @param {(i: number) => boolean} [isVisible]
 * @returns {Row}
 */
export function softmax(scores, isVisible = () => true) {
  let most = -Infinity;
  scores.forEach((one, i) => isVisible(i) && one > most && (most = one));
  const shares = scores.map((one, i) => (isVisible(i) ? Math.exp(one - most) : 0));
  const total = shares.reduce((a, b) => a + b, 0);
  return total ? shares.map((one) => one / total) : shares;
}

/**
 * @param {Row} logits
 * @returns {Row} log-probabilities
 */
export function logSoftmax(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const total = most + Math.log(logits.reduce((sum, one) => sum + Math.exp(one - most), 0));
  return logits.map((one) => one - total);
}

// ---------------------------------------------------------------- norms

/** By name: the row in its usual size. @type {Object<string, (x: Row, eps: number) => Row>} */
const SIZED = {
  layer: (x, eps) => {
    const mean = x.reduce((a, b) => a + b, 0) / x.length;
    const apart = x.map((one) => one - mean);
    return rms(apart, eps);
  },
  rms,
};

function rms(x, eps) {
  const root = Math.sqrt(product(x, 0, x, 0, x.length) / x.length + eps);
  return x.map((one) => one / root);
}

/**
 * A norm of a model: of the kind that its configuration names, with what it learned.
 * @param {string} kind
 * @param {number} eps
 * @param {Linear} learned
 * @returns {(x: Row) => Row}
 */
export function normOf(kind, eps, { weight, bias }) {
  return (x) => SIZED[kind](x, eps).map((one, i) => one * weight.data[i] + (bias ? bias.data[i] : 0));
}

// ---------------------------------------------------------------- nonlinearities

/** @type {Object<string, (x: number) => number>} */
export const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => x * normalShare(x),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu,
  swiglu: silu,
};

function silu(x) {
  return x / (1 + Math.exp(-x));
}

/** Abramowitz and Stegun's formula 7.1.26, which is off by less than 1e-7. */
const [P, A] = [0.3275911, [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429]];

/** The share of the normal distribution below x. */
function normalShare(x) {
  const t = 1 / (1 + (P / Math.SQRT2) * Math.abs(x));
  const above = 0.5 * t * A.reduceRight((sum, a) => a + t * sum, 0) * Math.exp(-0.5 * x * x);
  return x < 0 ? above : 1 - above;
}

// ---------------------------------------------------------------- positions

/**
 * sin and cos in turn: PE(pos, 2i) = sin(pos / base^(2i/d)), PE(pos, 2i+1) = cos of the same.
 * @param {number} position
 * @param {number} d
 * @param {number} [base]
 * @returns {Row} (d,)
 */
export function sinusoid(position, d, base = 10_000) {
  return Float64Array.from({ length: d }, (_, i) => {
    const angle = position * base ** (-(i - (i % 2)) / d);
    return Math.fround(i % 2 ? Math.cos(angle) : Math.sin(angle)); // the server's are 32 bits
  });
}

/**
 * The pairs (2i, 2i+1) of each head turned by angles that grow with the position.
 * @param {Row} x (heads · d,)
 * @param {number} position
 * @param {number} d width of a head
 * @param {number} base
 * @returns {Row}
 */
export function rotated(x, position, d, base) {
  const wave = sinusoid(position, d, base);
  const found = new Float64Array(x.length);
  for (let i = 0; i < x.length; i += 2) {
    const [sin, cos] = [wave[i % d], wave[(i % d) + 1]];
    found[i] = x[i] * cos - x[i + 1] * sin;
    found[i + 1] = x[i + 1] * cos + x[i] * sin;
  }
  return found;
}

/**
 * How fast a score falls with the distance, in each head.
 * @param {number} nHeads
 * @returns {number[]}
 */
export function alibiSlopes(nHeads) {
  return Array.from({ length: nHeads }, (_, h) => 2 ** (((h + 1) * -8) / nHeads));
}
