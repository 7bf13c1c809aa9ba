// The model as a drawing, from its configuration; asked for when a reader opens it.

import { reach } from "./api.js";
import { el } from "./elements.js";

/**
 * Let a fold of the page hold the drawing of the model.
 * @param {HTMLDetailsElement} fold
 */
export function offerDrawing(fold) {
  fold.addEventListener("toggle", () => fold.open && !fold.querySelector("svg") && show(fold));
}

async function show(fold) {
  const box = fold.querySelector("div");
  try {
    const text = await (await reach("/api/drawing", {})).text();
    box.replaceChildren(drawn(text), saving(text));
  } catch (error) {
    box.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
  }
}

/** The picture in a part that scrolls by itself, in the ink of the page and not in its own. */
function drawn(text) {
  const plain = text.replace(/<style>.*?<\/style>/s, "");
  const svg = new DOMParser().parseFromString(plain, "image/svg+xml").documentElement;
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Drawing of the model" }, svg);
}

function saving(text) {
  const href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  return el("p", { class: "actions" }, el("a", { href, download: "model.svg" }, "Save SVG"));
}
