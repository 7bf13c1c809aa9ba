// A translator as one object, as `tasks/translator.py` has it: it reads, writes, and looks inside.

import { mostProbable, outcomeOf, sharesOf } from "./choices.js";
import { searched, searching, searchTree } from "./decoding.js";
import { mentioned, Run } from "./run.js";
import { BEGIN, BEGIN_ID, END, END_ID, UNKNOWN_ID, wordSpans } from "./tokenizer.js";
import { Transformer } from "./transformer.js";
import { Changes, checkedEdits, forcedTokens, Refusal, swapped, wholeNumber } from "./what_ifs.js";

/** @typedef {import("./what_ifs.js").Edit} Edit */

/**
 * A look at a source and its target.
 * @typedef {import("./run.js").Look & Translated} Look
 * @typedef {Object} Translated
 * @property {number[]} read ids of the source, without the end token
 * @property {number[]} written ids of the target, without the end token
 * @property {boolean} isOwn whether the model wrote it by itself
 * @property {import("./transformer.js").Memory} memory
 * @property {import("./algebra.js").Row[]} logits of what follows each position of the target
 */

/** A trained translator with all it needs to be used. */
export class Translator extends Run {
  writes = ["translation", "translations"]; // one, and many

  remedy = "take shorter texts"; // where they are cut off

  answers = { "/api/beam": (asked) => this.beam(asked) };

  streams = { "/api/stream": ({ source }) => this.translating(this.textIn(source, "source")) };

  /**
   * @param {import("./run.js").RunFile} file
   * @param {import("./blocks.js").Tensors} tensors
   */
  constructor(file, tensors) {
    super(file, new Transformer(file.config, tensors));
    this.decode = file.decode;
  }

  /** Refuse a text of more tokens than go in. */
  checkLength(tokenizer, text, most, able) {
    const { longest } = this.file;
    const limit = longest === null ? most : Math.min(most, longest - 1); // the end takes a place
    const n = tokenizer.encode(text).length;
    if (n > limit) throw new Refusal(`the text has ${n} tokens, at most ${limit} ${able}; shorten it`);
  }

  // -------------------------------------------------------------- writing

  /** How long the target of so many source tokens may become, the end tokens included. */
  limitFor(nRead) {
    const { longest } = this.file;
    return Math.min(3 * nRead + 10, this.decode.max_len, longest === null ? Infinity : longest - 1);
  }

  /** @returns {import("./decoding.js").Search} */
  searchFor(read, { beams = 1, prefix = [], atLeast = 0, stop = this.decode.stop }) {
    const limit = Math.max(this.limitFor(read.length + 1), atLeast);
    return { limit, beams, prefix, stop, lengthPenalty: this.decode.length_penalty };
  }

  /**
   * Greedy search line by line: the text so far at every token, and all that is told at the end.
   * @param {string} source
   * @returns {Generator<{token: string, text: string}, Object>}
   */
  *translating(source) {
    const changes = new Changes();
    const lines = source.replaceAll("\r\n", "\n").split("\n");
    const spoken = lines.filter((line) => line.trim());
    this.checkLines(spoken);
    const notes = new LengthWarnings(this);
    let text = "";
    for (const [i, line] of lines.entries()) {
      text += i ? "\n" : "";
      if (!line.trim()) continue;
      const read = this.reader.encode(line);
      const memory = this.model.encode([...read, END_ID], changes);
      const ids = [];
      for (const id of searching(this.model, memory, this.searchFor(read, {}), changes)) {
        if (id === END_ID) continue;
        ids.push(id);
        yield { token: this.writer.tokens([id])[0], text: text + this.writer.decode(ids) };
      }
      notes.add(read.length, ids.length);
      text += this.writer.decode(ids, this.decode.replace_unknown ? this.copies(line, ids) : []);
    }
    return { translation: text, ...this.toldBeside(spoken), notes: notes.lines() };
  }

  checkLines(lines) {
    const { lines: most, tokens, new_tokens: all } = this.limits;
    if (lines.length > most) throw new Refusal(`there are ${lines.length} lines, at most ${most} go in; send fewer at once`);
    let n = 0;
    for (const line of lines) {
      this.checkLength(this.reader, line, tokens, "go in");
      if (!this.decode.replace_unknown) this.checkKnown(line);
      n += this.reader.encode(line).length;
    }
    if (n > all) throw new Refusal(`the lines have ${n} tokens, at most ${all} go in; send fewer lines at once`);
  }

