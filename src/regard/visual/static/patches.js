// Weights on the patches of a picture, drawn over it: a large map of one row, and a strip with a
// small map of every row that can be chosen (a word, a found object, a class token, their mean).
//
//   looksAtPicture(payload, name)   whether the columns of an attention are patches of a picture
//   drawPicture(box, payload, {name, layer, head, row, patch, smooth, title, onRow, onPatch})
//   drawPictureGrid(box, payload, {name, row, smooth, onPick})   a map of every layer and head
//
//   row: of the attention, or MEAN; null or one that there is not: the first of the strip. patch: a column,
//   whose weight from every row is then told. onRow(row), onPatch(column); onPick as in a grid.
//
// Like draw.js it keeps no state, and the keyboard works alike: arrows move, Enter chooses.

import { begin, clamp, coloursOf, cut, headName, headOf, make, onGrid, operable, PALETTE, placeOf, sidesOf, spoken, titled } from "./draw.js";
import { THEME } from "./theme.js";

const [THUMB, GAP, LINE] = [96, 12, 16];
const ALL = "mean of rows";
export const MEAN = -1; // a row that is the mean of all rows

export function looksAtPicture(payload, name) {
  return Boolean(payload.picture && payload.attentions[name] && sidesOf(payload, name).columns.grid);
}

// ---------------------------------------------------------------- what there is to draw

// The weights of one head, and how its rows and columns lie.
function sceneOf(payload, name, layer, head) {
  const { rows, columns } = sidesOf(payload, name);
  const [nRows, nColumns] = columns.grid;
  return {
    weights: headOf(payload, name, layer, head), rows, columns, nRows, nColumns,
    before: columns.labels.length - nRows * nColumns,
    boxes: (rows.key === "target" && payload.boxes) || null,
    gates: (rows.key === "target" && payload.gates) || null,
    isHard: Boolean(payload.drawn), // a patch was taken for each word, and no other looked at
  };
}

// Rows of the strip. A patch that is chosen looks somewhere itself.
function offered({ rows, columns, boxes }, row, column) {
  let some = rows.labels.map((_, t) => t);
  if (rows.grid) some = [...some.slice(0, rows.labels.length - rows.grid[0] * rows.grid[1]), MEAN];
  else if (boxes) some = boxes.length ? boxes.map((one) => one.row) : [MEAN];
  const own = rows.grid && rows.key === columns.key ? column : null;
  return [...new Set([...some, ...[row, own].filter((one) => one !== null)])];
}

const whereOf = (scene, row) => (row === MEAN ? "Where rows look on average" : `Where ${cut(scene.rows.labels[row], 30)} looks`);
const labelOf = ({ rows }, row) => (row === MEAN ? ALL : rows.labels[row]);

// What a row looks at, patch by patch.
function mapOf({ weights, before }, row) {
  if (row !== MEAN) return Array.from(weights[row]).slice(before);
  const all = Array.from(weights);
  return Array.from(all[0], (_, s) => all.reduce((sum, one) => sum + one[s], 0) / all.length).slice(before);
}

// Who looks at a column, where rows are patches, too.
function lookersOf({ weights, rows }, column) {
  const n = rows.labels.length - rows.grid[0] * rows.grid[1];
  return Array.from(weights, (row) => row[column]).slice(n);
}

// ---------------------------------------------------------------- pieces

// Black, the less weight the more opaque; as in visual/heat_maps.py.
function veilOf(map, nRows, nColumns) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [nColumns, nRows];
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(nColumns, nRows);
  const most = Math.max(...map);
  map.forEach((weight, i) => {
    const light = most > 0 ? clamp(0, weight / most, 1) : 0;
    pixels.data[4 * i + 3] = Math.round(255 * (1 - THEME.unlit) * (1 - light));
  });
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL("image/png");
}

function litInto(group, payload, map, { nRows, nColumns, isHard }, place, smooth) {
  const veil = make("image", { ...place, href: veilOf(map, nRows, nColumns), preserveAspectRatio: "none" });
  veil.style.imageRendering = smooth && !isHard ? "auto" : "pixelated";
  group.append(make("image", { ...place, href: payload.picture, preserveAspectRatio: "none" }), veil);
}

