// Attention drawn as SVG. One module, no dependencies: the single HTML file, notebooks and the
// page use it alike.
//
// Every function empties `box` (an Element), draws into it and keeps no state elsewhere: no ids, no
// global style. Text enters by textContent only. Cells and lines carry data-t, data-s, data-head
// and data-weight (all digits); the number also shows on hover and in a line below the picture.
// Keyboard: Tab enters a view, the arrow keys move, Enter does what a click does. Drawing again into
// the same box keeps the focus where it was, and a picture of the same size its place.
//
//   drawMatrix(box, payload, {name, layer, head, title, row, onToken})    head: null = mean of all heads; row: marked
//   drawCells(box, {label, rows, columns, headings, weights, signed, onCell})   any table of weights
//   drawLines(box, payload, {name, layer, heads, threshold, onToken})   heads: null = every head
//   drawGrid(box, payload, {name, onPick})
//   drawSteps(box, steps)   drawTree(box, tree, {onPick})   drawHeadMap(box, heads, {onPick})
//   saveSvg(box, filename)  savePng(box, filename)
//   cueEdges(scroller)      shows where there is more to scroll to
//   unpacked(payload)       a payload whose weights were packed, with rounded[name][layer]
//   follow(box, draw)       calls draw when the box gets wider or narrower, or the theme changes
//
//   onToken(t, {name, layer, head, s})   row t; s is the column of a cell, null for a name
//   onPick of a grid: ({name, layer, head}); of a tree: (node, tokens from the root, without <s>);
//   of a head map: (row, index); its told(row, cluster) are the words for a head, cost(row) is what
//   is lost without it, and full is the least cost that has the largest mark

// Colours, scales, fonts and digits; visual/theme.py writes it.
import { THEME } from "./theme.js";
import { tellerOf, tellTitles, zoomOf } from "./hover.js";
import { drawManyLines } from "./many_lines.js";

const NS = "http://www.w3.org/2000/svg";
const { font: FONT, dashes: DASHES, digits: DIGITS } = THEME;
export const PALETTE = THEME.palette;
const MANY = 3000; // cells or lines; more of them are pixels, not elements
const TARGET = 24; // pixels: what is to be hit by a finger is no smaller
const LONGEST = 14; // letters of a name; the whole of it shows on hover

// ---------------------------------------------------------------- what the payload says

// The labels of both sides of an attention, the names of the sides, and a heading for each.
export function tokensOf(payload, name) {
  const { rows, columns, axes } = sidesOf(payload, name);
  const heading = (side) => (side.kind === "tokens" ? side.key : side.kind);
  return {
    rows: rows.labels, columns: columns.labels, axes,
    headings: { rows: heading(rows), columns: heading(columns) },
  };
}

// Both sides of an attention: key, kind, labels and, of patches, grid.
export function sidesOf(payload, name) {
  const axes = (payload.axes || {})[name] || guessedAxes(name);
  const tokens = {
    source: payload.source_tokens,
    target: payload.target_tokens,
    label: payload.target_tokens,
    input: ["<s>", ...payload.target_tokens.slice(0, -1)],
    text: [...payload.source_tokens, ...payload.target_tokens],
  };
  const side = (key) => {
    const told = (payload.sides || {})[key];
    const known = !told || (told.kind === "tokens" && tokens[key]); // the page may have named them anew
    return { ...(known ? { kind: "tokens", labels: tokens[key] } : told), key };
  };
  return { rows: side(axes.rows), columns: side(axes.columns), axes };
}

function guessedAxes(name) {
  if (name === "encoder.self") return { rows: "source", columns: "source" };
  return { rows: "target", columns: name === "decoder.self" ? "input" : "source" };
}

export function headOf(payload, name, layer, head) {
  const heads = payload.attentions[name][layer];
  if (head !== null && head !== undefined) return heads[head];
  return Array.from(heads[0], (row, t) =>
    Array.from(row, (_, s) => mean(Array.from(heads, (one) => one[t][s]))));
}

const mean = (values) => values.reduce((sum, one) => sum + one, 0) / values.length;
export const headName = (head) => (head === null || head === undefined ? "mean" : String(head));
export const spoken = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(DIGITS.told))) : "–");
const short = (value) => (Number.isFinite(value) ? value.toFixed(Math.abs(value) < 100 ? DIGITS.vector : DIGITS.large) : "–");
export const clamp = (low, value, high) => Math.max(low, Math.min(high, value));
export const cut = (text, most = LONGEST) => {
  const letters = Array.from(text);
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : text;
};

// ---------------------------------------------------------------- pieces of SVG

export function make(name, attributes, text) {
  const one = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) one.setAttribute(key, value);
  }
  if (text !== undefined) one.textContent = text;
  return one;
}

export function titled(one, text) {
  one.append(make("title", {}, text));
  return one;
}