  /** What to say for each unknown token: the source word that all heads together look at most. */
  copies(source, written) {
    if (!written.includes(UNKNOWN_ID)) return [];
    const read = this.reader.encode(source);
    const changes = new Changes();
    const { records } = this.afterReading(this.model.encode([...read, END_ID], changes), written.slice(0, -1), changes);
    const words = wordSpans(source);
    const offsets = this.reader.offsets(source);
    return written.flatMap((id, t) => {
      if (id !== UNKNOWN_ID) return [];
      const total = read.map((_, s) => sum(records["decoder.cross"].flatMap(({ weights }) => weights.map((head) => head[t][s]))));
      const [at] = offsets[total.indexOf(Math.max(...total))];
      const [begin, end] = words.find(([from, to]) => at >= from && at < to) ?? [0, 0];
      return [source.slice(begin, end)];
    });
  }

  // -------------------------------------------------------------- looking inside

  /** The decoder over a target, from the begin token on; of some layers it may be known. */
  afterReading(memory, written, changes, known) {
    const decoder = this.model.read([BEGIN_ID, ...written], memory, this.model.start(), changes, known);
    const stacks = { encoder: memory.told, decoder };
    return { stacks, records: this.model.recordsOf(stacks), logits: decoder.states.map((state) => this.model.logits(state)) };
  }

  /** @returns {Look} */
  looked({ source: typed, target, edits }) {
    this.checkLength(this.reader, typed, this.limits.look_tokens, "can be looked at");
    this.checkLength(this.writer, target ?? "", this.limits.look_tokens, "can be looked at");
    const { source, read, changes, memory } = this.begun(typed, edits, "look at");
    if (target === null) this.checkKnown(source);
    const own = target === null ? this.own(read, memory, changes) : this.writer.encode(target);
    const written = this.forced(own, edits, (prefix) => this.continued(read, memory, prefix, changes), WHERE);
    const found = this.afterReading(memory, written, changes);
    changes.checkKeys(found.records);
    const sides = this.sidesOf(read, written);
    return { source, sides, tokens: sides.target, read, written, isOwn: target === null, edits, changes, memory, ...found };
  }

  /** The labels of source, target and what the decoder reads. */
  sidesOf(read, written) {
    const target = this.writer.tokens([...written, END_ID]);
    return { source: this.reader.tokens([...read, END_ID]), target, input: [BEGIN, ...target.slice(0, -1)] };
  }

  /** Which sides an attention has. */
  axesOf(name) {
    if (name === "encoder.self") return { rows: "source", columns: "source" };
    return { rows: "target", columns: name === "decoder.self" ? "input" : "source" };
  }

  /** The source after all swaps, read under the changes. */
  begun(typed, edits, purpose) {
    const source = swapped(typed, edits);
    const read = this.reader.encode(source);
    if (!read.length) throw new Refusal(this.nothingKnown(source) ?? `there is nothing to ${purpose} in an empty text`);
    const changes = new Changes(edits);
    this.checkChanges(changes);
    return { source, read, changes, memory: this.model.encode([...read, END_ID], changes) };
  }

  /** What the model writes by itself. */
  own(read, memory, changes) {
    return searched(this.model, memory, this.searchFor(read, { beams: this.decode.beam }), changes).ids;
  }

  /** A target that begins with these ids, written on greedily. */
  continued(read, memory, prefix, changes) {
    return searched(this.model, memory, this.searchFor(read, { prefix, atLeast: prefix.length }), changes).ids;
  }

  /**
   * How a target is searched for.
   * @param {{source: string, n_beams?: number, prefix?: string[], edits?: Edit[]}} asked
   * @returns {{n_beams: number, nodes: Object[]}}
   */
  beam({ source, n_beams: beams = 4, prefix = [], edits: given = [] }) {
    const typed = this.textIn(source, "source");
    const nBeams = wholeNumber(beams, "n_beams", 1, this.limits.beams);
    const edits = checkedEdits(given);
    this.checkLength(this.reader, typed, this.limits.look_tokens, "can be looked at");
    const { read, changes, memory } = this.begun(typed, edits, "translate");
    const asked = prefix.map((token) => this.idOf(token, "prefix"));
    if (asked.includes(END_ID)) throw new Refusal(`prefix: a target that has ended with ${END} cannot be continued`);
    const begun = this.givenTo(asked, read, memory, changes, edits);
    const search = this.searchFor(read, { beams: nBeams, prefix: begun, atLeast: begun.length + 1, stop: "exact" });
    const nodes = searchTree(this.model, memory, search, changes);
    changes.checkKeys(this.afterReading(memory, longest(nodes), changes).records);
    const named = nodes.map(({ tokenId, total, ...node }) => ({ ...node, token: this.writer.tokens([tokenId])[0] }));
    return { n_beams: nBeams, nodes: named };
  }

