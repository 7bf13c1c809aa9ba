// Lines between two columns of names, on a canvas: for more of them than a document should hold as
// elements. A leaf: it is given numbers and colours.

/** @typedef {{t: number, s: number, y1: number, y2: number, weight: number, colour: string,
 *   dash: string|null, head: string, strength: {width: number, opacity: number}}} Line */

const NEAR = 5; // pixels between the pointer and a line that is meant
const DIM = "0.08"; // how strong the others are while some stand out
const THIN = 1; // pixels: so thin lines are added up pixel by pixel, for strokes are what costs
const COLUMN = 3; // pixels of the canvas that a column of them covers: lines are smooth that way

/**
 * Draw the lines, and others above them while some are to stand out.
 * @param {SVGElement} svg lies above the canvas; both fill the same place
 * @param {Line[]} lines the weakest first
 * @param {{x1: number, x2: number}} sides where lines begin and end
 * @returns {{light: (isMine: ((line: Line) => boolean)|null) => void,
 *   at: (x: number, y: number) => Line|null, image: () => string}}
 */
export function drawManyLines(svg, lines, { x1, x2 }) {
  const [width, height] = ["width", "height"].map((side) => Number(svg.getAttribute(side)));
  const all = surface(width, height);
  let some = null; // made when the first are to stand out
  const place = document.createElement("div");
  place.style.cssText = "position:relative";
  svg.before(place);
  place.append(all, svg);
  svg.style.position = "relative";
  paint(all, lines, x1, x2);
  const light = (isMine) => {
    some?.getContext("2d").clearRect(0, 0, width, height);
    all.style.opacity = isMine ? DIM : "";
    if (!isMine) return;
    if (!some) all.after(some = surface(width, height));
    paint(some, lines.filter(isMine), x1, x2);
  };
  const at = (x, y) => nearestLine(lines, (x - x1) / (x2 - x1), y);
  return { light, at, image: () => all.toDataURL("image/png") };
}

// Among so many the weak ones must not hide the strong.
const opacityOf = ({ opacity }) => opacity ** 2;

function surface(width, height) {
  const canvas = document.createElement("canvas");
  const scale = Math.min(devicePixelRatio || 1, 2, 8000 / Math.max(width, height));
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  canvas.style.cssText = `position:absolute;left:0;top:0;width:${width}px;height:${height}px`;
  canvas.setAttribute("aria-hidden", "true"); // the names tell what the lines tell
  canvas.getContext("2d").scale(scale, scale);
  return canvas;
}

function paint(canvas, lines, x1, x2) {
  const context = canvas.getContext("2d");
  const isThin = ({ strength }) => strength.width <= THIN;
  const thin = lines.filter(isThin);
  if (thin.length > 500) paintThin(context, thin, x1, x2);
  stroke(context, thin.length > 500 ? lines.filter((line) => !isThin(line)) : lines, x1, x2);
}

// Each by itself: a path of many lines that cross takes longer to fill than all of them apart.
function stroke(context, lines, x1, x2) {
  const third = (x2 - x1) / 3;
  for (const { y1, y2, colour, dash, strength } of lines) {
    context.strokeStyle = colour;
    context.lineWidth = strength.width;
    context.globalAlpha = opacityOf(strength);
    context.setLineDash(dash ? dash.split(" ").map(Number) : []);
    context.beginPath();
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1 + third, y1, x2 - third, y2, x2, y2);
    context.stroke();
  }
}

// How strong each pixel is by all thin lines of a colour, for each colour. A column at a time, for a
// column is little to keep at hand, and what is added up there is all that this takes time for.
function paintThin(context, lines, x1, x2) {
  const n = Math.max(1, Math.ceil((x2 - x1) / COLUMN));
  const top = Math.floor(lines.reduce((least, { y1, y2 }) => Math.min(least, y1, y2), Infinity));
  const height = Math.ceil(lines.reduce((most, { y1, y2 }) => Math.max(most, y1, y2), -Infinity)) - top + 2;
  const pixels = new ImageData(n, height);
  const layers = layersOf(lines, top);
  const rgbs = layers.map(({ rgb }) => rgb);
  const passing = new Float32Array(layers.length * height);
  for (let i = 0; i < n; i += 1) {
    passInto(passing, layers, bendOf((i + 0.5) / n));
    columnInto(pixels, i, passing, rgbs);
  }
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [n, height];
  picture.getContext("2d").putImageData(pixels, 0, 0);
  context.globalAlpha = 1;
  context.drawImage(picture, x1, top, x2 - x1, height);
}

// The lines of each colour as columns of numbers: where they begin, how far they go down, their ink.
function layersOf(lines, top) {
  const colours = [...new Set(lines.map(({ colour }) => colour))];
  return colours.map((colour) => {
    const mine = lines.filter((line) => line.colour === colour);
    return {
      rgb: [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)),
      starts: Float32Array.from(mine, ({ y1 }) => y1 - top),
      ways: Float32Array.from(mine, ({ y1, y2 }) => y2 - y1),
      inks: Float32Array.from(mine, ({ strength }) => opacityOf(strength) * strength.width),
    };
  });
}

// The share of light that passes all lines of each layer, row by row, where lines have come the share
// `bend` of their way.
function passInto(passing, layers, bend) {
  const height = passing.length / layers.length;
  passing.fill(1);
  layers.forEach(({ starts, ways, inks }, k) => {
    for (let i = 0; i < starts.length; i += 1) {
      const y = k * height + starts[i] + ways[i] * bend;
      const row = y | 0; // y is not below 0
      const below = inks[i] * (y - row);
      passing[row] *= 1 - inks[i] + below;
      passing[row + 1] *= 1 - below;
    }
  });
}

// Column i of the picture: layers lie above each other, the last on top.
function columnInto({ data, width, height }, i, passing, rgbs) {
  for (let row = 0, at = 4 * i; row < height; row += 1, at += 4 * width) {
    let [red, green, blue, clear] = [0, 0, 0, 1]; // as if already laid over nothing
    for (let k = 0; k < rgbs.length; k += 1) {
      const through = passing[k * height + row];
      if (through === 1) continue;
      const [r, g, b] = rgbs[k];
      red = r + through * (red - r);
      green = g + through * (green - g);
      blue = b + through * (blue - b);
      clear *= through;
    }
    if (clear === 1) continue;
    data[at] = red / (1 - clear);
    data[at + 1] = green / (1 - clear);
    data[at + 2] = blue / (1 - clear);
    data[at + 3] = 255 * (1 - clear);
  }
}

// How far down a line has come when it is a share u of the way across: control points lie at thirds.
const bendOf = (u) => u * u * (3 - 2 * u);

// u: the share of the way across; of near lines the strongest.
function nearestLine(lines, u, y) {
  if (u < 0 || u > 1) return null;
  const bend = bendOf(u);
  for (let i = lines.length - 1; i >= 0; i -= 1) {
    const { y1, y2 } = lines[i];
    if (Math.abs(y1 + (y2 - y1) * bend - y) <= NEAR) return lines[i];
  }
  return null;
}