function boxInto(group, { box: [left, top, right, bottom] }, { x, y, width, height }, colour, wide) {
  group.append(make("rect", {
    x: x + left * width, y: y + top * height, width: (right - left) * width, height: (bottom - top) * height,
    fill: "none", stroke: colour, "stroke-width": wide, "pointer-events": "none",
  }));
}

const colourOfBox = (boxes, one) => PALETTE[[...new Set(boxes.map(({ label }) => label))].sort().indexOf(one.label) % PALETTE.length];

function boxesInto(group, boxes, row, place) {
  for (const one of boxes) {
    const colour = colourOfBox(boxes, one);
    const mine = one.row === row;
    boxInto(group, one, place, colour, mine ? 4 : 1.5);
    const [x, y] = [place.x + one.box[0] * place.width, place.y + one.box[1] * place.height];
    group.append(make("text", {
      x: x + 4, y: y > place.y + 14 ? y - 4 : y + 14, "font-weight": mine ? 700 : 400, fill: "#fff", stroke: "#000",
      "stroke-width": 3, "paint-order": "stroke", "pointer-events": "none", "data-box": one.row,
    }, one.label));
  }
}

// ---------------------------------------------------------------- one head

export function drawPicture(box, payload,
  { name, layer, head = null, row = null, patch = null, smooth = true, title, onRow, onPatch } = {}) {
  const scene = sceneOf(payload, name, layer, head);
  const known = row !== null && row < scene.rows.labels.length ? row : null;
  const column = patch !== null && patch >= scene.before && patch < scene.columns.labels.length ? patch : null;
  const strip = offered(scene, known, column);
  const chosen = known ?? strip[0];
  const room = box.clientWidth || 640;
  const beside = room >= 560;
  const wide = Math.round(clamp(160, beside ? 0.52 * room : room - 8, 400));
  const place = { x: 2, y: 2, width: wide, height: Math.round((wide * scene.nRows) / scene.nColumns) };
  const notes = linesOf(scene, chosen, column);
  const [left, top] = beside ? [wide + 26, 2] : [2, place.height + 14 + LINE * notes.length + 8];
  const small = thumbSize(scene, column);
  const across = Math.max(1, Math.floor((room - left + GAP) / (THUMB + GAP)));
  const n = strip.length + (column !== null && scene.rows.grid ? 1 : 0);
  const height = Math.max(place.height + 14 + LINE * notes.length, top + Math.ceil(n / across) * small.high) + 6;
  const label = title ?? `${name}, layer ${layer}, head ${headName(head)}`;
  const frame = begin(box, `${label}: ${whereOf(scene, chosen)}`, Math.min(room - 2, Math.max(wide + 4, left + across * (THUMB + GAP))), height);
  const items = largeInto(frame, box, payload, scene, { chosen, column, place, smooth });
  notes.forEach((text, i) => frame.svg.append(make("text", { x: 2, y: place.height + 18 + LINE * i }, text)));
  const thumbs = strip.map((one, i) => {
    const at = { x: left + (i % across) * (THUMB + GAP), y: top + Math.floor(i / across) * small.high };
    return thumbInto(frame, box, payload, scene, { row: one, chosen: one === chosen, column, at, small, smooth });
  });
  if (n > strip.length) {
    const i = strip.length;
    const at = { x: left + (i % across) * (THUMB + GAP), y: top + Math.floor(i / across) * small.high };
    lookersInto(frame, payload, scene, column, at, small, smooth);
  }
  const holds = (some) => ({ svg: frame.svg, held: some.some((one) => placeOf(one) === frame.held) ? frame.held : null });
  operable(holds(items), items, {
    move: onGrid(scene.nRows, scene.nColumns), first: column === null ? 0 : column - scene.before,
    act: onPatch && ((i) => onPatch(scene.before + i)),
  });
  operable(holds(thumbs), thumbs, {
    move: onGrid(Math.ceil(thumbs.length / across), across), first: strip.indexOf(chosen),
    act: onRow && ((i) => onRow(strip[i])),
  });
}

