// What is pointed at or focused, told beside it in type that can be read, and to screen readers in a
// line of its own. A leaf: it knows no picture, only elements with a <title>.

/** How many pixels of the window one of an element's own takes: more than one where it is enlarged. */
export const zoomOf = (one) => one.currentCSSZoom ?? 1;

/**
 * A place for words about what is pointed at.
 * @param {HTMLElement} readout gets the words as well; it may be live
 * @param {string} paper colour behind the words
 * @param {string} font
 * @returns {{tip: HTMLElement, tell: (text: string, x: number, y: number) => void, hide: () => void}}
 */
export function tellerOf(readout, paper, font) {
  const tip = document.createElement("div");
  tip.setAttribute("data-tip", "");
  tip.setAttribute("aria-hidden", "true"); // the readout says the same
  tip.hidden = true;
  tip.style.cssText = "position:fixed;z-index:9;pointer-events:none;max-width:min(22rem,90vw);"
    + "padding:.25rem .6rem;border:1px solid;border-radius:.4rem;overflow-wrap:anywhere;"
    + `font:15px/1.4 ${font};font-variant-numeric:tabular-nums;background:${paper}`;
  const tell = (text, x, y) => {
    readout.textContent = text;
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const below = y + 18 + height < innerHeight ? y + 18 : y - height - 10;
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 6)) / zoomOf(tip)}px`;
    tip.style.top = `${Math.max(4, below) / zoomOf(tip)}px`;
  };
  return { tip, tell, hide: () => { tip.hidden = true; } };
}

let last = null; // where the pointer was moved to
addEventListener("pointermove", ({ clientX: x, clientY: y }) => { last = { x, y }; }, { passive: true });

/** Whether the pointer stands still: then the page was scrolled beneath it, and nobody points. */
const isStill = ({ clientX: x, clientY: y }) => last !== null && last.x === x && last.y === y;

/**
 * Tell the <title> of whatever in the picture is pointed at or focused. While it is told, the
 * browser's own hint, which would cover ours, has nothing to show.
 * @param {SVGElement} svg
 * @param {{tell: Function, hide: Function}} teller
 */
export function tellTitles(svg, { tell, hide }) {
  let hushed = null; // {title, text}
  const restore = () => {
    if (hushed) hushed.title.textContent = hushed.text;
    hushed = null;
  };
  const titleOf = (target) => target.closest?.("svg *")?.querySelector(":scope > title");
  const point = (event) => {
    if (isStill(event)) return;
    const title = titleOf(event.target);
    if (title && title === hushed?.title) return;
    restore();
    if (event.target.matches("[data-surface]")) return; // many cells in one: it tells by itself
    if (!title) return hide();
    hushed = { title, text: title.textContent };
    title.textContent = "";
    tell(hushed.text, event.clientX, event.clientY);
  };
  for (const kind of ["pointerover", "pointermove"]) svg.addEventListener(kind, point);
  svg.addEventListener("pointerleave", () => {
    restore();
    hide();
  });
  svg.addEventListener("focusin", ({ target }) => {
    const text = hushed?.title.parentNode === target ? hushed.text : titleOf(target)?.textContent;
    const { left, bottom } = target.getBoundingClientRect();
    if (text && target.matches(":focus-visible")) tell(text, left, bottom - 12);
  });
  svg.addEventListener("focusout", hide);
}
