// How a run is trained, or was: curves, and the film of one example.

import { reach } from "./api.js";
import { el } from "./elements.js";
import { FilmView } from "./film.js";

/** The curves and the film in a part of the page, brought up to date as often as somebody asks. */
export class TrainingView {
  /** @param {HTMLElement} box */
  constructor(box) {
    this.curves = el("div", { class: "learning" });
    this.reel = el("section", { class: "film", "aria-label": "One example while it trained", hidden: true });
    this.film = new FilmView(this.reel);
    this.notes = el("p", { class: "trouble", role: "alert", hidden: true });
    this.drawn = "";
    box.replaceChildren(this.notes, this.curves, this.reel);
  }

  /**
   * Ask how the training goes, and show it.
   * @returns {Promise<Object>} what the server told
   */
  async refresh() {
    const told = await (await reach("/api/training", {})).json();
    this.showCurves(told.curves);
    const said = told.notes.join(" ");
    if (said !== this.notes.textContent) this.notes.textContent = said; // an alert is read aloud
    this.notes.hidden = !told.notes.length;
    this.reel.hidden = !told.steps.length;
    if (this.lastStep() > (told.steps.at(-1) ?? -1)) this.film.clear(); // another training is in the folder now
    while (told.steps.length && this.lastStep() < told.steps.at(-1)) {
      const { frames } = await (await reach(`/api/training/film?after=${this.lastStep()}`, {})).json();
      if (!frames.length) break;
      await this.film.add(frames);
    }
    return told;
  }

  lastStep() {
    return this.film.frames.at(-1)?.step ?? -1;
  }

  showCurves(curves) {
    const all = curves.join("");
    if (all === this.drawn) return;
    this.drawn = all;
    const pictures = curves.map((text) => new DOMParser().parseFromString(text, "image/svg+xml").documentElement);
    this.curves.replaceChildren(...pictures.map((one) => el("figure", {}, document.importNode(one, true))));
  }
}

/**
 * Let a fold of the page tell how the run was trained.
 * @param {HTMLDetailsElement} fold
 */
export function offerTraining(fold) {
  fold.addEventListener("toggle", () => fold.open && !fold.querySelector("figure") && show(fold.querySelector("div")));
}

async function show(box) {
  try {
    const told = await new TrainingView(box).refresh();
    if (!told.steps.length) box.append(el("p", { class: "hint" }, "No film was made of this training; `regard train RECIPE --serve` makes one."));
  } catch (error) {
    box.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}