const widths = new Map();
let ruler = null;
function widthOf(text, size = 12) {
  const key = `${size} ${text}`;
  if (!widths.has(key)) {
    ruler = ruler || document.createElement("canvas").getContext("2d");
    ruler.font = `${size}px ${FONT}`;
    if (widths.size > 5000) widths.clear();
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

const widest = (texts) => Math.max(0, ...texts.map((text) => widthOf(cut(text))));

// The page around may be light or dark; its ink tells.
function isDark(box) {
  const rgb = getComputedStyle(box).color.match(/[\d.]+/g);
  return rgb !== null && 0.3 * rgb[0] + 0.6 * rgb[1] + 0.1 * rgb[2] > 128;
}
export const coloursOf = (box) => (isDark(box) ? THEME.dark : THEME.light);
const inkOf = (box) => coloursOf(box).ink;

function paperOf(box) {
  for (let one = box; one; one = one.parentElement || (one.getRootNode() || {}).host) {
    const colour = getComputedStyle(one).backgroundColor;
    if (colour && !/^rgba\(.*, 0\)$|^transparent$/.test(colour)) return colour;
  }
  return coloursOf(box).paper;
}

// A scrolling box with an SVG of fixed size inside, and a line that reads out what is pointed at.
// `legend`: what the signs in the picture mean, as text or as nodes.
export function begin(box, label, width, height, legend = "") {
  const before = lastOf(box);
  const svg = make("svg", {
    xmlns: NS, width: Math.ceil(width), height: Math.ceil(height), role: "group",
    viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`, "aria-label": label,
    "font-family": FONT, "font-size": 12, fill: "currentColor",
  });
  svg.style.display = "block";
  const scroller = document.createElement("div");
  scroller.setAttribute("data-scroller", "");
  scroller.style.cssText = "overflow:auto;max-width:100%;max-height:min(80vh,46rem)";
  const readout = document.createElement("div"); // for those who hear the page; others see the tip
  readout.setAttribute("data-readout", "");
  readout.setAttribute("aria-live", "polite");
  readout.style.cssText = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)";
  scroller.append(svg);
  const teller = tellerOf(readout, paperOf(box), FONT);
  const below = [readout, teller.tip];
  if (legend) {
    const signs = document.createElement("div");
    signs.setAttribute("data-legend", "");
    signs.style.cssText = `font:13px/1.5 ${FONT};opacity:.85;margin-top:.3rem`;
    signs.append(...[legend].flat());
    below.unshift(signs);
  }
  box.replaceChildren(scroller, ...below);
  cueEdges(scroller);
  const isMoved = before.x || before.y; // asking a box that was not scrolled to scroll lays it out for nothing
  if (isMoved && before.size === svg.getAttribute("viewBox")) scroller.scrollTo(before.x, before.y);
  tellTitles(svg, teller);
  scroller.addEventListener("scroll", teller.hide, { passive: true });
  return { svg, scroller, teller, held: before.held };
}

// A patch of a colour, for a legend.
function swatch(colour) {
  const one = document.createElement("span");
  one.style.cssText = `display:inline-block;width:1.1em;height:.8em;border-radius:2px;background:${colour};margin-right:.35em`;
  return one;
}

// What goes on beyond an edge fades out there, until it is scrolled to; not at the left, where names may stand.
export function cueEdges(scroller, { names = true } = {}) {
  const cue = () => {
    const right = scroller.scrollWidth - scroller.clientWidth - scroller.scrollLeft > 2;
    const below = scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop > 2;
    const left = !names && scroller.scrollLeft > 2;
    const fades = [left && "to right", right && "to left", below && "to top"].filter(Boolean)
      .map((side) => `linear-gradient(${side}, rgba(0,0,0,.15), #000 36px)`);
    scroller.style.maskImage = fades.join(", ");
    scroller.style.maskComposite = "intersect";
    scroller.dataset.more = [right && "right", below && "below"].filter(Boolean).join(" ");
  };
  scroller.addEventListener("scroll", cue, { passive: true });
  const watch = new ResizeObserver(cue);
  watch.observe(scroller);
  if (scroller.firstElementChild) watch.observe(scroller.firstElementChild);
}

// What the last picture in this box leaves to the next: its size, its place, the focused item.
function lastOf(box) {
  const scroller = box.querySelector(":scope > [data-scroller]");
  if (!scroller) return {};
  const held = scroller.querySelector(":focus");
  return {
    size: scroller.querySelector("svg").getAttribute("viewBox"), x: scroller.scrollLeft, y: scroller.scrollTop,
    held: held && placeOf(held),
  };
}

// What tells an item of a picture from the others, whatever its numbers are by now.
export const placeOf = ({ dataset }) => ["row", "column", "t", "s", "layer", "head", "node", "index"]
  .map((key) => dataset[key] ?? "").join(" ");

// Names that stay in sight while the cells scroll below them. `edges`: x and y where cells begin.
function sticky(scroller, groups, edges) {
  const place = () => {
    for (const { group, x, y } of groups) {
      group.setAttribute("transform",
        `translate(${x ? scroller.scrollLeft : 0} ${y ? scroller.scrollTop : 0})`);
    }
  };
  for (const { group } of groups) group.setAttribute("data-sticky", "");
  scroller.addEventListener("scroll", place, { passive: true });
  return (item) => {
    if (item.closest("[data-sticky]")) return;
    const [seen, one, zoom] = [scroller.getBoundingClientRect(), item.getBoundingClientRect(), zoomOf(scroller)];
    scroller.scrollLeft -= Math.max(0, (seen.left - one.left) / zoom + edges.x);
    scroller.scrollTop -= Math.max(0, (seen.top - one.top) / zoom + edges.y);
  };
}

// One of the items is in the tab order; arrows move among them, Enter and click act.
export function operable({ svg, held }, items, { move, act, reveal, first = 0 }) {
  const places = new Map(items.map((item, i) => [item, i]));
  items.forEach((item, i) => {
    item.setAttribute("tabindex", i === first ? 0 : -1);
  });
  if (act) for (const group of new Set(items.map((item) => item.parentNode))) group.style.cursor = "pointer";
  let current = items[first];
  let ring = null;
  svg.addEventListener("focusin", (event) => {
    if (!places.has(event.target)) return;
    current.setAttribute("tabindex", -1);
    current = event.target;
    current.setAttribute("tabindex", 0);
    ring?.remove();
    ring = ringAround(current);
    current.style.outline = "none"; // the ring shows it, and in every browser
  });
  svg.addEventListener("focusout", () => { ring?.remove(); ring = null; });
  svg.addEventListener("click", (event) => {
    const item = event.target.closest("[tabindex]");
    if (act && places.has(item)) act(places.get(item));
  });
  svg.addEventListener("keydown", (event) => {
    if (!places.has(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = places.get(event.target);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (act) act(here);
      return;
    }
    const item = items[move(here, event.key)];
    if (item === undefined) return;
    event.preventDefault();
    item.focus();
    item.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (reveal) reveal(item);
  });
  if (held) (items.find((item) => placeOf(item) === held) ?? current).focus({ preventScroll: true });
}

// With a rim in the colour of the page, so that it shows on pictures, too.
function ringAround(item) {
  const { x, y, width, height } = item.getBBox();
  const place = { x: x - 2, y: y - 2, width: width + 4, height: height + 4, rx: 3 };
  const ring = make("g", {
    fill: "none", "pointer-events": "none", "data-ring": "", transform: item.getAttribute("transform"),
  });
  ring.append(
    make("rect", { ...place, stroke: paperOf(item.ownerSVGElement.parentElement), "stroke-width": 5 }),
    make("rect", { ...place, stroke: "currentColor", "stroke-width": 2 }));
  item.after(ring);
  return ring;
}

// Arrow keys on a grid of rows x columns that is laid out row by row.
export function onGrid(rows, columns) {
  return (i, key) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    if (key === "ArrowRight" && column + 1 < columns) return i + 1;
    if (key === "ArrowLeft" && column > 0) return i - 1;
    if (key === "ArrowDown" && row + 1 < rows) return i + columns;
    if (key === "ArrowUp" && row > 0) return i - columns;
    if (key === "Home") return row * columns;
    if (key === "End") return row * columns + columns - 1;
    return undefined;
  };
}

function nothing(box, text) {
  const line = document.createElement("p");
  line.textContent = text;
  box.replaceChildren(line);
}

// ---------------------------------------------------------------- matrix

export function drawMatrix(box, payload, { name, layer, head = null, title, row = null, onToken } = {}) {
  if (!payload.attentions[name]) return nothing(box, "This system does not attend.");
  const { rows, columns, headings } = tokensOf(payload, name);
  drawCells(box, {
    label: title ?? `${name}, layer ${layer}, head ${headName(head)}`, rows, columns, headings,
    weights: headOf(payload, name, layer, head), headLabel: headName(head), row,
    onCell: onToken && ((t, s) => onToken(t, { name, layer, head, s })),
  });
}

// A table of weights from 0 to 1, or of changes (`signed`), which are blue above 0 and orange below.
// onCell(t, s): s is null for the name of a row. `row` is marked; null: none.
export function drawCells(box, { label, rows, columns, headings, weights, headLabel, signed = false, row: marked = null, onCell }) {
  const size = cellSizes(box, rows, columns);
  const { left, top, wide, high, overhang } = size;
  const frame = begin(box, label, left + wide * columns.length + overhang, top + high * rows.length + 34);
  const { svg, scroller } = frame;
  const colours = coloursOf(box);
  const most = signed ? Math.max(1e-9, ...rows.map((_, t) => Math.max(...Array.from(weights[t], Math.abs)))) : 1;
  const inkFor = (weight) => (!signed ? colours.ink : weight < 0 ? colours.below : colours.above);
  const strength = (weight) => clamp(0, Math.abs(weight) / most, 1);
  const toldAs = (weight) => (signed && weight > 0 ? "+" : "") + spoken(weight);
  const story = (t, s) => `${rows[t]} → ${columns[s]}: ${toldAs(weights[t][s])}`;
  const side = nameGroup(box, { width: left, height: top + high * rows.length });
  const above = nameGroup(box, { width: left + wide * columns.length + overhang, height: top });
  const rowNames = rows.map((row, t) => {
    const one = make("g", { "data-row": t });
    one.append(
      make("rect", { x: 0, y: top + high * t, width: left - 2, height: high, "fill-opacity": 0 }),
      make("text", { x: left - 7, y: top + high * (t + 0.5) + 4, "text-anchor": "end" }, cut(row)));
    side.append(titled(one, row));
    return one;
  });
  columns.forEach((column, s) => {
    const place = size.upright
      ? { x: left + wide * (s + 0.5), y: top - 7, "text-anchor": "middle" }
      : { transform: `translate(${left + wide * (s + 0.5) + 3} ${top - 5}) rotate(-45)` };
    above.append(titled(make("text", { ...place, "data-column": s }, cut(column)), column));
  });
  const corner = make("g");
  corner.append(
    make("rect", { x: 0, y: 0, width: left - 4, height: top - 4, fill: paperOf(box) }),
    make("text", { x: 2, y: 13, "font-weight": 600, "data-axis": "rows" }, `${headings.rows} ↓`),
    make("text", { x: 1.1 * widthOf(`${headings.rows} ↓`) + 12, y: 13, "font-weight": 600, "data-axis": "columns" },
      `looks at ${headings.columns} →`));
  const table = { rows, columns, weights, headLabel, size, inkFor, strength, story, signed };
  const cross = make("g", { fill: "none", stroke: "currentColor", "stroke-opacity": 0.55, "pointer-events": "none" });
  const many = rows.length * columns.length > MANY;
  const made = many ? pixelCells(frame, table) : elementCells(box, table);
  svg.append(made.group, cross, above, side, corner,
    scaleOf({ y: top + high * rows.length + 12, x: left, ink: inkFor, most, signed, width: wide * columns.length }));
  if (rowNames[marked]) {
    const frameOf = { x: left - 1, y: top + high * marked - 1, width: wide * columns.length, height: high + 1 };
    const style = { fill: "none", stroke: colours.ink, "stroke-width": 2, "pointer-events": "none" };
    made.group.after(make("rect", { ...frameOf, ...style, "data-marked": marked }));
    rowNames[marked].querySelector("text").setAttribute("fill", colours.ink);
  }
  made.onCell?.((t, s) => crossAt(svg, cross, size, rows.length, columns.length, t, s));
  if (!many) crossOnCells(svg, cross, size, rows.length, columns.length);
  const reveal = sticky(scroller, [
    { group: side, x: true }, { group: above, y: true }, { group: corner, x: true, y: true },
  ], { x: left, y: top });
  const items = many ? [...rowNames, made.surface] : rowNames.flatMap((one, t) => [one, ...made.cells[t]]);
  const act = onCell && ((i) => {
    if (many) return i < rows.length ? onCell(i, null) : onCell(...made.cell());
    const s = (i % (columns.length + 1)) - 1;
    return onCell(Math.floor(i / (columns.length + 1)), s < 0 ? null : s);
  });
  const move = many ? alongRows(rows.length) : onGrid(rows.length, columns.length + 1);
  operable(frame, items, { move, reveal: many ? undefined : reveal, act });
}

// Cells fill the width there is; names of columns lie flat where they fit, else aslant.
function cellSizes(box, rows, columns) {
  const left = widest(rows) + 14;
  const room = (box.clientWidth || 640) - left - 2;
  const flat = Math.floor(room / columns.length);
  const upright = widest(columns) + 8 <= flat;
  const overhang = upright ? 0 : 0.75 * widthOf(cut(columns[columns.length - 1])) + 8;
  const wide = clamp(15, Math.floor((room - overhang) / columns.length), 160); // rows are what is chosen
  const top = 20 + (upright ? 20 : 0.75 * widest(columns) + 16);
  return { left, top, wide, high: clamp(TARGET, wide, 30), overhang, upright };
}

// A rectangle a cell, with its number where there is room.
function elementCells(box, { rows, columns, weights, headLabel, size, inkFor, strength, story, signed }) {
  const { left, top, wide, high } = size;
  const group = make("g", { stroke: "currentColor", "stroke-opacity": 0.15 });
  const numbers = make("g", { "text-anchor": "middle", "font-size": 11, stroke: "none", "pointer-events": "none" });
  const readable = readableOn(box);
  const cells = rows.map((_, t) => columns.map((__, s) => {
    const weight = weights[t][s];
    const one = make("rect", {
      x: left + wide * s, y: top + high * t, width: wide - 1, height: high - 1,
      fill: inkFor(weight), "fill-opacity": strength(weight).toFixed(3),
      "data-t": t, "data-s": s, "data-head": headLabel, "data-weight": weight,
    });
    group.append(titled(one, story(t, s)));
    if (wide >= 38 && Math.abs(weight) >= 0.005) {
      const words = (signed && weight > 0 ? "+" : "") + weight.toFixed(2);
      numbers.append(make("text", {
        x: left + wide * (s + 0.5), y: top + high * (t + 0.5) + 4, fill: readable(inkFor(weight), strength(weight)),
      }, words));
    }
    return one;
  }));
  group.append(numbers);
  return { group, cells };
}

// A pixel a cell, and one surface above them that is pointed at, and moved over by the arrow keys.
function pixelCells(frame, { rows, columns, weights, size, inkFor, strength, story }) {
  const { left, top, wide, high } = size;
  const place = { x: left, y: top, width: wide * columns.length, height: high * rows.length };
  const group = make("g");
  const image = make("image", { ...place, preserveAspectRatio: "none",
    href: pixelsOf(weights, rows.length, columns.length, (w) => [...rgbOf(inkFor(w)), 255 * strength(w)]) });
  image.style.imageRendering = "pixelated";
  const surface = make("rect", { ...place, "fill-opacity": 0, "data-surface": "", role: "img" });
  group.append(image, surface);
  let at = [0, 0];
  let onCell = () => {};
  const go = (t, s) => {
    at = [clamp(0, t, rows.length - 1), clamp(0, s, columns.length - 1)];
    surface.setAttribute("data-cell", at.join(" "));
    surface.setAttribute("data-weight", weights[at[0]][at[1]]);
    surface.setAttribute("aria-label", story(...at));
    onCell(...at);
  };
  const { teller, scroller } = frame;
  surface.addEventListener("pointermove", (event) => {
    const box = surface.getBoundingClientRect();
    go(...[(event.clientY - box.top) / high, (event.clientX - box.left) / wide].map((one) => Math.floor(one / zoomOf(surface))));
    teller.tell(story(...at), event.clientX, event.clientY);
  });
  surface.addEventListener("keydown", (event) => {
    const way = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!way || (event.key === "ArrowLeft" && at[1] === 0)) return; // from the first cell back to its row
    event.preventDefault();
    event.stopPropagation();
    go(at[0] + way[0], at[1] + way[1]);
    scroller.scrollTo(inSight(scroller.scrollLeft, scroller.clientWidth, wide * at[1], left, wide),
      inSight(scroller.scrollTop, scroller.clientHeight, high * at[0], top, high));
    const [box, zoom] = [surface.getBoundingClientRect(), zoomOf(surface)];
    teller.tell(story(...at), box.left + zoom * wide * (at[1] + 1), box.top + zoom * high * (at[0] + 1) - 12);
  });
  go(0, 0);
  return { group, surface, cell: () => at, onCell: (then) => { onCell = then; } };
}

// Where to scroll to so that a cell at `place` behind names of size `edge` can be seen.
function inSight(now, seen, place, edge, size) {
  if (place < now) return place;
  return Math.max(now, place + edge + size - seen);
}

const alongRows = (n) => (i, key) => {
  if (key === "ArrowDown" && i + 1 < n) return i + 1;
  if (key === "ArrowUp" && i > 0 && i < n) return i - 1;
  if (key === "ArrowRight" && i < n) return n;
  return key === "ArrowLeft" && i === n ? 0 : undefined;
};

// The row and the column of a cell, framed, and their names in bold.
function crossAt(svg, cross, { left, top, wide, high }, nRows, nColumns, t, s) {
  for (const one of svg.querySelectorAll('[data-row][font-weight], [data-column][font-weight]')) one.removeAttribute("font-weight");
  if (t === null) return cross.replaceChildren();
  cross.replaceChildren(
    make("rect", { x: left, y: top + high * t - 0.5, width: wide * nColumns, height: high }),
    make("rect", { x: left + wide * s - 0.5, y: top, width: wide, height: high * nRows }));
  for (const name of [`[data-row="${t}"]`, `[data-column="${s}"]`]) {
    svg.querySelector(name)?.setAttribute("font-weight", 700);
  }
}

function crossOnCells(svg, cross, size, nRows, nColumns) {
  const show = ({ target }) => {
    const { t, s } = target.dataset ?? {};
    crossAt(svg, cross, size, nRows, nColumns, s === undefined ? null : Number(t), Number(s));
  };
  for (const kind of ["pointerover", "focusin"]) svg.addEventListener(kind, show);
  svg.addEventListener("pointerleave", () => crossAt(svg, cross, size, nRows, nColumns, null, 0));
}

// What the strength of a colour stands for.
function scaleOf({ x, y, ink, most, signed, width }) {
  const group = make("g", { "data-scale": "", "font-size": 11 });
  const [n, wide] = [10, clamp(60, width, 160) / 10];
  const [low, high] = signed ? [-most, most] : [0, most];
  const written = (value) => (signed && value > 0 ? "+" : "") + Number(value.toPrecision(2));
  const start = x + widthOf(written(low), 11) + 5;
  group.append(make("text", { x, y: y + 10 }, written(low)));
  for (let i = 0; i < n; i += 1) {
    const value = low + ((high - low) * (i + 0.5)) / n;
    group.append(make("rect", { x: start + wide * i, y, width: wide, height: 12, fill: ink(value), "fill-opacity": (Math.abs(value) / most).toFixed(3) }));
  }
  group.append(
    make("rect", { x: start, y, width: wide * n, height: 12, fill: "none", stroke: "currentColor", "stroke-opacity": 0.4 }),
    make("text", { x: start + wide * n + 5, y: y + 10 }, `${written(high)}  ${signed ? "change of weight" : "weight"}`));
  return group;
}

// Of the ink and the paper of a page, the one that can be read on a colour of some strength.
function readableOn(box) {
  const { paper: page, number, reversed } = coloursOf(box);
  const [paper, inks] = [rgbOf(page), [number, reversed]];
  return (colour, strength) => {
    const ground = rgbOf(colour).map((one, i) => strength * one + (1 - strength) * paper[i]);
    const contrast = (ink) => {
      const [a, b] = [luminance(rgbOf(ink)), luminance(ground)].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05);
    };
    return contrast(inks[0]) >= contrast(inks[1]) ? inks[0] : inks[1];
  };
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((one) => (one / 255 <= 0.03928 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function nameGroup(box, { width, height }) {
  const group = make("g");
  group.append(make("rect", { x: 0, y: 0, width, height, fill: paperOf(box), "data-paper": "" }));
  return group;
}

// ---------------------------------------------------------------- lines

export function drawLines(box, payload,
  { name, layer, heads = null, threshold = 0.1, onToken } = {}) {
  if (!payload.attentions[name]) return nothing(box, "This system does not attend.");
  const shown = heads || Array.from(payload.attentions[name][layer], (_, h) => h);
  const { rows, columns, headings } = tokensOf(payload, name);
  const [leftWidth, rightWidth] = [[rows, headings.rows], [columns, headings.columns]]
    .map(([names, heading]) => widest([...names, heading]) + 24);
  const width = Math.max(leftWidth + rightWidth + 120, Math.min(box.clientWidth || 640, 720));
  const colours = coloursOf(box);
  const legend = legendOf(shown, width, colours);
  const top = legend.height + 24;
  const step = TARGET + 2;
  const height = top + step * Math.max(rows.length, columns.length) + 6;
  const label = `${name}, layer ${layer}, lines from ${threshold} on`;
  const frame = begin(box, label, width, height);
  const { svg } = frame;
  const at = (i) => top + step * (i + 0.5);
  const sides = { x1: leftWidth, x2: width - rightWidth };
  const lines = weightLines(payload, { name, layer, shown, threshold, at, colours });
  const story = ({ head, t, s, weight }) =>
    `${head === "mean" ? "mean of all heads" : `head ${head}`}: ${rows[t]} → ${columns[s]}: ${spoken(weight)}`;
  const items = [];
  const chips = make("g");
  const chipsOf = (names, key, edge, onLeft) => names.forEach((one, i) => {
    const wide = widthOf(cut(one)) + 16;
    const x = onLeft ? edge - wide : edge;
    const chip = make("g", { [key]: i });
    chip.append(
      make("rect", { x, y: at(i) - TARGET / 2, width: wide, height: TARGET, rx: 6, fill: colours.ink, "fill-opacity": 0.1, stroke: colours.ink, "stroke-opacity": 0.35 }),
      make("text", { x: x + 8, y: at(i) + 4 }, cut(one)));
    chips.append(titled(chip, one));
    items.push(chip);
  });
  chipsOf(rows, "data-row", leftWidth, true);
  chipsOf(columns, "data-column", width - rightWidth, false);
  svg.append(
    chips,
    make("text", { x: leftWidth - 8, y: top - 6, "text-anchor": "end", "fill-opacity": 0.8 }, headings.rows),
    make("text", { x: sides.x2 + 8, y: top - 6, "fill-opacity": 0.8 }, headings.columns),
    legend.group);
  if (!lines.length) {
    svg.append(make("text", { x: width / 2, y: at(0) + 4, "text-anchor": "middle" },
      looksNowhere(payload, { name, layer, shown }) ? "muted: this head looks nowhere" : `nothing reaches ${threshold}`));
  }
  const light = lines.length > MANY ? pixelLines(frame, lines, sides, story) : elementLines(svg, lines, sides, story);
  spotlight(svg, light);
  operable(frame, items, {
    move: (i, key) => betweenColumns(i, key, rows.length, columns.length),
    act: onToken && ((i) => {
      const head = shown.length === 1 ? shown[0] : null;
      if (i < rows.length) onToken(i, { name, layer, head, s: null });
    }),
  });
}

// Whether one head is drawn, and its weights were multiplied by 0.
function looksNowhere(payload, { name, layer, shown }) {
  return shown.length === 1 && shown[0] !== null && Array.from(headOf(payload, name, layer, shown[0])).every((row) => Array.from(row).every((weight) => weight === 0));
}

// A line has one of these strengths, the weakest first: eyes tell no more of them apart.
const STRENGTHS = Array.from({ length: 41 }, (_, i) => ({ width: 0.6 + (3.4 * i) / 40, opacity: 0.25 + (0.75 * i) / 40 }));

// Every line from the threshold on, weak ones first; equals side by side, a head each.
function weightLines(payload, { name, layer, shown, threshold, at, colours }) {
  const byStrength = STRENGTHS.map(() => []);
  shown.forEach((head, i) => {
    const shift = (i - (shown.length - 1) / 2) * Math.min(2, 14 / shown.length);
    const colour = head === null ? colours.ink : colourOf(head, colours);
    const dash = head === null ? null : dashOf(head);
    Array.from(headOf(payload, name, layer, head)).forEach((row, t) => row.forEach((weight, s) => {
      if (!(weight >= threshold)) return;
      const k = Math.round(40 * clamp(0, weight, 1));
      byStrength[k].push({ t, s, weight, strength: STRENGTHS[k], y1: at(t) + shift, y2: at(s) + shift, colour, dash, head: headName(head) });
    }));
  });
  return byStrength.flat();
}

function elementLines(svg, lines, { x1, x2 }, story) {
  const group = make("g", { fill: "none" });
  const third = (x2 - x1) / 3;
  for (const line of lines) {
    const { t, s, y1, y2, weight, colour, dash, head, strength } = line;
    group.append(titled(make("path", {
      d: `M${x1} ${y1}C${x1 + third} ${y1} ${x2 - third} ${y2} ${x2} ${y2}`,
      stroke: colour, "stroke-width": strength.width.toFixed(2), "stroke-opacity": strength.opacity.toFixed(3),
      "stroke-dasharray": dash, "data-t": t, "data-s": s, "data-head": head, "data-weight": weight,
    }), story(line)));
  }
  svg.append(group);
  return (isMine) => {
    for (const path of group.children) {
      const { t, s } = path.dataset;
      path.style.opacity = !isMine || isMine({ t: Number(t), s: Number(s) }) ? "" : "0.06";
    }
  };
}

function pixelLines({ svg, teller }, lines, sides, story) {
  const { light, at, image } = drawManyLines(svg, lines, sides);
  svg.setAttribute("data-lines", lines.length);
  IMAGES.set(svg, image);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    if (event.target.closest("[data-row],[data-column]")) return;
    const line = at((event.clientX - box.left) / zoomOf(svg), (event.clientY - box.top) / zoomOf(svg));
    light(line && ((one) => one === line));
    if (line) teller.tell(story(line), event.clientX, event.clientY);
    else teller.hide();
  });
  return light;
}

// What lies below a picture on a canvas, for those who save it.
const IMAGES = new WeakMap();

const colourOf = (head, { palette }) => palette[head % palette.length];
const dashOf = (head) => DASHES[Math.floor(head / PALETTE.length) % DASHES.length] || null;

function legendOf(heads, width, colours) {
  const group = make("g");
  let [x, y] = [4, 14];
  for (const head of heads) {
    const text = head === null ? "mean of all heads" : `head ${head}`;
    const size = widthOf(text) + 40;
    if (x + size > width && x > 4) [x, y] = [4, y + 18];
    group.append(
      make("line", {
        x1: x, x2: x + 22, y1: y - 4, y2: y - 4, "stroke-width": 4,
        stroke: head === null ? colours.ink : colourOf(head, colours),
        "stroke-dasharray": head === null ? null : dashOf(head),
      }),
      make("text", { x: x + 27, y }, text));
    x += size;
  }
  return { group, height: y + 4 };
}

function betweenColumns(i, key, nRows, nColumns) {
  const onLeft = i < nRows;
  const [first, n] = onLeft ? [0, nRows] : [nRows, nColumns];
  if (key === "ArrowDown" && i + 1 < first + n) return i + 1;
  if (key === "ArrowUp" && i > first) return i - 1;
  if (key === "ArrowRight" && onLeft) return nRows + Math.min(i, nColumns - 1);
  if (key === "ArrowLeft" && !onLeft) return Math.min(i - nRows, nRows - 1);
  return undefined;
}

// While a name is pointed at or focused, only its own lines stand out.
function spotlight(svg, light) {
  const show = (event) => {
    const one = event.target.closest("[data-row],[data-column]");
    if (!one) return light(null);
    const { row, column } = one.dataset;
    light(row !== undefined ? ({ t }) => t === Number(row) : ({ s }) => s === Number(column));
  };
  for (const kind of ["pointerover", "focusin"]) svg.addEventListener(kind, show);
  for (const kind of ["pointerleave", "focusout"]) svg.addEventListener(kind, () => light(null));
}

// ---------------------------------------------------------------- all layers and heads

export function drawGrid(box, payload, { name, onPick } = {}) {
  const layers = payload.attentions[name];
  if (!layers) return nothing(box, "This system does not attend.");
  const n = Math.max(...Array.from(layers, (heads) => heads.length));
  const { rows, columns } = tokensOf(payload, name);
  const [left, gap, top] = [52, 5, 22];
  const size = clamp(28, Math.floor(((box.clientWidth || 640) - left) / n) - gap, 120);
  const tall = clamp(size / 2, (size * rows.length) / columns.length, size * 2);
  const frame = begin(box, `${name}, every layer and head`,
    left + n * (size + gap), top + layers.length * (tall + gap) + 4, GRID_LEGEND);
  const { svg } = frame;
  const colour = rgbOf(inkOf(box));
  const colourFor = (weight) => [...colour, 255 * clamp(0, weight, 1) ** THEME.overviewPower];
  for (let h = 0; h < n; h += 1) {
    svg.append(make("text", {
      x: left + h * (size + gap) + size / 2, y: 14, "text-anchor": "middle",
    }, size < 50 ? String(h) : `head ${h}`));
  }
  const items = [];
  const pictures = make("g");
  svg.append(pictures);
  Array.from(layers).forEach((heads, layer) => {
    const y = top + layer * (tall + gap);
    svg.append(make("text", { x: left - 8, y: y + tall / 2 + 4, "text-anchor": "end" }, `layer ${layer}`));
    Array.from(heads).forEach((weights, head) => {
      const one = make("g", { "data-layer": layer, "data-head": head });
      const place = { x: left + head * (size + gap), y, width: size, height: tall };
      const image = make("image", {
        ...place, href: pixelsOf(weights, rows.length, columns.length, colourFor), preserveAspectRatio: "none",
      });
      image.style.imageRendering = "pixelated";
      one.append(image,
        make("rect", { ...place, "fill-opacity": 0, stroke: "currentColor", "stroke-opacity": 0.3 }));
      pictures.append(titled(one, `${name}, layer ${layer}, head ${head}`));
      items.push(one);
    });
  });
  operable(frame, items, {
    move: onGrid(layers.length, n),
    act: onPick && ((i) => onPick({
      name, layer: Number(items[i].dataset.layer), head: Number(items[i].dataset.head),
    })),
  });
}

// A power of the weight is shown: a glance must also find the weak ones.
const GRID_LEGEND = `In each small picture a row looks at the columns, as in the matrix. Its strength is ${
  THEME.overviewPower === 0.5 ? "the square root" : `the power ${THEME.overviewPower}`} of the weight, so that weak ones show: `
  + `0.01 looks like ${(0.01 ** THEME.overviewPower).toFixed(1)}, 0.25 like ${(0.25 ** THEME.overviewPower).toFixed(1)}.`;

const rgbOf = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// A pixel a weight, as a PNG; colourFor: its red, green, blue and opacity, each up to 255.
function pixelsOf(weights, nRows, nColumns, colourFor) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [nColumns, nRows];
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(nColumns, nRows);
  for (let t = 0; t < nRows; t += 1) {
    for (let s = 0; s < nColumns; s += 1) pixels.data.set(colourFor(weights[t][s]), 4 * (t * nColumns + s));
  }
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL("image/png");
}

// ---------------------------------------------------------------- the six steps

export function drawSteps(box, steps) {
  const { strip, bar, number, wide, starts, left, width, stacked } = stepColumns(box, steps);
  const [top, step] = [74, 24];
  const n = steps.columns.length;
  const second = stacked ? top + step * n + 46 : top; // where the rows of the values begin
  const below = second + step * n + 12;
  const height = below + 3 * step + 6;
  const label = `${steps.row} in ${steps.name}, layer ${steps.layer}, head ${steps.head}: six steps`;
  const draw = coloursOf(box);
  const frame = begin(box, label, width, height, signLegend(draw));
  const { svg, scroller } = frame;
  // One scale a column: what a small weight leaves of a value must look small.
  const [keys, values] = [largestOf(steps.keys), largestOf(steps.values)];
  const weighted = largestOf([...steps.weighted, steps.sum]);
  const side = nameGroup(box, { width: left - 2, height });
  side.append(titled(make("text", { x: left - 8, y: 26, "text-anchor": "end", "font-weight": 600 },
    cut(steps.row)), steps.row));
  svg.append(make("text", { x: starts[0], y: 12 }, "1 query"));
  stripInto(svg, steps.query, starts[0], 16, wide, `query of ${steps.row}`, draw, largestOf([steps.query]));
  stepTitles(steps).forEach(([text, why], i) => {
    const right = i === 1 || i === 2;
    const title = make("text", {
      x: starts[i] + (right ? number : 0), y: (i > 3 ? second : top) - 8, "text-anchor": right ? "end" : "start",
    }, text);
    svg.append(why ? titled(title, why) : title);
  });
  steps.columns.forEach((column, s) => {
    const [y, valueY] = [top + step * s, second + step * s];
    const row = make("g", { "data-s": s, "data-weight": steps.weights[s] });
    if (!steps.visible[s]) row.setAttribute("opacity", 0.35);
    const nameAt = (where, more) => side.append(titled(make("text", { x: left - 8, y: where + 16, "text-anchor": "end", ...more },
      cut(column)), steps.visible[s] ? column : `${column} (hidden)`));
    nameAt(y, { "data-column": s });
    if (stacked) nameAt(valueY);
    stripInto(row, steps.keys[s], starts[0], y, strip, `key of ${column}`, draw, keys);
    numberInto(row, steps.scores[s], starts[1] + number, y, `score of ${column}`);
    numberInto(row, steps.scaled[s], starts[2] + number, y, `scaled score of ${column}`);
    barInto(row, steps.weights[s], starts[3], y, `weight of ${column}`, draw.ink, bar);
    stripInto(row, steps.values[s], starts[4], valueY, wide, `value of ${column}`, draw, values);
    stripInto(row, steps.weighted[s], starts[5], valueY, wide, `weighted value of ${column}`, draw, weighted);
    svg.append(row);
  });
  results(steps).forEach(([key, text], i) => {
    const y = below + step * i;
    const x = key === "sum" || stacked ? starts[5] : starts[2];
    svg.append(make("text", { x: x - 10, y: y + 16, "text-anchor": "end" }, text));
    const most = key === "sum" ? weighted : largestOf([steps[key]]);
    stripInto(svg, steps[key], x, y, starts[5] + wide - x, text, draw, most);
  });
  svg.append(side);
  sticky(scroller, [{ group: side, x: true }], { x: left, y: 0 });
  const items = Array.from(side.querySelectorAll("[data-column]"));
  operable(frame, items, { move: onGrid(items.length, 1) });
}

// Where the columns begin. All of them fit: beside each other, or on a narrow screen in two parts,
// up to the softmax and from the values on.
function stepColumns(box, steps) {
  const room = box.clientWidth || 640;
  const left = widest([...steps.columns, steps.row]) + 14;
  const [number, gap] = [66, 12];
  const beside = room - left - 2 * number - (76 + 46) - 5 * gap - 10;
  const d = Math.max(steps.query.length, ...[steps.keys, steps.values].map((one) => (one[0] || []).length));
  if (beside >= 3 * 100) {
    const wide = clamp(100, Math.floor(beside / 3), Math.max(100, 5 * d));
    const columns = [wide, number, number, 76 + 46, wide, wide];
    const starts = columns.map((_, i) => left + columns.slice(0, i).reduce((a, b) => a + b + gap, 0));
    return { strip: wide, bar: 76, number, wide, starts, left, stacked: false, width: starts[5] + wide + 4 };
  }
  const [bar, few] = [28, 66];
  const strip = Math.max(20, room - left - 2 * few - (bar + 46) - 3 * 6 - 8);
  const wide = Math.max(48, Math.floor((room - left - gap - 8) / 2));
  const starts = [0, strip + 6, strip + few + 12, strip + 2 * few + 18, 0, wide + gap].map((one) => left + one);
  return { strip, bar, number: few, wide, starts, left, stacked: true, width: Math.max(starts[5] + wide, starts[3] + bar + 46) + 4 };
}

// Which colour stands for what.
function signLegend({ above, below }) {
  return [swatch(above), "above 0  ", swatch(below), "below 0, and the stronger the farther from it; a scale for each column"];
}

// The heading of each column, and where it is not clear by itself, why it is so.
function stepTitles({ scale, prior, query }) {
  const softmax = !prior ? ["5 softmax"] : Array.from(prior).every((one) => one === 0)
    ? ["5 softmax × 0", "This head is muted: after the softmax its weights are multiplied by 0."]
    : ["5 softmax × prior", "After the softmax the weights are multiplied, as by the Gaussian of a window."];
  return [["2 key"], ["3 score"], scaleTitle(scale, query.length), softmax, ["value"], ["6 weight × value"]];
}

// By what scores are multiplied, as the lectures write it where it is that.
function scaleTitle(scale, d) {
  if (scale === null || scale === undefined) return ["4 no scale"];
  const number = Number(scale.toPrecision(3));
  if (Math.abs(scale * Math.sqrt(d) - 1) > 1e-4) return [`4 × ${number}`];
  return ["4 × 1/√d_k", `d_k = ${d}, the size of a query and of a key: scores are multiplied by 1/√${d} = ${number}`];
}

// What comes of the values. The stream takes what W_o makes of them as it is, so both are one line.
function results(steps) {
  const { projected, residual } = steps;
  const same = projected && residual && Array.from(projected).every((one, i) => one === residual[i]);
  const named = same
    ? [["sum", "their sum"], ["projected", "through W_o, into the stream"]]
    : [["sum", "their sum"], ["projected", "through W_o"], ["residual", "into the stream"]];
  return named.filter(([key]) => steps[key]);
}

const largestOf = (vectors) => vectors.reduce(
  (most, vector) => vector.reduce((a, b) => Math.max(a, Math.abs(b)), most), 1e-12);

// A vector as a strip of cells: blue above zero, orange below, as strong as it is far from it.
function stripInto(parent, vector, x, y, width, what, { above, below }, largest) {
  const wide = width / vector.length;
  Array.from(vector).forEach((value, i) => {
    parent.append(titled(make("rect", {
      x: (x + wide * i).toFixed(2), y: y + 3, width: Math.max(wide - 0.3, 0.3).toFixed(2), height: 15,
      fill: value < 0 ? below : above, "fill-opacity": (Math.abs(value) / largest).toFixed(3),
      "data-value": value,
    }), `${what}, ${i}: ${spoken(value)}`));
  });
  parent.append(make("rect", {
    x, y: y + 3, width, height: 15, fill: "none", stroke: "currentColor", "stroke-opacity": 0.25,
    "pointer-events": "none",
  }));
}

function numberInto(parent, value, x, y, what) {
  const text = make("text", { x, y: y + 15, "text-anchor": "end", "data-value": value }, short(value));
  text.style.fontVariantNumeric = "tabular-nums";
  parent.append(titled(text, `${what}: ${spoken(value)}`));
}

function barInto(parent, weight, x, y, what, ink, width) {
  parent.append(
    make("rect", { x, y: y + 3, width: (width * clamp(0, weight, 1)).toFixed(1), height: 15, fill: ink }),
    make("rect", { x, y: y + 3, width, height: 15, fill: "none", stroke: "currentColor", "stroke-opacity": 0.25 }));
  numberInto(parent, weight, x + width + 44, y, what);
}

// ---------------------------------------------------------------- the beam as a tree

// A row a step, so that all of them can be seen; the winner runs straight down at the left.
export function drawTree(box, tree, { onPick } = {}) {
  const byId = new Map(tree.nodes.map((node) => [node.id, node]));
  const winner = new Set(pathTo(tree.nodes.find(({ state }) => state === "best"), byId).map(({ id }) => id));
  const nodes = placed(tree.nodes, winner);
  const steps = Math.max(...nodes.map((node) => node.step));
  const [left, high, rowHigh] = [58, 26, 38];
  const widths = [];
  for (const node of nodes) widths[node.line] = Math.max(widths[node.line] ?? 0, widthOf(wordsOf(node)) + 30);
  const xs = widths.map((_, i) => left + widths.slice(0, i).reduce((a, b) => a + b, 0));
  const [width, height] = [left + widths.reduce((a, b) => a + b, 0) + 4, rowHigh * (steps + 1) + 6];
  const frame = begin(box, `beam of ${tree.n_beams}`, width, height, LEGEND);
  const { svg, scroller } = frame;
  const style = styleOf(box);
  const placedById = new Map(nodes.map((node) => [node.id, node]));
  const yOf = ({ step }) => 4 + rowHigh * step;
  const headings = nameGroup(box, { width: left - 8, height });
  for (let step = 0; step <= steps; step += 1) {
    headings.append(make("text", { x: 2, y: yOf({ step }) + 17, "fill-opacity": 0.8, "data-step": step }, step ? `step ${step}` : "start"));
  }
  for (const node of nodes) {
    const parent = placedById.get(node.parent);
    if (!parent) continue;
    const [x1, y1, x2, y2] = [xs[parent.line] + 18, yOf(parent) + high, xs[node.line] + 18, yOf(node)];
    const { stroke, width: wide, opacity, dash } = style[winner.has(node.id) ? "best" : node.state];
    const faint = node.state === "pruned" ? 0.4 : 1; // ways that were not taken must not cover those that were
    svg.append(make("path", {
      d: `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`, fill: "none",
      stroke, "stroke-width": wide, "stroke-opacity": opacity * faint, "stroke-dasharray": dash,
    }));
  }
  const boxes = make("g");
  svg.append(boxes);
  const items = nodes.map((node) => {
    const { stroke, width: wide, opacity, dash } = style[winner.has(node.id) ? "best" : node.state];
    const one = make("g", { "data-node": node.id, "data-state": node.state, "data-score": node.score });
    one.append(
      make("rect", {
        x: xs[node.line], y: yOf(node), width: widthOf(wordsOf(node)) + 16, height: high, rx: 6,
        fill: stroke, "fill-opacity": winner.has(node.id) ? 0.18 : 0.02,
        stroke, "stroke-width": wide, "stroke-opacity": opacity, "stroke-dasharray": dash,
      }),
      make("text", { x: xs[node.line] + 8, y: yOf(node) + 17, "fill-opacity": Math.max(opacity, 0.8) }, wordsOf(node)));
    boxes.append(titled(one, storyOf(node, byId)));
    return one;
  });
  svg.append(headings);
  operable(frame, items, {
    move: (i, key) => alongTree(nodes, placedById, i, key),
    reveal: sticky(scroller, [{ group: headings, x: true }], { x: left, y: 0 }),
    act: onPick && ((i) => onPick(byId.get(nodes[i].id), pathTo(nodes[i], byId).map(({ token }) => token))),
  });
}

// How probable all tokens up to a node are together.
export function probabilityOf(node, nodes) {
  const byId = new Map(nodes.map((one) => [one.id, one]));
  return Math.exp(pathTo(node, byId).reduce((sum, { log_prob: one }) => sum + one, 0));
}

// A share as one reads it; what is not quite nothing, or not quite all, is not written as that.
export function shareText(share) {
  const least = 10 ** -DIGITS.share; // of the last digit, in per cent
  const text = (100 * share).toFixed(DIGITS.share);
  if (share > 0 && Number(text) === 0) return `< ${least} %`;
  return share < 1 && Number(text) === 100 ? `> ${100 - least} %` : `${text} %`;
}

// The same of a probability, which a softmax never makes 0 or 1: its digits end before that.
export function probabilityText(share) {
  return shareText(Math.min(Math.max(share, Number.EPSILON), 1 - Number.EPSILON));
}

function styleOf(box) {
  const { ink, good } = coloursOf(box);
  return {
    open: { stroke: ink, width: 1.2, opacity: 1, dash: null },
    pruned: { stroke: "currentColor", width: 1, opacity: 0.55, dash: "3 3" },
    finished: { stroke: good, width: 1.6, opacity: 1, dash: null },
    best: { stroke: good, width: 3, opacity: 1, dash: null },
  };
}

const LEGEND = "★ the best · ■ finished · ✕ pruned: choose it for the reason · in per cent: how probable the "
  + "token is after those before it";
const SIGNS = { open: "", pruned: " ✕", finished: " ■", best: " ★" };
const wordsOf = (node) => node.parent === null
  ? cut(node.token) : `${cut(node.token)} ${probabilityText(Math.exp(node.log_prob))}${SIGNS[node.state]}`;
const storyOf = (node, byId) => node.parent === null ? node.token
  : `${node.token}: ${probabilityText(Math.exp(node.log_prob))} here, ${probabilityText(Math.exp(
    pathTo(node, byId).reduce((sum, { log_prob: one }) => sum + one, 0)))} with all before it; score ${
    spoken(node.score)}, ${node.state}` + (node.why ? ` (${node.why})` : "");

// In each step the way of the winner comes first, then hypotheses in the order of their scores, the
// pruned ones last: so a tree is no wider than its fullest step, however long it grows.
function placed(nodes, winner) {
  const steps = new Map();
  for (const node of nodes) steps.set(node.step, [...(steps.get(node.step) || []), node]);
  const rank = (node) => (winner.has(node.id) ? 0 : node.state === "pruned" ? 2 : 1);
  return [...steps.values()].flatMap((group) => group
    .sort((a, b) => rank(a) - rank(b) || b.score - a.score)
    .map((node, line) => ({ ...node, line })));
}

function alongTree(nodes, byId, i, key) {
  const here = nodes[i];
  if (key === "ArrowUp") return nodes.indexOf(byId.get(here.parent));
  if (key === "ArrowDown") return nodes.findIndex((one) => one.parent === here.id);
  const beside = nodes.filter((one) => one.step === here.step);
  const turn = { ArrowRight: 1, ArrowLeft: -1 }[key];
  return turn ? nodes.indexOf(beside[beside.indexOf(here) + turn]) : undefined;
}

// The nodes from the first token to this one, without the beginning; none of no node.
function pathTo(node, byId) {
  const path = [];
  for (let one = node; one && one.parent !== null; one = byId.get(one.parent)) path.unshift(one);
  return path;
}

// ---------------------------------------------------------------- heads that do alike

// Heads are compared within one attention only, so each attention has a map of its own; one scale
// holds for all of them and for both directions, for distances are what the maps tell.
export function drawHeadMap(box, heads, { onPick, told = storyOfHead, cost = costOfHead, full = THEME.fullCost.loss_change } = {}) {
  const { panels, size, width, height } = panelsOf(heads.rows, box.clientWidth || 640);
  const dearest = heads.rows.some((row) => cost(row) > 0) ? Math.max(full, ...heads.rows.map(cost)) : 0;
  const frame = begin(box, "heads; near each other = alike", width, height + (dearest > 0 ? 34 : 0));
  const spans = panels.flatMap(({ members }) => [0, 1].map((axis) => spread(heads, members, axis).span));
  const scale = (size - 76) / (Math.max(...spans) || 1);
  const [points, places, items] = [make("g"), [], []];
  frame.svg.append(points);
  for (const panel of panels) {
    const { members, x, y } = panel;
    const marks = panelInto(frame.svg, panel, size, heads.clusters, coloursOf(box));
    const middles = [0, 1].map((axis) => spread(heads, members, axis).middle);
    const found = members.map((i) => ({
      x: x + size / 2 - 10 + scale * (heads.map[i][0] - middles[0]),
      y: y + size / 2 - 3 - scale * (heads.map[i][1] - middles[1]),
      radius: radiusOf(cost(heads.rows[i]), dearest), i,
    }));
    moveApart(found, { left: x + 2, right: x + size - 4, top: y, bottom: y + size - 6 });
    for (const place of [...found].sort((a, b) => b.radius - a.radius)) { // small ones lie above
      const { i } = place;
      const [row, cluster] = [heads.rows[i], heads.clusters[i]];
      const one = make("g", { "data-index": i, "data-cluster": cluster });
      const half = TARGET / 2; // a small mark is hit all the same
      one.append(
        make("path", { d: `M${place.x - half} ${place.y - half}h${TARGET}v${TARGET}h${-TARGET}z`, "fill-opacity": 0 }),
        make("circle", {
          cx: place.x, cy: place.y, r: place.radius, "stroke-width": 1.5,
          "fill-opacity": cost(row) > 0 && dearest > 0 ? 0.75 : 0, ...marks.get(cluster),
        }));
      places.push({ ...place, one, text: `${row.layer}.${row.head}` });
      points.append(titled(one, told(row, cluster)));
      items[i] = one;
    }
  }
  if (dearest > 0) sizesInto(frame.svg, dearest, height + 16);
  nameWhereFree(places, { width, height });
  operable(frame, items, {
    move: (i, key) => nearest(items, i, key),
    act: onPick && ((i) => onPick(heads.rows[i], i)),
  });
}

// The area tells, for that is what eyes compare.
const radiusOf = (change, dearest) =>
  Math.max(4, dearest > 0 ? 12 * Math.sqrt(Math.max(0, change) / dearest) : 0);

// The frame of a panel, its name, and its clusters; returns how each cluster is drawn. Clusters are
// those of one attention, so colours begin anew in each panel; beyond the last one rings are dashed.
function panelInto(svg, { name, members, x, y }, size, clusters, colours) {
  const known = [...new Set(members.map((i) => clusters[i]))].sort((a, b) => a - b);
  const marks = new Map(known.map((cluster, k) =>
    [cluster, { fill: colourOf(k, colours), stroke: colourOf(k, colours), "stroke-dasharray": dashOf(k) }]));
  svg.append(
    make("text", { x: x + 4, y: y - 8 }, name),
    make("rect", {
      x: x + 2, y, width: size - 6, height: size - 6, rx: 5, fill: "none", stroke: "currentColor",
      "stroke-opacity": 0.25, "pointer-events": "none",
    }));
  const group = make("g", { "data-clusters": known.join(" ") });
  let at = x + size - 8;
  for (const cluster of known.slice().reverse()) {
    at -= widthOf(String(cluster), 11);
    if (at < x + 17 + widthOf(name)) break; // the table has them all
    group.append(make("text", { x: at, y: y - 8, "font-size": 11 }, String(cluster)));
    group.append(make("circle", { cx: at - 8, cy: y - 12, r: 4, "fill-opacity": 0.75, "stroke-width": 1.5, ...marks.get(cluster) }));
    at -= 17;
  }
  svg.append(titled(group, "clusters: heads of one colour look alike"));
  return marks;
}

// Marks that would cover each other are moved apart, each by half of what is missing.
function moveApart(places, { left, right, top, bottom }) {
  for (let round = 0; round < 100; round += 1) {
    let still = true;
    places.forEach((a, i) => places.slice(i + 1).forEach((b, k) => {
      const missing = reachOf(a) + reachOf(b) + 2 - Math.hypot(b.x - a.x, b.y - a.y);
      if (missing < 0.1) return;
      const turn = Math.hypot(b.x - a.x, b.y - a.y) > 1e-6 ? Math.atan2(b.y - a.y, b.x - a.x) : i + 2 * k;
      for (const [one, way] of [[a, -0.5], [b, 0.5]]) {
        one.x = clamp(left + reachOf(one), one.x + way * missing * Math.cos(turn), right - reachOf(one));
        one.y = clamp(top + reachOf(one), one.y + way * missing * Math.sin(turn), bottom - reachOf(one));
      }
      still = false;
    }));
    if (still) return;
  }
}

const reachOf = ({ radius }) => Math.max(radius, TARGET / 2);

function sizesInto(svg, dearest, y) {
  let x = 18;
  const sizes = [[dearest, `+${dearest.toFixed(3)}`], [dearest / 4, `+${(dearest / 4).toFixed(3)}`],
    [0, "nothing"]];
  for (const [change, text] of sizes) {
    const radius = radiusOf(change, dearest);
    svg.append(
      make("circle", { cx: x, cy: y, r: radius, "fill-opacity": change ? 0.4 : 0, stroke: "currentColor" }),
      make("text", { x: x + radius + 5, y: y + 4, "font-size": 11, "data-size": "" }, text));
    x += 2 * radius + 24 + widthOf(text, 11);
  }
}

// A square panel an attention, as many beside each other as there is room for.
function panelsOf(rows, room) {
  const names = [...new Set(rows.map((row) => row.name))];
  const across = clamp(1, Math.floor(room / 220), names.length);
  const size = clamp(220, Math.floor(room / across), 320);
  const panels = names.map((name, i) => ({
    name, x: (i % across) * size, y: Math.floor(i / across) * (size + 26) + 26,
    members: rows.flatMap((row, at) => (row.name === name ? [at] : [])),
  }));
  return { panels, size, width: across * size, height: Math.ceil(names.length / across) * (size + 26) };
}

function spread({ map }, members, axis) {
  const values = members.map((i) => map[i][axis]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return { span: high - low, middle: (low + high) / 2 };
}

// Beside its mark, on the side where it covers nothing; farther away, with a line to it, where all
// near places are taken.
function nameWhereFree(places, bounds) {
  const taken = places.map(({ x, y, radius }) => [x - radius, y - radius, x + radius, y + radius]);
  for (const { x, y, radius, one, text } of places) {
    const wide = widthOf(text, 11);
    const inside = ([left, top, right, bottom]) => left >= 0 && top >= 0 && right <= bounds.width && bottom <= bounds.height;
    const isFree = (room) => inside(room) && taken.every(([left, top, right, bottom]) =>
      room[0] > right || room[2] < left || room[1] > bottom || room[3] < top);
    const { room, far } = namePlaces(x, y, radius, wide).find((place) => isFree(place.room)) ?? namePlaces(x, y, radius, wide)[0];
    taken.push(room);
    if (far) {
      one.append(make("line", { x1: x, y1: y, x2: room[0] < x ? room[2] : room[0], y2: (room[1] + room[3]) / 2,
        stroke: "currentColor", "stroke-opacity": 0.4, "pointer-events": "none" }));
    }
    one.append(make("text", { x: room[0] + 1, y: room[3] - 2, "font-size": 11 }, text));
  }
}

// Places for a name around a mark, near ones first, each [left, top, right, bottom].
function namePlaces(x, y, radius, wide) {
  return [3, 14, 26, 38, 52].flatMap((gap, ring) => [0, 180, 90, 270, 45, 315, 135, 225].map((degrees) => {
    const [dx, dy] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
    const left = x + dx * (radius + gap) - (dx < -0.1 ? wide + 2 : dx > 0.1 ? 0 : wide / 2);
    const top = y + dy * (radius + gap + 4) - 6;
    return { room: [left, top, left + wide + 2, top + 12], far: ring > 0 };
  }));
}

const costOfHead = (row) => row.loss_change ?? 0;
const storyOfHead = (row, cluster) => `${row.name}, layer ${row.layer}, head ${row.head}, cluster ${cluster}`;

// The nearest item in the direction of an arrow key.
function nearest(items, i, key) {
  const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
  if (!way) return undefined;
  const middle = (item) => {
    const { x, y, width, height } = item.getBBox();
    return [x + width / 2, y + height / 2];
  };
  const here = middle(items[i]);
  let [best, found] = [Infinity, undefined];
  items.forEach((item, j) => {
    const [dx, dy] = middle(item).map((value, axis) => value - here[axis]);
    const ahead = dx * way[0] + dy * way[1];
    if (j === i || ahead <= 0) return;
    const cost = ahead + 2 * Math.abs(dx * way[1] + dy * way[0]);
    if (cost < best) [best, found] = [cost, j];
  });
  return found;
}

// ---------------------------------------------------------------- drawing again

// Width only: drawing changes the height itself.
export function follow(box, draw) {
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (!box.clientWidth || Math.abs(box.clientWidth - width) < 2) return;
    width = box.clientWidth;
    draw();
  }).observe(box);
  const theme = matchMedia("(prefers-color-scheme: dark)");
  const again = () => (box.isConnected ? draw() : theme.removeEventListener("change", again));
  theme.addEventListener("change", again);
}

// ---------------------------------------------------------------- unpacking

// A payload whose weights may be packed (see visual/payload.py), unpacked; `rounded` tells by name and
// layer where they have 8 bits only.
export async function unpacked(data) {
  const [attentions, rounded] = [{}, {}];
  for (const [name, layers] of Object.entries(data.attentions)) {
    attentions[name] = await Promise.all(layers.map(arrayOf));
    rounded[name] = Array.from(layers).map((layer) => layer.bits === 8);
  }
  return { ...data, attentions, rounded };
}

// Nested rows over one buffer; what is not packed is returned as it is.
export async function arrayOf(one) {
  if (!one || one.data === undefined) return one;
  const bytes = Uint8Array.from(atob(one.data), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const numbers = one.bits === 8
    ? Float32Array.from(new Uint8Array(buffer), (value) => value / 255) : floatsOf(new Uint8Array(buffer));
  return nested(numbers, one.shape, 0);
}

// All first bytes come first, then all second ones: see visual/payload.py.
function floatsOf(bytes) {
  const n = bytes.length / 4;
  const sorted = new Uint8Array(bytes.length);
  for (let k = 0; k < 4; k += 1) for (let i = 0; i < n; i += 1) sorted[4 * i + k] = bytes[k * n + i];
  return new Float32Array(sorted.buffer);
}

function nested(numbers, [n, ...rest], start) {
  if (!rest.length) return numbers.subarray(start, start + n);
  const size = rest.reduce((a, b) => a * b, 1);
  return Array.from({ length: n }, (_, i) => nested(numbers, rest, start + i * size));
}

// ---------------------------------------------------------------- saving

export function svgText(box) {
  const drawn = box.querySelector("svg");
  if (!drawn) throw new Error("nothing has been drawn in this box yet");
  const copy = drawn.cloneNode(true);
  copy.querySelectorAll("[data-ring]").forEach((ring) => ring.remove());
  copy.querySelectorAll("[data-sticky]").forEach((group) => group.removeAttribute("transform"));
  copy.querySelectorAll("[tabindex]").forEach((one) => one.removeAttribute("tabindex"));
  if (isDark(box)) lighten(copy, paperOf(box));
  copy.setAttribute("color", THEME.inks.light);
  const lines = IMAGES.get(drawn);
  if (lines) copy.prepend(make("image", { width: "100%", height: "100%", href: lines() }));
  const title = make("title", {});
  title.textContent = drawn.getAttribute("aria-label") || "Attention";
  copy.prepend(title, make("rect", { width: "100%", height: "100%", fill: THEME.light.paper }));
  return new XMLSerializer().serializeToString(copy);
}

// A saved picture is for paper and slides, whatever the page it was drawn on: colours of the dark
// theme become those of the light one.
function lighten(svg, paper) {
  const pairs = Object.keys(THEME.dark).map((key) => [THEME.dark[key], THEME.light[key]]);
  const heads = THEME.dark.palette.map((dark, i) => [dark, THEME.light.palette[i]]);
  const light = new Map([...pairs, ...heads, [paper, THEME.light.paper]]);
  for (const one of svg.querySelectorAll("[fill], [stroke]")) {
    for (const name of ["fill", "stroke"]) {
      const found = light.get(one.getAttribute(name));
      if (found) one.setAttribute(name, found);
    }
  }
}

export function saveSvg(box, filename = "attention.svg") {
  download(new Blob([svgText(box)], { type: "image/svg+xml" }), filename);
}

export async function savePng(box, filename = "attention.png") {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(box))}`;
  await image.decode();
  const scale = Math.min(2, 8192 / Math.max(image.width, image.height));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height].map((one) => Math.round(one * scale));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("the picture is too large for a PNG; save it as SVG");
  download(blob, filename);
}

function download(blob, filename) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
