// Attention drawn as SVG. One module, no dependencies: the single HTML file, notebooks and the
// page use it alike.
//
// Every function empties `box` (an Element), draws into it and keeps no state elsewhere: no ids, no
// global style. Text enters by textContent only. Cells and lines carry data-t, data-s, data-head
// and data-weight (all digits); the number also shows on hover and in a line below the picture.
// Keyboard: Tab enters a view, the arrow keys move, Enter does what a click does. Drawing again into
// the same box keeps the focus where it was, and a picture of the same size its place.
//
//   drawMatrix(box, payload, {name, layer, head, title, onToken})    head: null = mean of all heads
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
//   of a head map: (row, index); its told(row, cluster) are the words for a head, and cost(row) is
//   what is lost without it

// Colours, scales, fonts and digits; visual/theme.py writes it.
import { THEME } from "./theme.js";

const NS = "http://www.w3.org/2000/svg";
const { font: FONT, dashes: DASHES, digits: DIGITS } = THEME;
export const PALETTE = THEME.palette;
const MANY = 5000; // cells; more of them get their titles only when pointed at
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
export const spoken = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(DIGITS.exact))) : "–");
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
// `legend`: what the signs in the picture mean.
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
  const readout = document.createElement("div");
  readout.setAttribute("data-readout", "");
  readout.setAttribute("aria-live", "polite");
  readout.style.cssText =
    `min-height:1.5em;font:12px/1.5 ${FONT};overflow-wrap:anywhere;font-variant-numeric:tabular-nums`;
  scroller.append(svg);
  const below = [readout];
  if (legend) {
    const signs = document.createElement("div");
    signs.setAttribute("data-legend", "");
    signs.style.cssText = `font:12px/1.5 ${FONT};opacity:.8`;
    signs.textContent = legend;
    below.unshift(signs);
  }
  box.replaceChildren(scroller, ...below);
  cueEdges(scroller);
  if (before.size === svg.getAttribute("viewBox")) scroller.scrollTo(before.x, before.y);
  const read = (event) => {
    const title = event.target.closest && event.target.closest("svg *")?.querySelector(":scope > title");
    if (title) readout.textContent = title.textContent;
  };
  svg.addEventListener("pointerover", read);
  svg.addEventListener("focusin", read);
  return { svg, scroller, held: before.held };
}

