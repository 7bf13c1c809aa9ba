// Targets are searched for, greedily or with a beam, as `decoding/` has it; a search as a tree.
//
// At each step the K open hypotheses are continued by every token, and the 2K most probable of all
// are looked at. Those among the first K that end are finished; the K best that do not end stay open.
// Finished ones are ranked by log-probability / ((5 + n) / 6)^α, n counting the end token.

import { logSoftmax } from "./algebra.js";
import { BEGIN_ID, END_ID, PAD_ID } from "./tokenizer.js";

/** @typedef {import("./what_ifs.js").Changes} Changes */

/**
 * How to search.
 * @typedef {Object} Search
 * @property {number} limit tokens that a target may have, the end token included
 * @property {number} beams
 * @property {number} lengthPenalty
 * @property {"exact"|"first"} stop when nothing open can win any more, or once as many have ended as there are beams
 * @property {number[]} prefix what the target begins with
 */

/**
 * @typedef {Object} Hypothesis
 * @property {number[]} ids without the end token
 * @property {number} logProb
 * @property {number} score
 * @property {boolean} finished
 */

/**
 * A continuation of an open hypothesis.
 * @typedef {{parent: number, id: number, logProb: number, total: number}} Candidate
 */

/** What a log-probability of n tokens, the end token included, is divided by. */
export function penalty(n, alpha) {
  return ((5 + n) / 6) ** alpha;
}

/**
 * Search for the target of what was read; a value comes out at every token, so that others have
 * their turn in between, and the best hypothesis at the end.
 * @param {import("./transformer.js").Transformer} model
 * @param {import("./transformer.js").Memory} memory
 * @param {Search} search
 * @param {Changes} changes
 * @param {(candidates: Candidate[], kept: number[]) => void} [observe] each step: the kept ones by index
 * @returns {Generator<number, Hypothesis>} the newest token of the most probable hypothesis
 */
export function* searching(model, memory, search, changes, observe = () => {}) {
  const { limit, beams, lengthPenalty, prefix } = search;
  let open = [{ ids: [], total: 0, ...model.step(BEGIN_ID, memory, model.start(), changes) }];
  let finished = [];
  for (let n = 1; ; n++) {
    const candidates = best(open.flatMap((one, parent) => continued(one, parent, prefix[n - 1], 2 * beams)), 2 * beams);
    const ended = candidates.slice(0, beams).filter(({ id }) => id === END_ID);
    finished = finished.concat(ended.map((one) => concluded(open[one.parent].ids, one.total, n, lengthPenalty, true)));
    finished.sort((a, b) => b.score - a.score);
    let kept = candidates.filter(({ id }) => id !== END_ID).slice(0, beams);
    if (beams === 1 && ended.length) kept = []; // greedy search ends with its first end token
    observe(candidates, kept.map((one) => candidates.indexOf(one)));
    yield (kept[0] ?? ended[0]).id;
    const grown = kept.map(({ parent, id, total }) => ({ ids: [...open[parent].ids, id], total, past: open[parent].past }));
    if (n >= limit || !kept.length || isOver(search, finished, kept[0].total)) {
      return finished[0] ?? concluded(grown[0].ids, grown[0].total, n, lengthPenalty, false);
    }
    open = grown.map((one) => ({ ...one, ...model.step(one.ids.at(-1), memory, one.past, changes) }));
  }
}

/**
 * The best hypothesis at once.
 * @returns {Hypothesis}
 */
export function searched(...asked) {
  const steps = searching(...asked);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

function concluded(ids, logProb, n, alpha, finished) {
  return { ids, logProb, score: logProb / penalty(n, alpha), finished };
}

/** The most probable continuations of a hypothesis; a forced token is the only one. */
function continued({ logits, total }, parent, forced, n) {
  const logProbs = logSoftmax(logits);
  const ids = forced === undefined ? [...logProbs.keys()].filter((id) => id !== PAD_ID && id !== BEGIN_ID) : [forced];
  return best(ids.map((id) => ({ parent, id, logProb: logProbs[id], total: total + logProbs[id] })), n);
}

function best(candidates, n) {
  return candidates.sort((a, b) => b.total - a.total).slice(0, n);
}

/** Whether the rule says that the search is over, given the most probable open log-probability. */
function isOver({ limit, beams, lengthPenalty, stop }, finished, most) {
  if (stop === "first") return finished.length >= beams || (!lengthPenalty && finished.length > 0 && finished[0].score >= most);
  return finished.length > 0 && finished[0].score >= most / penalty(limit, lengthPenalty);
}

// ---------------------------------------------------------------- the search as a tree

/**
 * A hypothesis that was looked at.
 * @typedef {Object} TreeNode
 * @property {number} id
 * @property {number|null} parent
 * @property {number} step
 * @property {number} tokenId
 * @property {number} log_prob of the token
 * @property {number} total
 * @property {number} score what it was compared by
 * @property {"open"|"pruned"|"finished"|"best"} state
 * @property {string} why
 */

/**
 * Every hypothesis that a search looked at, and what became of it.
 * @param {import("./transformer.js").Transformer} model
 * @param {import("./transformer.js").Memory} memory
 * @param {Search} search
 * @param {Changes} changes
 * @returns {TreeNode[]}
 */
export function searchTree(model, memory, search, changes) {
  const { beams, lengthPenalty, prefix, limit } = search;
  const root = { id: 0, parent: null, step: 0, tokenId: BEGIN_ID, log_prob: 0, total: 0, score: 0, state: "open", why: "the beginning" };
  const nodes = [root];
  let open = [root];
  const found = searched(model, memory, search, changes, (candidates, kept) => {
    const step = open[0].step + 1;
    const entered = candidates.map(({ parent, id: tokenId, logProb, total }, rank) => {
      const [state, why] = fateOf(rank, tokenId === END_ID, kept.includes(rank), beams, step <= prefix.length);
      const score = state === "finished" ? total / penalty(step, lengthPenalty) : total;
      return { id: nodes.length + rank, parent: open[parent].id, step, tokenId, log_prob: logProb, total, score, state, why };
    });
    nodes.push(...entered);
    open = kept.map((rank) => entered[rank]);
  });
  return judged(nodes, open, found, limit);
}

function fateOf(rank, ends, isKept, beams, isGiven) {
  if (ends && rank < beams) return ["finished", "finished"];
  if (isKept) return ["open", isGiven ? "given" : `among the best ${beams}`];
  return ["pruned", ends ? `ended outside the best ${beams}` : `outside the best ${beams}`];
}

/** The nodes once the search has ended: what won, and why the others did not. */
function judged(nodes, open, found, limit) {
  const winner = winnerOf(nodes, found);
  return nodes.map((node) => {
    if (node === winner) {
      return { ...node, state: "best", score: found.score, why: found.finished ? "the best that finished" : "the best, cut off by the limit" };
    }
    if (open.includes(node)) {
      return { ...node, state: "pruned", why: node.step >= limit ? `cut off by the limit of ${limit}` : "cannot win any more" };
    }
    if (node.state !== "finished") return node;
    const scores = `${node.score.toFixed(3)} against ${found.score.toFixed(3)}`;
    return { ...node, why: `finished but no better than the best (${scores})` };
  });
}

/** The node that spells the best hypothesis. */
function winnerOf(nodes, { ids, finished }) {
  const childOf = (node, id) => nodes.find((one) => one.parent === node.id && one.tokenId === id);
  const last = ids.reduce(childOf, nodes[0]);
  return finished ? childOf(last, END_ID) : last;
}
