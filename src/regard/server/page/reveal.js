// The picture brought into view, for a reader who asked for it from elsewhere on the page.

import { scrollBehaviour } from "./elements.js";

/**
 * Scroll to the picture, and inside it to the row that is marked.
 * @param {HTMLElement} tabs above the picture
 * @param {HTMLElement} view the picture's place
 */
export function bringIntoView(tabs, view) {
  tabs.scrollIntoView({ block: "start", behavior: scrollBehaviour() });
  const row = view.querySelector("[data-marked]");
  const scroller = row?.closest("[data-scroller]");
  if (!scroller) return;
  const [mine, frame] = [row, scroller].map((one) => one.getBoundingClientRect());
  if (mine.bottom > frame.bottom) scroller.scrollTop += mine.bottom - frame.bottom + mine.height;
}