// What is told below the large picture.
function linesOf(scene, chosen, column) {
  const inside = mapOf(scene, chosen).reduce((a, b) => a + b, 0);
  const share = inside < 0.9995 ? `; ${inside.toFixed(3)} of its weight is on the patches` : "";
  const lines = [`${whereOf(scene, chosen)}${share}`];
  if (column === null) return lines;
  const rows = scene.rows.labels.map((label, t) => ({ label, weight: scene.weights[t][column] }));
  const most = rows.reduce((a, b) => (b.weight > a.weight ? b : a));
  const mine = chosen === MEAN ? null : scene.weights[chosen][column];
  lines.push(`Patch ${scene.columns.labels[column]}${mine === null ? "" : `: ${spoken(mine)} of its weight`}`);
  lines.push(`Most looked at by ${cut(most.label, 30)} (${spoken(most.weight)})`);
  return lines;
}

function largeInto({ svg }, box, payload, scene, { chosen, column, place, smooth }) {
  const map = mapOf(scene, chosen);
  const group = make("g");
  litInto(group, payload, map, scene, place, smooth);
  const [wide, tall] = [place.width / scene.nColumns, place.height / scene.nRows];
  const items = map.map((weight, i) => {
    const s = scene.before + i;
    const one = make("rect", {
      x: place.x + (i % scene.nColumns) * wide, y: place.y + Math.floor(i / scene.nColumns) * tall, width: wide, height: tall,
      "fill-opacity": 0, "data-s": s, "data-t": chosen, "data-head": "", "data-weight": weight,
    });
    return titled(one, `${labelOf(scene, chosen)} → ${scene.columns.labels[s]}: ${spoken(weight)}`);
  });
  const cells = make("g");
  cells.append(...items);
  group.append(cells);
  if (scene.boxes) boxesInto(group, scene.boxes, chosen, place);
  if (column !== null) group.append(ringOf(items[column - scene.before]));
  svg.append(group);
  return items;
}

// White and black, so that it shows on every picture.
function ringOf(item) {
  const at = Object.fromEntries(["x", "y", "width", "height"].map((key) => [key, item.getAttribute(key)]));
  const ring = make("g", { fill: "none", "pointer-events": "none", "data-patch": item.dataset.s });
  ring.append(make("rect", { ...at, stroke: "#000", "stroke-width": 4 }), make("rect", { ...at, stroke: "#fff", "stroke-width": 2 }));
  return ring;
}

function thumbSize({ nRows, nColumns, gates }, column) {
  const tall = Math.round((THUMB * nRows) / nColumns);
  return { tall, high: tall + LINE * (1 + (gates ? 1 : 0) + (column === null ? 0 : 1)) + GAP + 4 };
}

function thumbInto({ svg }, box, payload, scene, { row, chosen, column, at, small, smooth }) {
  const place = { ...at, width: THUMB, height: small.tall };
  const one = make("g", { "data-row": row, "data-chosen": chosen ? "" : null });
  litInto(one, payload, mapOf(scene, row), scene, place, smooth);
  for (const found of scene.boxes || []) if (found.row === row) boxInto(one, found, place, colourOfBox(scene.boxes, found), 2);
  const { ink } = coloursOf(box);
  one.append(make("rect", {
    ...place, "fill-opacity": 0, stroke: chosen ? ink : "currentColor", "stroke-width": chosen ? 4 : 1, "stroke-opacity": chosen ? 1 : 0.3,
  }));
  const texts = [cut(labelOf(scene, row)), ...(scene.gates && row !== MEAN ? [`β ${scene.gates[row].toFixed(3)}`] : [])];
  texts.forEach((text, i) => one.append(make("text", {
    x: at.x + THUMB / 2, y: at.y + small.tall + LINE * (i + 1) - 2, "text-anchor": "middle", "font-weight": chosen && !i ? 700 : 400,
  }, text)));
  if (column !== null && row !== MEAN) weightBarInto(one, scene.weights[row][column], at, at.y + small.tall + LINE * texts.length + 3, ink);
  const told = column === null || row === MEAN ? "" : `; ${spoken(scene.weights[row][column])} on ${scene.columns.labels[column]}`;
  svg.append(titled(one, `${whereOf(scene, row)}${told}`));
  return one;
}

