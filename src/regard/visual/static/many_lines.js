// Lines between two columns of names, on a canvas: for more of them than a document should hold as
// elements. A leaf: it is given numbers and colours.

/** @typedef {{t: number, s: number, y1: number, y2: number, weight: number, colour: string,
 *   dash: string|null, head: string, strength: {width: number, opacity: number}}} Line */

const NEAR = 5; // pixels between the pointer and a line that is meant
const DIM = "0.08"; // how strong the others are while some stand out

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

// Lines that look alike are one path: strokes are what costs.
function paint(canvas, lines, x1, x2) {
  const context = canvas.getContext("2d");
  const third = (x2 - x1) / 3;
  let style = null;
  for (const { y1, y2, colour, dash, strength } of lines) {
    const next = `${colour} ${dash} ${strength.width.toFixed(1)} ${strength.opacity.toFixed(2)}`;
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

// Control points lie at thirds, so u is the share of the way across; the strongest of near ones.
function nearestLine(lines, u, y) {
  if (u < 0 || u > 1) return null;
  const bend = u * u * (3 - 2 * u);
  for (let i = lines.length - 1; i >= 0; i -= 1) {
    const { y1, y2 } = lines[i];
    if (Math.abs(y1 + (y2 - y1) * bend - y) <= NEAR) return lines[i];
  }
  return null;
}
