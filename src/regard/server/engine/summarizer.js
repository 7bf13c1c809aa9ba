// A summarizer as one object, as `tasks/summarization.py` has it: a translator from documents to
// summaries, which reads a document whole or not at all.

import { searched } from "./decoding.js";
import { END_ID, wordSpans } from "./tokenizer.js";
import { Translator } from "./translator.js";
import { Changes, Refusal } from "./what_ifs.js";

/** A trained summarizer with all it needs to be used. */
export class Summarizer extends Translator {
  writes = ["summary", "summaries"];

  remedy = "raise decode.max_len where summaries are longer";

  answers = { ...this.answers, "/api/summarize": (asked) => this.summarize(asked) };

  streams = {};

  /**
   * @param {{document: any, truncate?: boolean}} asked
   * @returns {{summary: string, cut: boolean, unknown: string[], changed: Object[]}}
   */
  summarize({ document: given, truncate = false }) {
    const whole = this.textIn(given, "document", { most: this.limits.document });
    const text = this.readable(whole, truncate);
    const [read, changes] = [this.reader.encode(text), new Changes()];
    const memory = this.model.encode([...read, END_ID], changes);
    const { ids } = searched(this.model, memory, this.searchFor(read, { beams: this.decode.beam }), changes);
    const summary = this.writer.decode(ids, this.decode.replace_unknown ? this.copies(text, ids) : []);
    return { summary, cut: text !== whole, ...this.toldBeside([whole]) };
  }

  /** The document, or the part of it that the model reads; else why it cannot be read. */
  readable(document, truncate = false) {
    const text = truncate || this.file.truncate ? this.cut(document) : document;
    const [n, most] = [this.reader.encode(text).length + 1, this.file.config.max_len];
    if (n > most) {
      throw new Refusal(`${n} tokens with the end token, but the model reads ${most} (model.max_len); shorten the document, let summarize cut it (--truncate, truncate=True), or train with a larger model.max_len`);
    }
    if (!this.decode.replace_unknown) this.checkKnown(text);
    return text;
  }

  /** As many whole words from the beginning as the model reads with the end token. */
  cut(document) {
    const [offsets, room] = [this.reader.offsets(document), this.file.config.max_len - 1];
    if (offsets.length <= room) return document;
    const words = wordSpans(document);
    const owners = offsets.map(([begin, end]) => {
      const blank = document.slice(begin, end).search(/\S/);
      return blank < 0 ? null : words.findLastIndex(([from]) => from <= begin + blank);
    });
    let last = room;
    while (last > 0 && owners[last] === owners[last - 1]) last--;
    return document.slice(0, offsets[(last || room) - 1][1]);
  }

  /** @returns {import("./translator.js").Look} */
  looked(asked) {
    this.checkLength(this.reader, asked.source, this.limits.look_tokens, "can be looked at");
    return super.looked({ ...asked, source: this.readable(asked.source) });
  }
}