// How much of a row is on the chosen patch.
function weightBarInto(group, weight, { x }, y, ink) {
  group.append(
    make("rect", { x, y: y + 2, width: (48 * clamp(0, weight, 1)).toFixed(1), height: 9, fill: ink }),
    make("rect", { x, y: y + 2, width: 48, height: 9, fill: "none", stroke: "currentColor", "stroke-opacity": 0.3 }),
    make("text", { x: x + THUMB, y: y + 11, "text-anchor": "end", "font-size": 11, "data-on-patch": weight }, weight.toFixed(3)));
}

// Where rows are patches: those that look at the chosen one.
function lookersInto({ svg }, payload, scene, column, at, small, smooth) {
  const place = { ...at, width: THUMB, height: small.tall };
  const one = make("g", { "data-lookers": column });
  const [nRows, nColumns] = scene.rows.grid;
  litInto(one, payload, lookersOf(scene, column), { nRows, nColumns }, place, smooth);
  one.append(
    make("rect", { ...place, fill: "none", stroke: "currentColor", "stroke-opacity": 0.3, "stroke-dasharray": "3 3" }),
    make("text", { x: at.x + THUMB / 2, y: at.y + small.tall + LINE - 2, "text-anchor": "middle" }, "who looks there"));
  svg.append(titled(one, `which patches look at ${scene.columns.labels[column]}`));
}

// ---------------------------------------------------------------- all layers and heads

export function drawPictureGrid(box, payload, { name, row = null, smooth = true, onPick } = {}) {
  const layers = payload.attentions[name];
  const n = Math.max(...Array.from(layers, (heads) => heads.length));
  const first = sceneOf(payload, name, 0, 0);
  const chosen = row !== null && row < first.rows.labels.length ? row : offered(first, null, null)[0];
  const [left, gap, top] = [52, 6, 38];
  const size = clamp(40, Math.floor(((box.clientWidth || 640) - left) / n) - gap, 120);
  const tall = Math.round((size * first.nRows) / first.nColumns);
  const frame = begin(box, `${name}, every layer and head: ${whereOf(first, chosen)}`,
    Math.max(left + n * (size + gap), 240), top + layers.length * (tall + gap) + 4);
  frame.svg.append(make("text", { x: 0, y: 14 }, whereOf(first, chosen)));
  const items = [];
  const pictures = make("g");
  frame.svg.append(pictures);
  for (let h = 0; h < n; h += 1) {
    frame.svg.append(make("text", { x: left + h * (size + gap) + size / 2, y: 32, "text-anchor": "middle" }, size < 50 ? String(h) : `head ${h}`));
  }
  Array.from(layers).forEach((heads, layer) => {
    const y = top + layer * (tall + gap);
    frame.svg.append(make("text", { x: left - 8, y: y + tall / 2 + 4, "text-anchor": "end" }, `layer ${layer}`));
    Array.from(heads).forEach((_, head) => {
      const scene = sceneOf(payload, name, layer, head);
      const one = make("g", { "data-layer": layer, "data-head": head });
      const place = { x: left + head * (size + gap), y, width: size, height: tall };
      litInto(one, payload, mapOf(scene, chosen), scene, place, smooth);
      one.append(make("rect", { ...place, "fill-opacity": 0, stroke: "currentColor", "stroke-opacity": 0.3 }));
      pictures.append(titled(one, `${name}, layer ${layer}, head ${head}`));
      items.push(one);
    });
  });
  operable(frame, items, {
    move: onGrid(layers.length, n),
    act: onPick && ((i) => onPick({ name, layer: Number(items[i].dataset.layer), head: Number(items[i].dataset.head) })),
  });
}