  /** What a search begins with: the prefix, and all up to the last forced token. */
  givenTo(prefix, read, memory, changes, edits) {
    const tokens = forcedTokens(edits);
    for (const { position, token } of tokens) {
      const said = this.idOf(token, "force_token.token");
      if (position < prefix.length && prefix[position] !== said) {
        const [other] = this.writer.tokens([prefix[position]]);
        throw new Refusal(`force_token: the token at position ${position} is to be ${mentioned(token)}, but the prefix has ${mentioned(other)} there; change one of them`);
      }
    }
    if (tokens.every(({ position }) => position < prefix.length)) return prefix;
    const own = prefix.length ? this.continued(read, memory, prefix, changes) : this.own(read, memory, changes);
    const written = this.forced(own, edits, (begun) => this.continued(read, memory, begun, changes), WHERE);
    return [...written, END_ID].slice(0, Math.max(prefix.length, tokens.at(-1).position + 1));
  }

  // -------------------------------------------------------------- what is told of a look

  /** What the payload of a look says of the answer. @param {Look} look */
  told(look) {
    const answer = this.writer.decode(look.written);
    return {
      answer,
      translation: answer,
      source_tokens: look.sides.source,
      target_tokens: look.sides.target,
      probabilities: this.shares(look),
      alternatives: look.logits.map((logits) => mostProbable(this.writer, logits)),
    };
  }

  /** How probable each written token of a look is, the end token being the last. */
  shares({ written, logits }) {
    return sharesOf([...written, END_ID], logits);
  }

  /** The same without one head, all else fixed. @param {Look} look @param {import("./run.js").HeadPlace} place */
  sharesWithout({ read, written, changes, memory: whole, stacks }, place) {
    const fewer = changes.without(place);
    const isRead = place.name.startsWith("encoder");
    const knownOf = (told) => ({ told, layer: place.layer });
    const memory = isRead ? this.model.encode([...read, END_ID], fewer, knownOf(stacks.encoder)) : whole;
    const { logits } = this.afterReading(memory, written, fewer, isRead ? undefined : knownOf(stacks.decoder));
    return this.shares({ written, logits });
  }

  /** What is read and written at a row of a side. */
  standsAt({ sides }, side, t) {
    return side === "target" ? { reads: sides.input[t], writes: sides.target[t] } : { reads: sides.source[t], writes: null };
  }

  /** What may come out of a row at which something is written. */
  outcomeAt({ logits }, t, writes) {
    return writes === null ? null : outcomeOf(this.writer, logits[t], writes);
  }

  /** What a reader should know of the length of a look. */
  notes({ read, written, isOwn }) {
    const found = new LengthWarnings(this);
    found.add(read.length, isOwn ? written.length : 0);
    return found.lines();
  }
}

/** Where a token of a target may stand. */
const WHERE = (n) => `the target has tokens 0 to ${n}, the last of which ends it`;

/** The ids of the longest hypothesis before its last token: all that the decoder has read. */
function longest(nodes) {
  const last = nodes.reduce((a, b) => (b.step > a.step ? b : a));
  const ids = [];
  for (let node = nodes[last.parent ?? 0]; node.parent !== null; node = nodes[node.parent]) ids.unshift(node.tokenId);
  return ids;
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** How many targets are to be doubted for their length. */
class LengthWarnings {
  constructor({ decode, file, writes, remedy }) {
    this.most = Math.min(decode.max_len, file.longest === null ? Infinity : file.longest - 1);
    this.trained = file.config.max_len;
    [this.writes, this.remedy] = [writes, remedy];
    [this.nCut, this.nLong] = [0, 0];
  }

  add(nRead, nWritten) {
    this.nCut += Number(nWritten >= this.most);
    this.nLong += Number(nRead >= this.trained);
  }

  lines() {
    const cut = `${this.nCut} ${this.writes[Number(this.nCut !== 1)]} cut off after ${this.most} tokens, the most that decode.max_len or the model allows; ${this.remedy}`;
    const long = `${this.nLong} text${this.nLong === 1 ? "" : "s"} longer than the ${this.trained} tokens that the model was trained for (model.max_len): much may be left out; take shorter texts`;
    return [...(this.nCut ? [cut] : []), ...(this.nLong ? [long] : [])];
  }
}
