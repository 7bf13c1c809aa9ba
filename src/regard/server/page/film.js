// The film of a training: one example as the model saw it at every validation, to play, step or scrub.

import { drawMatrix, follow, unpacked } from "./draw.js";
import { choice, el, fill } from "./elements.js";
import { called } from "./glossary.js";
import { drawPicture, looksAtPicture } from "./patches.js";

/** @typedef {{step: number, said: string, look: Object}} Frame what it wrote, and where it looked */

const MS = 500; // a frame, while the film plays
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** A film in a part of the page. Frames may be added at any time; it stays at the last one if it was there. */
export class FilmView {
  /** @param {HTMLElement} box */
  constructor(box) {
    /** @type {Frame[]} */
    this.frames = [];
    this.at = 0;
    this.chosen = null; // {name, layer, head} of the picture
    this.timer = null;
    this.touched = false; // whether the reader has moved it
    const button = (label, onclick, words) => el("button", { type: "button", onclick, "aria-label": label, title: label }, words);
    this.play = button("Play", () => (this.timer ? this.pause() : this.start()), "▶");
    this.slider = el("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": "Validation", oninput: () => this.go(Number(this.slider.value)) });
    this.when = el("output", { class: "when" });
    const back = button("One validation back", () => this.go(this.at - 1), "‹");
    const on = button("One validation on", () => this.go(this.at + 1), "›");
    this.read = el("p", { class: "hint" });
    this.said = el("p", { class: "said" });
    this.rows = el("div", { class: "controls" });
    this.canvas = el("div", { class: "canvas" });
    this.hint = el("p", { class: "hint" });
    const reel = el("div", { class: "reel", role: "group", "aria-label": "Film" }, this.play, back, this.slider, on, this.when);
    box.replaceChildren(this.read, this.said, reel, this.rows, this.canvas, this.hint);
    still.addEventListener("change", () => this.offerMotion());
    this.offerMotion();
    follow(this.canvas, () => this.frames.length && this.draw());
  }

  /** Nothing moves by itself where the reader wants no motion. */
  offerMotion() {
    this.play.hidden = still.matches;
    if (still.matches) this.pause();
  }

  /**
   * Later frames, packed as they come over the line.
   * @param {Frame[]} frames
   */
  async add(frames) {
    if (!frames.length) return;
    const atEnd = this.at >= this.frames.length - 1;
    for (const one of frames) this.frames.push({ ...one, look: await unpacked(one.look) });
    this.slider.max = String(this.frames.length - 1);
    if (atEnd && !this.timer) this.show(this.frames.length - 1);
    else this.tell();
  }

  /** Forget all frames. */
  clear() {
    this.pause();
    [this.frames, this.at] = [[], 0];
  }

  start() {
    this.touched = true;
    if (this.at >= this.frames.length - 1) this.show(0);
    this.timer = setInterval(() => (this.at < this.frames.length - 1 ? this.show(this.at + 1) : this.pause()), MS);
    this.named("Pause", "❚❚");
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.named("Play", "▶");
  }

  named(label, sign) {
    this.play.setAttribute("aria-label", label);
    this.play.title = label;
    this.play.textContent = sign;
  }

  /** The reader chooses a frame, so the film stands still. */
  go(at) {
    this.touched = true;
    if (this.timer) this.pause();
    this.show(at);
  }

  show(at) {
    this.at = Math.max(0, Math.min(at, this.frames.length - 1));
    this.draw();
  }

  tell() {
    const { step } = this.frames[this.at];
    const words = step === 0 ? "before the first step" : `step ${step.toLocaleString("en")}`;
    this.slider.value = String(this.at);
    this.slider.setAttribute("aria-valuetext", words);
    this.when.textContent = `${words} · ${this.at + 1} of ${this.frames.length}`;
  }

  draw() {
    const { said, look } = this.frames[this.at];
    this.tell();
    this.read.textContent = look.picture ? "" : `Held out: ${look.source.replace("\t", " | ")}${look.answer && look.answer !== said ? ` → ${look.answer}` : ""}`;
    this.said.textContent = said || "(it writes nothing yet)";
    const names = Object.keys(look.attentions);
    this.rows.hidden = this.canvas.hidden = !names.length;
    this.hint.textContent = names.length
      ? "A row is where one word looks while it is read or written. Weights are kept in steps of 1/255."
      : "This system does not attend: there is only what it wrote.";
    if (!names.length) return;
    this.chosen ??= start(look, names);
    const { name, layer, head } = this.chosen;
    this.showChoices(look, names);
    if (looksAtPicture(look, name)) drawPicture(this.canvas, look, { name, layer, head, row: null, patch: null, smooth: true });
    else drawMatrix(this.canvas, look, { name, layer, head });
  }

  showChoices(look, names) {
    const { name, layer, head } = this.chosen;
    const set = (part) => {
      this.chosen = { ...this.chosen, ...part };
      this.draw();
    };
    const numbers = (n) => Array.from({ length: n }, (_, i) => [String(i), String(i)]);
    fill(
      this.rows,
      choice("Attention", names.map((one) => [one, called(one)]), name, (one) => set({ name: one, layer: look.attentions[one].length - 1, head: null })),
      choice("Layer", numbers(look.attentions[name].length), String(layer), (one) => set({ layer: Number(one) })),
      choice("Head", [["", "mean of all"], ...numbers(look.attentions[name][layer].length)], head === null ? "" : String(head), (one) => set({ head: one === "" ? null : Number(one) })),
    );
  }
}

/** The attention to begin with: the last layer of what looks from one text to the other. */
function start(look, names) {
  const name = names.includes("decoder.cross") ? "decoder.cross" : names[0];
  return { name, layer: look.attentions[name].length - 1, head: null };
}
