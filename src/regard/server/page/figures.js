// Small figures of the story: strips, heat maps, waves, bars and word chips. Each is an element with
// a name for those who do not see it; numbers come to the line below when they are pointed at.

import { spoken } from "./draw.js";
import { el } from "./elements.js";

/** @typedef {"x"|"p"|"q"|"k"|"v"|"w"} Role stream, position, query, key, value, weight: one colour each */

const NS = "http://www.w3.org/2000/svg";

/** @param {number[][]} vectors @returns {number} the largest size of a number in them */
export function largestOf(vectors) {
  return vectors.reduce((most, one) => one.reduce((a, b) => Math.max(a, Math.abs(b ?? 0)), most), 1e-12);
}

/** The colour of a role as red, green and blue, on a page that may be light or dark. */
function rgbOf(role) {
  const probe = el("span", { class: `role-${role}`, hidden: true });
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return found;
}

/**
 * Numbers as cells of a canvas: the role's colour above 0, grey below, as strong as they are large.
 * @param {number[][]} rows
 * @param {string} label
 * @param {Role} role
 * @param {{largest?: number, height?: number, names?: (t: number, s: number) => string}} [options]
 * @returns {HTMLElement}
 */
export function heat(rows, label, role, { largest = largestOf(rows), height = 20, names } = {}) {
  const [nRows, nColumns] = [rows.length, rows[0]?.length ?? 0];
  const canvas = /** @type {any} */ (el("canvas", { role: "img", "aria-label": label, class: "heat", width: nColumns || 1, height: nRows || 1 }));
  canvas.style.height = `${height * (nRows > 1 ? 1 : nRows)}px`;
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(nColumns || 1, nRows || 1);
  const [colour, grey] = [rgbOf(role), rgbOf("below")];
  rows.forEach((row, t) =>
    row.forEach((value, s) => {
      const strength = Math.min(1, Math.abs(value ?? 0) / largest);
      pixels.data.set([...(value < 0 ? grey : colour), 255 * strength], 4 * (t * nColumns + s));
    }),
  );
  context.putImageData(pixels, 0, 0);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const s = Math.min(nColumns - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * nColumns)));
    const t = Math.min(nRows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * nRows)));
    if (nColumns) canvas.title = `${names ? names(t, s) : `${label}, ${s}`}: ${spoken(rows[t][s])}`;
  });
  return canvas;
}

/**
 * A named vector as one strip.
 * @param {string} name
 * @param {number[]|null} vector
 * @param {Role} role
 * @param {number} [largest]
 * @returns {HTMLElement}
 */
export function strip(name, vector, role, largest) {
  const values = vector ?? [];
  const said = el("span", { class: `of role-${role}` }, name);
  const size = el("span", { class: "size" }, `${values.length} numbers`);
  return el("div", { class: "strip" }, said, heat([values], name, role, { largest }), size);
}

/**
 * Bars with a number each; `onPick` makes the numbers buttons.
 * @param {{name: string, value: number|null, share: number, note?: string, off?: boolean, on?: boolean}[]} rows share: 0 to 1, the length
 * @param {Role} role
 * @param {{digits?: number, percent?: (share: number) => string, onPick?: (i: number) => void, label?: string}} [options]
 * @returns {HTMLElement}
 */
export function bars(rows, role, { digits = 3, percent = null, onPick, label = "" } = {}) {
  const signed = rows.some(({ value }) => value < 0);
  const items = rows.map(({ name, value, share, note, off, on }, i) => {
    const length = Math.min(1, Math.max(0, share)) * (signed ? 50 : 100); // signed: from the middle
    const bar = el("span", { class: `bar role-${signed && value < 0 ? "below" : role}` }, el("i"));
    const filled = /** @type {any} */ (bar.firstChild).style;
    [filled.width, filled.marginLeft] = [`${length}%`, signed ? `${value < 0 ? 50 - length : 50}%` : "0"];
    const said = value === null || value === undefined ? "hidden" : percent ? percent(value) : value.toFixed(Math.abs(value) < 10 ? digits : digits - 1).replace("-", "−");
    const number = onPick && !off
      ? el("button", { type: "button", class: "number", "data-control": `number ${i}`, "aria-pressed": String(Boolean(on)), onclick: () => onPick(i) }, said)
      : el("span", { class: "number" }, said);
    return el("li", { class: off ? "off" : null }, el("span", { class: "of" }, name), bar, number, note ? el("span", { class: "note" }, note) : "");
  });
  return el("ul", { class: "rows", "aria-label": label || null }, ...items);
}

/**
 * Rows of strips, each with the name of its token, on one scale; `strengths` fade them.
 * @param {string[]} names
 * @param {number[][]} vectors
 * @param {Role} role
 * @param {string} what
 * @param {(number|null)[]} [numbers] said at the end of each row
 * @returns {HTMLElement}
 */
export function strips(names, vectors, role, what, numbers) {
  const largest = largestOf(vectors);
  const items = vectors.map((vector, s) => {
    const picture = heat([vector], `${what} of ${names[s]}`, role, { largest, height: 16 });
    const number = numbers ? el("span", { class: "number" }, numbers[s] === null ? "" : numbers[s].toFixed(3)) : "";
    return el("li", {}, el("span", { class: "of" }, names[s]), picture, number);
  });
  return el("ul", { class: "rows strips" }, ...items);
}

/**
 * Words above, their pieces below; the chosen piece is marked.
 * @param {{text: string, pieces: string[]}[]} words
 * @param {number|null} chosen the number of the piece
 * @returns {HTMLElement}
 */
