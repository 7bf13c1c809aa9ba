// A translator as one object, as `tasks/translator.py` has it: it reads, writes, and looks inside.

import { logSoftmax } from "./algebra.js";
import { searched, searching, searchTree } from "./decoding.js";
import { BEGIN_ID, END, END_ID, Tokenizer, UNKNOWN_ID, wordSpans } from "./tokenizer.js";
import { Transformer } from "./transformer.js";
import { Changes, forcedTokens, Refusal, swapped } from "./what_ifs.js";

/** @typedef {import("./algebra.js").Row} Row */
/** @typedef {import("./what_ifs.js").Edit} Edit */

/**
 * What was exported of a run, beside its weights.
 * @typedef {Object} RunFile
 * @property {Object} config of the model
 * @property {number|null} longest tokens that the model reads at most; null: any number
 * @property {{source: import("./tokenizer.js").TokenizerFile, target: import("./tokenizer.js").TokenizerFile|null}} tokenizers
 *   null: both sides share one
 * @property {{beam: number, length_penalty: number, stop: "exact"|"first", max_len: number, replace_unknown: boolean}} decode
 * @property {{tokens: number, look_tokens: number, new_tokens: number, characters: number, lines: number, beams: number, words: number}} limits
 * @property {Object} info what the page is told first
 * @property {Object|null} heads what each head does, measured before; null: it was not
 * @property {string} drawing the model as SVG
 */

/**
 * All that happened while a sentence was read and its target written.
 * @typedef {Object} Look
 * @property {string} source after all swaps
 * @property {number[]} read ids of the source, without the end token
 * @property {number[]} written ids of the target, without the end token
 * @property {boolean} isOwn whether the model wrote it by itself
 * @property {Edit[]} edits
 * @property {Changes} changes
 * @property {import("./transformer.js").Memory} memory
 * @property {{encoder: import("./transformer.js").StackTold, decoder: import("./transformer.js").StackTold}} stacks
 * @property {Row[]} logits of what follows each position of the target
 * @property {Object<string, import("./blocks.js").Record[]>} records by the name of an attention, a layer each
 */

const SHOWN = 60; // characters of a text that is only mentioned
const KEPT = 6; // looks that are remembered: steps, stories and costs are asked of the same ones

/** A trained translator with all it needs to be used. */
export class Translator {
  /**
   * @param {RunFile} file
   * @param {import("./blocks.js").Tensors} tensors
   */
  constructor(file, tensors) {
    Object.assign(this, { file, decode: file.decode, limits: file.limits });
    this.model = new Transformer(file.config, tensors);
    this.reader = new Tokenizer(file.tokenizers.source);
    this.writer = file.tokenizers.target ? new Tokenizer(file.tokenizers.target) : this.reader;
    /** @type {Map<string, Look>} */
    this.seen = new Map();
  }

  // -------------------------------------------------------------- reading

  /** What is read of a text that was typed. */
  readAs(text) {
    return text.split(/(<mask>|\t)/).map((part, i) => (i % 2 ? part : this.reader.readAs(part))).join("");
  }

  /** Words of a text that the model has never seen. */
  unknownWords(text) {
    const parts = text.split("<mask>");
    return parts.flatMap((part) => this.reader.unknownSpans(part).map(([begin, end]) => part.slice(begin, end)));
  }

  /** What is told beside an answer. */
  toldBeside(texts) {
    const pairs = texts.map((typed) => ({ typed, read: this.readAs(typed) }));
    return { unknown: texts.flatMap((text) => this.unknownWords(text)), changed: pairs.filter(({ typed, read }) => typed !== read) };
  }

  /** Why nothing can be made of a text, where it has words and none is known; else null. */
  nothingKnown(text) {
    if (!text.trim() || this.reader.encode(text).some((id) => id !== UNKNOWN_ID)) return null;
    const such = this.file.info.examples.slice(0, 3).join("; ");
    const remedy = `take texts like those that it was trained on${such && `, such as: ${such}`}`;
    return `the model knows no word of ${mentioned(text)}; ${remedy}`;
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
      const why = this.decode.replace_unknown ? null : this.nothingKnown(line);
      if (why) throw new Refusal(why);
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
    const records = {};
    for (const { name, layer } of this.model.places) {
      (records[name] ??= [])[layer] = stacks[name.split(".")[0]].layers[layer].records[name];
    }
    return { stacks, records, logits: decoder.states.map((state) => this.model.logits(state)) };
  }

  /**
   * Where every attention looks while a source is read and a target written.
   * @param {{source: string, target?: string|null, edits: Edit[]}} asked
   * @returns {Look}
   */
  look({ source, target = null, edits }) {
    const key = JSON.stringify([source, target, edits]);
    const known = this.seen.get(key) ?? this.looked(source, target, edits);
    this.seen.delete(key);
    this.seen.set(key, known);
    if (this.seen.size > KEPT) this.seen.delete(this.seen.keys().next().value);
    return known;
  }