// What goes on beyond an edge fades out there, until it is scrolled to.
export function cueEdges(scroller) {
  const cue = () => {
    const right = scroller.scrollWidth - scroller.clientWidth - scroller.scrollLeft > 2;
    const below = scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop > 2;
    const fades = [right && "to left", below && "to top"].filter(Boolean)
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
    size: scroller.firstChild.getAttribute("viewBox"), x: scroller.scrollLeft, y: scroller.scrollTop,
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
    const seen = scroller.getBoundingClientRect();
    const one = item.getBoundingClientRect();
    if (item.closest("[data-sticky]")) return;
    if (one.left < seen.left + edges.x) scroller.scrollLeft -= seen.left + edges.x - one.left;
    if (one.top < seen.top + edges.y) scroller.scrollTop -= seen.top + edges.y - one.top;
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

export function drawMatrix(box, payload, { name, layer, head = null, title, onToken } = {}) {
  if (!payload.attentions[name]) return nothing(box, "This system does not attend.");
  const weights = headOf(payload, name, layer, head);
  const { rows, columns } = tokensOf(payload, name);
  const left = widest(rows) + 12;
  const top = 0.75 * widest(columns) + 16;
  const overhang = 0.75 * widthOf(cut(columns[columns.length - 1])) + 8;
  const room = (box.clientWidth || 640) - left - overhang;
  const cell = clamp(15, Math.floor(room / columns.length), 30);
  const label = title ?? `${name}, layer ${layer}, head ${headName(head)}`;
  const frame = begin(box, label,
    left + cell * columns.length + overhang, top + cell * rows.length + 4);
  const { svg, scroller } = frame;
  const ink = inkOf(box);
  const story = (t, s) => `${rows[t]} → ${columns[s]}: ${spoken(weights[t][s])}`;
  const many = rows.length * columns.length > MANY;
  const cells = make("g", { stroke: "currentColor", "stroke-opacity": cell < 20 ? 0.08 : 0.15 });
  const side = nameGroup(box, { width: left, height: top + cell * rows.length + 4 });
  const above = nameGroup(box, { width: left + cell * columns.length + overhang, height: top });
  const items = [];
  rows.forEach((row, t) => {
    const text = titled(make("text", {
      x: left - 7, y: top + cell * (t + 0.5) + 4, "text-anchor": "end", "data-row": t,
    }, cut(row)), row);
    side.append(text);
    items.push(text);
    columns.forEach((column, s) => {
      const weight = weights[t][s];
      const one = make("rect", {
        x: left + cell * s, y: top + cell * t, width: cell - 1, height: cell - 1,
        fill: ink, "fill-opacity": clamp(0, weight, 1).toFixed(3),
        "data-t": t, "data-s": s, "data-head": headName(head), "data-weight": weight,
      });
      if (!many) titled(one, story(t, s));
      cells.append(one);
      items.push(one);
    });
  });
  if (many) titledWhenAsked(svg, (one) => story(one.dataset.t, one.dataset.s));
  columns.forEach((column, s) => {
    above.append(titled(make("text", {
      transform: `translate(${left + cell * (s + 0.5) + 3} ${top - 5}) rotate(-45)`, "data-column": s,
    }, cut(column)), column));
  });
  const corner = make("g");
  corner.append(make("rect", { x: 0, y: 0, width: left - 4, height: top - 4, fill: paperOf(box) }));
  svg.append(cells, above, side, corner);
  const reveal = sticky(scroller, [
    { group: side, x: true }, { group: above, y: true }, { group: corner, x: true, y: true },
  ], { x: left, y: top });
  operable(frame, items, {
    move: onGrid(rows.length, columns.length + 1), reveal,
    act: onToken && ((i) => {
      const s = (i % (columns.length + 1)) - 1;
      onToken(Math.floor(i / (columns.length + 1)), { name, layer, head, s: s < 0 ? null : s });
    }),
  });
}

function titledWhenAsked(svg, story) {
  const ask = ({ target }) => {
    if (target.dataset.weight !== undefined && !target.firstChild) titled(target, story(target));
  };
  for (const kind of ["pointerover", "focusin"]) svg.addEventListener(kind, ask, { capture: true });
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
    .map(([names, heading]) => widest([...names, heading]) + 12);
  const width = Math.max(leftWidth + rightWidth + 120, Math.min(box.clientWidth || 640, 720));
  const legend = legendOf(shown, width);
  const top = legend.height + 24;
  const step = 23;
  const height = top + step * Math.max(rows.length, columns.length) + 6;
  const label = `${name}, layer ${layer}, lines from ${threshold} on`;
  const frame = begin(box, label, width, height);
  const { svg } = frame;
  const at = (i) => top + step * (i + 0.5);
  const lines = make("g", { fill: "none" });
  const [x1, x2] = [leftWidth, width - rightWidth];
  shown.forEach((head, i) => {
    const weights = headOf(payload, name, layer, head);
    const shift = (i - (shown.length - 1) / 2) * Math.min(2, 14 / shown.length);
    const bare = head === null ? inkOf(box) : colourOf(head);
    rows.forEach((row, t) => columns.forEach((column, s) => {
      const weight = weights[t][s];
      if (weight < threshold) return;
      const [y1, y2, third] = [at(t) + shift, at(s) + shift, (x2 - x1) / 3];
      const line = make("path", {
        d: `M${x1} ${y1}C${x1 + third} ${y1} ${x2 - third} ${y2} ${x2} ${y2}`,
        stroke: bare, "stroke-width": (0.6 + 3.4 * clamp(0, weight, 1)).toFixed(2),
        "stroke-opacity": (0.25 + 0.75 * clamp(0, weight, 1)).toFixed(3),
        "stroke-dasharray": head === null ? null : dashOf(head),
        "data-t": t, "data-s": s, "data-head": headName(head), "data-weight": weight,
      });
      lines.append(titled(line, `head ${headName(head)}: ${row} → ${column}: ${spoken(weight)}`));
    }));
  });
  const items = [];
  const tokens = make("g");
  [[rows, leftWidth - 8, "end", "data-row"], [columns, width - rightWidth + 8, "start", "data-column"]]
    .forEach(([names, x, anchor, key]) => names.forEach((one, i) => {
      const text = titled(make("text", { x, y: at(i) + 4, "text-anchor": anchor, [key]: i }, cut(one)), one);
      tokens.append(text);
      items.push(text);
    }));
  svg.append(
    tokens,
    make("text", { x: leftWidth - 8, y: top - 6, "text-anchor": "end", "fill-opacity": 0.7 }, headings.rows),
    make("text", { x: x2 + 8, y: top - 6, "fill-opacity": 0.7 }, headings.columns),
    legend.group, lines);
  if (!lines.childNodes.length) {
    svg.append(make("text", { x: width / 2, y: at(0) + 4, "text-anchor": "middle" },
      `nothing reaches ${threshold}`));
  }
  spotlight(svg, lines);
  operable(frame, items, {
    move: (i, key) => betweenColumns(i, key, rows.length, columns.length),
    act: onToken && ((i) => {
      const head = shown.length === 1 ? shown[0] : null;
      if (i < rows.length) onToken(i, { name, layer, head, s: null });
    }),
  });
}

const colourOf = (head) => PALETTE[head % PALETTE.length];
const dashOf = (head) => DASHES[Math.floor(head / PALETTE.length) % DASHES.length] || null;

function legendOf(heads, width) {
  const group = make("g");
  let [x, y] = [4, 14];
  for (const head of heads) {
    const text = head === null ? "mean" : `head ${head}`;
    const size = widthOf(text) + 40;
    if (x + size > width && x > 4) [x, y] = [4, y + 18];
    group.append(
      make("line", {
        x1: x, x2: x + 22, y1: y - 4, y2: y - 4, "stroke-width": 4,
        stroke: head === null ? "currentColor" : colourOf(head),
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
function spotlight(svg, lines) {
  const light = (event) => {
    const one = event.target.closest("[data-row],[data-column]");
    for (const line of lines.children) {
      const mine = !one || (one.hasAttribute("data-row")
        ? line.dataset.t === one.dataset.row : line.dataset.s === one.dataset.column);
      line.style.opacity = mine ? "" : "0.06";
    }
  };
  const all = () => { for (const line of lines.children) line.style.opacity = ""; };
  for (const kind of ["pointerover", "focusin"]) svg.addEventListener(kind, light);
  for (const kind of ["pointerleave", "focusout"]) svg.addEventListener(kind, all);
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
    left + n * (size + gap), top + layers.length * (tall + gap) + 4);
  const { svg } = frame;
  const colour = rgbOf(inkOf(box));
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
        ...place, href: imageOf(weights, rows.length, columns.length, colour), preserveAspectRatio: "none",
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

const rgbOf = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// A pixel a weight. A power of the weight is shown: a glance must also find the weak ones.
function imageOf(weights, nRows, nColumns, [red, green, blue]) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [nColumns, nRows];
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(nColumns, nRows);
  for (let t = 0; t < nRows; t += 1) {
    for (let s = 0; s < nColumns; s += 1) {
      const alpha = 255 * clamp(0, weights[t][s], 1) ** THEME.overviewPower;
      pixels.data.set([red, green, blue, alpha], 4 * (t * nColumns + s));
    }
  }
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL("image/png");
}

// ---------------------------------------------------------------- the six steps

export function drawSteps(box, steps) {
  const { strip, bar, number, wide, starts, left, width } = stepColumns(box, steps);
  const [top, step] = [74, 22];
  const below = top + step * steps.columns.length + 12;
  const label = `${steps.row} in ${steps.name}, layer ${steps.layer}, head ${steps.head}: six steps`;
  const frame = begin(box, label, width, below + 3 * step + 6);
  const { svg, scroller } = frame;
  const draw = coloursOf(box);
  // One scale a column: what a small weight leaves of a value must look small.
  const [keys, values] = [largestOf(steps.keys), largestOf(steps.values)];
  const weighted = largestOf([...steps.weighted, steps.sum]);
  const side = nameGroup(box, { width: left - 2, height: below + 3 * step + 6 });
  side.append(titled(make("text", { x: left - 8, y: 26, "text-anchor": "end", "font-weight": 600 },
    cut(steps.row)), steps.row));
  svg.append(make("text", { x: starts[0], y: 12 }, "1 query"));
  stripInto(svg, steps.query, starts[0], 16, wide, `query of ${steps.row}`, draw, largestOf([steps.query]));
  stepTitles(steps).forEach(([text, why], i) => {
    const right = i === 1 || i === 2;
    const title = make("text", {
      x: starts[i] + (right ? number : 0), y: top - 8, "text-anchor": right ? "end" : "start",
    }, text);
    svg.append(why ? titled(title, why) : title);
  });
  steps.columns.forEach((column, s) => {
    const y = top + step * s;
    const row = make("g", { "data-s": s, "data-weight": steps.weights[s] });
    if (!steps.visible[s]) row.setAttribute("opacity", 0.35);
    side.append(titled(make("text", { x: left - 8, y: y + 15, "text-anchor": "end", "data-column": s },
      cut(column)), steps.visible[s] ? column : `${column} (hidden)`));
    stripInto(row, steps.keys[s], starts[0], y, strip, `key of ${column}`, draw, keys);
    numberInto(row, steps.scores[s], starts[1] + number, y, `score of ${column}`);
    numberInto(row, steps.scaled[s], starts[2] + number, y, `scaled score of ${column}`);
    barInto(row, steps.weights[s], starts[3], y, `weight of ${column}`, draw.ink, bar);
    stripInto(row, steps.values[s], starts[4], y, wide, `value of ${column}`, draw, values);
    stripInto(row, steps.weighted[s], starts[5], y, wide, `weighted value of ${column}`, draw, weighted);
    svg.append(row);
  });
  results(steps).forEach(([key, text], i) => {
    const y = below + step * i;
    const x = key === "sum" ? starts[5] : starts[bar < 76 ? 4 : 2];
    svg.append(make("text", { x: x - 10, y: y + 15, "text-anchor": "end" }, text));
    const most = key === "sum" ? weighted : largestOf([steps[key]]);
    stripInto(svg, steps[key], x, y, starts[5] + wide - x, text, draw, most);
  });
  svg.append(side);
  sticky(scroller, [{ group: side, x: true }], { x: left, y: 0 });
  const items = Array.from(side.querySelectorAll("[data-column]"));
  operable(frame, items, { move: onGrid(items.length, 1) });
}

// Where the columns begin. On a narrow screen those up to the softmax are made to fit, for that is
// what one comes for; the values are a scroll away.
function stepColumns(box, steps) {
  const d = Math.max(steps.query.length, ...[steps.keys, steps.values].map((one) => (one[0] || []).length));
  const narrow = (box.clientWidth || 640) < 560;
  const wide = clamp(64, 4 * d, narrow ? 120 : 200);
  const [strip, number, bar, gap] = narrow ? [28, 60, 28, 6] : [wide, 58, 76, 16];
  const left = widest([...steps.columns, steps.row]) + 14;
  const columns = [strip, number, number, bar + 46, wide, Math.max(wide, 100)];
  const starts = columns.map((_, i) => left + columns.slice(0, i).reduce((a, b) => a + b + gap, 0));
  return { strip, bar, number, wide, starts, left, width: starts[5] + columns[5] + 8 };
}

// The heading of each column, and where it is not clear by itself, why it is so.
function stepTitles({ scale, prior }) {
  const scaled = scale === null || scale === undefined ? "4 no scale" : `4 × ${Number(scale.toPrecision(3))}`;
  const softmax = !prior ? ["5 softmax"] : Array.from(prior).every((one) => one === 0)
    ? ["5 softmax × 0", "This head is ablated: after the softmax its weights are multiplied by 0."]
    : ["5 softmax × prior", "After the softmax the weights are multiplied, as by the Gaussian of a window."];
  return [["2 key"], ["3 score"], [scaled], softmax, ["value"], ["6 weight × value"]];
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

export function drawTree(box, tree, { onPick } = {}) {
  const nodes = placed(tree.nodes);
  const steps = Math.max(...nodes.map((node) => node.step));
  const columns = Array.from({ length: steps + 1 }, (_, step) =>
    Math.max(...nodes.filter((node) => node.step === step).map((node) => widthOf(wordsOf(node)))) + 48);
  const xs = columns.map((_, i) => 10 + columns.slice(0, i).reduce((a, b) => a + b, 0));
  const height = 30 + 28 * (Math.max(...nodes.map((node) => node.line)) + 1);
  const width = xs[steps] + columns[steps];
  const frame = begin(box, `beam of ${tree.n_beams}`, width, height, LEGEND);
  const { svg, scroller } = frame;
  const style = styleOf(box);
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const yOf = (node) => 40 + 28 * node.line;
  const headings = nameGroup(box, { width, height: 22 });
  xs.forEach((x, step) => headings.append(
    make("text", { x, y: 12, "fill-opacity": 0.7, "data-step": step }, step ? `step ${step}` : "start")));
  for (const node of nodes) {
    const parent = byId.get(node.parent);
    if (!parent) continue;
    const [x1, y1] = [xs[parent.step] + widthOf(wordsOf(parent)) + 16, yOf(parent)];
    const [x2, y2] = [xs[node.step], yOf(node)];
    svg.append(make("path", {
      d: `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`, fill: "none",
      stroke: style[node.state].stroke, "stroke-width": style[node.state].width,
      "stroke-opacity": style[node.state].opacity, "stroke-dasharray": style[node.state].dash,
    }));
  }
  const boxes = make("g");
  svg.append(boxes);
  const items = nodes.map((node) => {
    const { stroke, width: wide, opacity, dash } = style[node.state];
    const one = make("g", { "data-node": node.id, "data-state": node.state, "data-score": node.score });
    one.append(
      make("rect", {
        x: xs[node.step], y: yOf(node) - 11, width: widthOf(wordsOf(node)) + 16, height: 22, rx: 5,
        fill: stroke, "fill-opacity": node.state === "best" ? 0.18 : 0.02,
        stroke, "stroke-width": wide, "stroke-opacity": opacity, "stroke-dasharray": dash,
      }),
      make("text", { x: xs[node.step] + 8, y: yOf(node) + 4, "fill-opacity": opacity }, wordsOf(node)));
    boxes.append(titled(one, storyOf(node)));
    return one;
  });
  svg.append(headings);
  operable(frame, items, {
    move: (i, key) => alongTree(nodes, byId, i, key),
    reveal: sticky(scroller, [{ group: headings, y: true }], { x: 0, y: 22 }),
    act: onPick && ((i) => onPick(tree.nodes.find((one) => one.id === nodes[i].id), pathTo(nodes[i], byId))),
  });
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

const LEGEND = "★ the best · ■ finished · ✕ pruned: point at it for the reason · the number is the score, "
  + "a log-probability over the length penalty";
const SIGNS = { open: "", pruned: " ✕", finished: " ■", best: " ★" };
const wordsOf = (node) => node.parent === null
  ? cut(node.token) : `${cut(node.token)} ${Number(node.score).toFixed(DIGITS.score)}${SIGNS[node.state]}`;
const storyOf = (node) => node.parent === null ? node.token
  : `${node.token}: log-probability ${spoken(node.log_prob)}, score ${spoken(node.score)}, ${node.state}`
    + (node.why ? ` (${node.why})` : "");

// In each step the hypotheses stand in the order of their scores, the pruned ones below: so a tree
// is no higher than its fullest step, however long it grows.
function placed(nodes) {
  const steps = new Map();
  for (const node of nodes) steps.set(node.step, [...(steps.get(node.step) || []), node]);
  const lost = (node) => (node.state === "pruned" ? 1 : 0);
  return [...steps.values()].flatMap((group) => group
    .sort((a, b) => lost(a) - lost(b) || b.score - a.score)
    .map((node, line) => ({ ...node, line })));
}

function alongTree(nodes, byId, i, key) {
  const here = nodes[i];
  if (key === "ArrowLeft") return nodes.indexOf(byId.get(here.parent));
  if (key === "ArrowRight") return nodes.findIndex((one) => one.parent === here.id);
  const beside = nodes.filter((one) => one.step === here.step);
  const turn = { ArrowDown: 1, ArrowUp: -1 }[key];
  return turn ? nodes.indexOf(beside[beside.indexOf(here) + turn]) : undefined;
}

function pathTo(node, byId) {
  const path = [];
  for (let one = node; one && one.parent !== null; one = byId.get(one.parent)) path.unshift(one.token);
  return path;
}

// ---------------------------------------------------------------- heads that do alike

// Heads are compared within one attention only, so each attention has a map of its own; one scale
// holds for all of them and for both directions, for distances are what the maps tell.
export function drawHeadMap(box, heads, { onPick, told = storyOfHead, cost = costOfHead } = {}) {
  const { panels, size, width, height } = panelsOf(heads.rows, box.clientWidth || 640);
  const dearest = Math.max(0, ...heads.rows.map(cost));
  const frame = begin(box, "heads; near each other = alike", width, height + (dearest > 0 ? 34 : 0));
  const spans = panels.flatMap(({ members }) => [0, 1].map((axis) => spread(heads, members, axis).span));
  const scale = (size - 76) / (Math.max(...spans) || 1);
  const [points, places, items] = [make("g"), [], []];
  frame.svg.append(points);
  for (const panel of panels) {
    const { members, x, y } = panel;
    const marks = panelInto(frame.svg, panel, size, heads.clusters);
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
      one.append(make("circle", {
        cx: place.x, cy: place.y, r: place.radius, "stroke-width": 1.5,
        "fill-opacity": cost(row) > 0 && dearest > 0 ? 0.75 : 0, ...marks.get(cluster),
      }));
      places.push({ ...place, one, text: `${row.layer}.${row.head}` });
      points.append(titled(one, told(row, cluster)));
      items[i] = one;
    }
  }
  if (dearest > 0) sizesInto(frame.svg, dearest, height + 16);
  nameWhereFree(places);
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
function panelInto(svg, { name, members, x, y }, size, clusters) {
  const known = [...new Set(members.map((i) => clusters[i]))].sort((a, b) => a - b);
  const marks = new Map(known.map((cluster, k) =>
    [cluster, { fill: colourOf(k), stroke: colourOf(k), "stroke-dasharray": dashOf(k) }]));
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
      const missing = a.radius + b.radius + 2 - Math.hypot(b.x - a.x, b.y - a.y);
      if (missing < 0.1) return;
      const turn = Math.hypot(b.x - a.x, b.y - a.y) > 1e-6 ? Math.atan2(b.y - a.y, b.x - a.x) : i + 2 * k;
      for (const [one, way] of [[a, -0.5], [b, 0.5]]) {
        one.x = clamp(left + one.radius, one.x + way * missing * Math.cos(turn), right - one.radius);
        one.y = clamp(top + one.radius, one.y + way * missing * Math.sin(turn), bottom - one.radius);
      }
      still = false;
    }));
    if (still) return;
  }
}

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

// A name that would cover another or a mark is left out; it still shows when pointed at.
function nameWhereFree(places) {
  const taken = places.map(({ x, y, radius }) => [x - radius, y - radius, x + radius, y + radius]);
  for (const { x, y, radius, one, text } of places) {
    const start = x + radius + 3;
    const room = [start, y - 6, start + 2 + widthOf(text, 11), y + 6];
    const free = taken.every(([left, top, right, bottom]) =>
      room[0] > right || room[2] < left || room[1] > bottom || room[3] < top);
    if (!free) continue;
    taken.push(room);
    one.append(make("text", { x: start, y: y + 4, "font-size": 11 }, text));
  }
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
  const title = make("title", {});
  title.textContent = drawn.getAttribute("aria-label") || "Attention";
  copy.prepend(title, make("rect", { width: "100%", height: "100%", fill: THEME.light.paper }));
  return new XMLSerializer().serializeToString(copy);
}

// A saved picture is for paper and slides, whatever the page it was drawn on: colours of the dark
// theme become those of the light one.
function lighten(svg, paper) {
  const pairs = Object.keys(THEME.dark).map((key) => [THEME.dark[key], THEME.light[key]]);
  const light = new Map([...pairs, [paper, THEME.light.paper]]);
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