export function piecesOf(words, chosen) {
  let n = 0;
  const items = words.map(({ text, pieces }) => {
    const below = pieces.map((piece) => el("span", { class: n++ === chosen ? "chip here" : "chip" }, piece));
    return el("li", {}, el("span", { class: "word" }, text), el("span", { class: "cut" }, ...below));
  });
  return el("ul", { class: "pieces" }, ...items);
}

/**
 * @param {string[]} words
 * @param {number|null} chosen
 * @returns {HTMLElement}
 */
export function chips(words, chosen = null) {
  return el("p", { class: "chips" }, ...words.map((word, i) => el("span", { class: i === chosen ? "chip here" : "chip" }, word)));
}

/**
 * @param {string[]} words
 * @param {boolean[]} visible
 * @returns {HTMLElement} those that may be seen are marked
 */
export function seen(words, visible) {
  return el("p", { class: "chips" }, ...words.map((word, i) => el("span", { class: visible[i] ? "chip here" : "chip" }, word)));
}

/**
 * A picture with the edges of its patches; the chosen one is marked.
 * @param {string} picture a data URL
 * @param {number[]} grid rows and columns
 * @param {number} chosen the number of the patch; below 0: none
 * @returns {HTMLElement}
 */
export function patches(picture, [rows, columns], chosen) {
  const cells = Array.from({ length: rows * columns }, (_, i) => el("i", { class: i === chosen ? "here" : null }));
  return patched(picture, `The picture, cut into ${rows} × ${columns} patches`, columns, cells);
}

/**
 * A picture whose patches are the brighter, the more weight they have.
 * @param {string} picture a data URL
 * @param {number[]} grid rows and columns
 * @param {number[]} weights of the patches, row by row
 * @returns {HTMLElement}
 */
export function weighed(picture, [rows, columns], weights) {
  const largest = largestOf([weights]);
  const cells = Array.from({ length: rows * columns }, (_, i) => {
    const cell = /** @type {any} */ (el("i", { class: "weighed" }));
    cell.style.setProperty("--dark", String(1 - weights[i] / largest));
    return cell;
  });
  return patched(picture, "The picture; the brighter a patch, the more weight it has", columns, cells);
}

function patched(picture, alt, columns, cells) {
  const grid = /** @type {any} */ (el("span", { class: "cells" }, ...cells));
  grid.style.gridTemplateColumns = `repeat(${columns}, 1fr)`;
  return el("span", { class: "patched" }, el("img", { src: picture, alt }), grid);
}

/**
 * Boxes on a picture, the last one strong.
 * @param {string} picture a data URL
 * @param {number[][]} boxes left, top, right, bottom, as shares of the sides
 * @param {string} label
 * @returns {HTMLElement}
 */
export function boxesOn(picture, boxes, label) {
  const svg = part("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", class: "outlined", "aria-hidden": "true" });
  boxes.forEach(([left, top, right, bottom], i) => {
    const which = i === boxes.length - 1 ? "last" : "earlier";
    svg.append(part("rect", { x: left, y: top, width: right - left, height: bottom - top, class: which, "data-box": i }));
  });
  return el("span", { class: "patched" }, el("img", { src: picture, alt: label }), svg);
}

/**
 * A few dimensions of the position code as waves over the positions.
 * @param {number[][]} codes (N, D)
 * @param {number} at the position that is followed
 * @returns {SVGElement}
 */
export function waves(codes, at) {
  const [n, d] = [codes.length, codes[0].length];
  const picked = [...new Set([0, Math.floor(d / 8) & ~1, Math.floor(d / 4) & ~1, Math.floor(d / 2) & ~1])].filter((i) => i < d);
  const [width, tall] = [320, 34];
  const svg = part("svg", { viewBox: `0 0 ${width} ${tall * picked.length + 4}`, role: "img", class: "waves" });
  svg.setAttribute("aria-label", `Dimensions ${picked.join(", ")} of the code over ${n} positions`);
  const largest = largestOf(codes);
  const x = (t) => 44 + (n > 1 ? (t / (n - 1)) * (width - 52) : 0);
  picked.forEach((dimension, row) => {
    const y = (t) => tall * (row + 0.5) + 2 - (codes[t][dimension] / largest) * (tall / 2 - 4);
    const line = codes.map((_, t) => `${t ? "L" : "M"}${x(t).toFixed(1)} ${y(t).toFixed(1)}`).join("");
    svg.append(
      part("text", { x: 0, y: tall * (row + 0.5) + 6 }, `dim ${dimension}`),
      part("path", { d: line, class: "role-p", fill: "none", stroke: "currentColor", "stroke-width": 1.6 }),
    );
    if (at < n) svg.append(part("circle", { cx: x(at), cy: y(at), r: 3.2, class: "role-q", fill: "currentColor" }));
  });
  return svg;
}

function part(name, attributes, text = "") {
  const one = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, String(value));
  one.textContent = text;
  return one;
}

/**
 * A formula. `{q:q_t}` is in the colour of the role q; `_x` or `_{xy}` is below the line, `^T` above.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function formula(text) {
  const made = el("p", { class: "formula" });
  for (const [, role, inside, plain] of text.matchAll(/\{([xpqkvw]):((?:[^{}]|\{[^{}]*\})*)\}|((?:[^{]|\{(?![xpqkvw]:))+)/g)) {
    made.append(role ? el("var", { class: `role-${role}` }, ...raised(inside)) : el("span", {}, ...raised(plain)));
  }
  return made;
}

function raised(text) {
  return [...text.matchAll(/([_^])(\{[^}]*\}|\w)|([^_^]+)/g)].map(([, sign, small, plain]) =>
    plain ?? el(sign === "_" ? "sub" : "sup", {}, small.replace(/[{}]/g, "")),
  );
}