  looked(typed, target, edits) {
    this.checkLength(this.reader, typed, this.limits.look_tokens, "can be looked at");
    this.checkLength(this.writer, target ?? "", this.limits.look_tokens, "can be looked at");
    const { source, read, changes, memory } = this.begun(typed, edits, "look at");
    const why = target === null ? this.nothingKnown(source) : null;
    if (why) throw new Refusal(why);
    const own = target === null ? this.own(read, memory, changes) : this.writer.encode(target);
    const written = this.forced(own, edits, (prefix) => this.continued(read, memory, prefix, changes));
    const found = this.afterReading(memory, written, changes);
    changes.checkKeys(found.records);
    return { source, read, written, isOwn: target === null, edits, changes, memory, ...found };
  }

  /** The source after all swaps, read under the changes. */
  begun(typed, edits, purpose) {
    const source = swapped(typed, edits);
    const read = this.reader.encode(source);
    if (!read.length) throw new Refusal(this.nothingKnown(source) ?? `there is nothing to ${purpose} in an empty text`);
    const changes = new Changes(edits);
    changes.check(this.model.places, this.file.config.positions !== "none");
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

  /** What is written once every forced token stands where it should. */
  forced(written, edits, continued) {
    return forcedTokens(edits).reduce((found, { position, token }) => {
      if (position > found.length) {
        throw new Refusal(`force_token.position: the target has tokens 0 to ${found.length}, the last of which ends it, not ${position}`);
      }
      return continued([...found.slice(0, position), this.idOf(token, "force_token.token")]);
    }, written);
  }

  /** The id of a token as it is shown; the end token is one. */
  idOf(token, field) {
    const id = this.writer.sayable().get(token);
    if (id !== undefined) return id;
    throw new Refusal(`${field}: the model cannot say ${mentioned(token)}; take a token as it is shown, or ${END} to end`);
  }

  /**
   * How a translation is searched for.
   * @param {{source: string, nBeams: number, prefix: string[], edits: Edit[]}} asked
   * @returns {{n_beams: number, nodes: Object[]}}
   */
  beam({ source: typed, nBeams, prefix, edits }) {
    this.checkLength(this.reader, typed, this.limits.look_tokens, "can be looked at");
    const { read, changes, memory } = this.begun(typed, edits, "translate");
    const asked = prefix.map((token) => this.idOf(token, "prefix"));
    if (asked.includes(END_ID)) throw new Refusal(`prefix: a target that has ended with ${END} cannot be continued`);
    const given = this.givenTo(asked, read, memory, changes, edits);
    const search = this.searchFor(read, { beams: nBeams, prefix: given, atLeast: given.length + 1, stop: "exact" });
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
    const written = this.forced(own, edits, (begun) => this.continued(read, memory, begun, changes));
    return [...written, END_ID].slice(0, Math.max(prefix.length, tokens.at(-1).position + 1));
  }

  /** How probable each written token of a look is, the end token being the last. */
  probabilities({ written, logits }) {
    return [...written, END_ID].map((id, t) => Math.exp(logSoftmax(logits[t])[id]));
  }

  /** What a reader should know of the length of a look. */
  notes({ read, written, isOwn }) {
    const found = new LengthWarnings(this);
    found.add(read.length, isOwn ? written.length : 0);
    return found.lines();
  }
}

/** The ids of the longest hypothesis before its last token: all that the decoder has read. */
function longest(nodes) {
  const last = nodes.reduce((a, b) => (b.step > a.step ? b : a));
  const ids = [];
  for (let node = nodes[last.parent ?? 0]; node.parent !== null; node = nodes[node.parent]) ids.unshift(node.tokenId);
  return ids;
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** How many translations are to be doubted for their length. */
class LengthWarnings {
  constructor({ decode, file }) {
    this.most = Math.min(decode.max_len, file.longest === null ? Infinity : file.longest - 1);
    this.trained = file.config.max_len;
    [this.nCut, this.nLong] = [0, 0];
  }

  add(nRead, nWritten) {
    this.nCut += Number(nWritten >= this.most);
    this.nLong += Number(nRead >= this.trained);
  }

  lines() {
    const many = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;
    const cut = `${many(this.nCut, "translation")} cut off after ${this.most} tokens, the most that decode.max_len or the model allows; take shorter texts`;
    const long = `${many(this.nLong, "text")} longer than the ${this.trained} tokens that the model was trained for (model.max_len): much may be left out; take shorter texts`;
    return [...(this.nCut ? [cut] : []), ...(this.nLong ? [long] : [])];
  }
}

/**
 * A text in quotation marks, cut where it is long.
 * @param {string} text
 * @returns {string}
 */
export function mentioned(text) {
  const signs = [...text];
  const short = signs.length <= SHOWN ? text : `${signs.slice(0, SHOWN - 1).join("")}…`;
  return short.includes("'") && !short.includes('"') ? `"${short}"` : `'${short}'`;
}
