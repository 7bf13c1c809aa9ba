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
  const [all, some] = [0, 1].map(() => surface(width, height));
  const place = document.createElement("div");
  place.style.cssText = "position:relative";
  svg.before(place);
  place.append(all, some, svg);
  svg.style.position = "relative";
  paint(all, lines, x1, x2);
  const light = (isMine) => {
    some.getContext("2d").clearRect(0, 0, width, height);
    all.style.opacity = isMine ? DIM : "";
    if (isMine) paint(some, lines.filter(isMine), x1, x2);
  };
  const at = (x, y) => nearestLine(lines, (x - x1) / (x2 - x1), y);
  return { light, at, image: () => all.toDataURL("image/png") };
}

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

// Lines that look alike are one path.
function stroke(context, lines, x1, x2) {
  const third = (x2 - x1) / 3;
  let style = null;
  for (const { y1, y2, colour, dash, strength } of lines) {
    const next = `${colour} ${dash} ${strength.width} ${strength.opacity}`;
    if (next !== style) {
      if (style !== null) context.stroke();
      style = next;
      context.beginPath();
      context.strokeStyle = colour;
      context.lineWidth = strength.width;
      context.globalAlpha = strength.opacity;
      context.setLineDash(dash ? dash.split(" ").map(Number) : []);
    }
    context.moveTo(x1, y1);
    context.bezierCurveTo(x1 + third, y1, x2 - third, y2, x2, y2);
  }
  if (style !== null) context.stroke();
}

// How strong each pixel is by all thin lines of a colour, for each colour.
function paintThin(context, lines, x1, x2) {
  const [n, top] = [Math.max(1, Math.ceil((x2 - x1) / COLUMN)), Math.floor(Math.min(...lines.map(({ y1, y2 }) => Math.min(y1, y2))))];
  const height = Math.ceil(Math.max(...lines.map(({ y1, y2 }) => Math.max(y1, y2)))) - top + 2;
  const bends = Float32Array.from({ length: n }, (_, i) => bendOf((i + 0.5) / n));
  const layers = new Map();
  for (const { y1, y2, colour, strength } of lines) {
    if (!layers.has(colour)) layers.set(colour, new Float32Array(n * height));
    const layer = layers.get(colour);
    const ink = strength.opacity * strength.width;
    for (let i = 0; i < n; i += 1) {
      const y = y1 - top + (y2 - y1) * bends[i];
      const row = Math.floor(y);
      const at = row * n + i;
      layer[at] += ink * (1 - y + row) * (1 - layer[at]);
      layer[at + n] += ink * (y - row) * (1 - layer[at + n]);
    }
  }
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [n, height];
  picture.getContext("2d").putImageData(joined([...layers], n, height), 0, 0);
  context.globalAlpha = 1;
  context.drawImage(picture, x1, top, x2 - x1, height);
}

// One picture of several layers, each [colour, strength of every pixel], the last above the others.
function joined(layers, width, height) {
  const pixels = new ImageData(width, height);
  const inks = layers.map(([colour]) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)));
  for (let i = 0; i < width * height; i += 1) {
    let [red, green, blue, alpha] = [0, 0, 0, 0]; // as if already laid over nothing
    for (let k = 0; k < layers.length; k += 1) {
      const share = layers[k][1][i];
      if (share === 0) continue;
      red += share * (inks[k][0] - red);
      green += share * (inks[k][1] - green);
      blue += share * (inks[k][2] - blue);
      alpha += share * (1 - alpha);
    }
    if (alpha === 0) continue;
    pixels.data[4 * i] = red / alpha;
    pixels.data[4 * i + 1] = green / alpha;
    pixels.data[4 * i + 2] = blue / alpha;
    pixels.data[4 * i + 3] = 255 * alpha;
  }
  return pixels;
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
