// Pictures that are asked about. The state, and so the link, holds a picture's name: "example 0", or
// "own 0" for one that was dropped, pasted or chosen here, which stays in this tab.

import { ApiError } from "./api.js";
import { el } from "./elements.js";

const LARGEST = 1024; // pixels of a side that are sent; the model reads fewer
const SVG = "SVG is not read, as it may run scripts; save the picture as PNG or JPEG.";

/** @type {Map<string, string>} name to data URL */
const known = new Map();

/**
 * Whether a picture of this name is here.
 * @param {string} name
 * @returns {boolean}
 */
export function hasPicture(name) {
  return known.has(name);
}

/**
 * The data URL of a picture.
 * @param {string} name
 * @returns {string}
 */
export function pictureOf(name) {
  const url = known.get(name);
  if (!url) throw new ApiError("That picture is not here any more: drop, paste or choose one.");
  return url;
}

/**
 * Keep the pictures of the examples.
 * @param {string[]} urls
 */
export function keepExamples(urls) {
  urls.forEach((url, i) => known.set(`example ${i}`, url));
}

/**
 * A picture from the reader's disk, scaled down, as a PNG; its name.
 * @param {Blob} file
 * @returns {Promise<string>}
 */
export async function keepFile(file) {
  if (file.type.startsWith("image/svg") || /\.svgz?$/i.test(file.name ?? "")) throw new ApiError(SVG);
  let picture;
  try {
    picture = await createImageBitmap(file);
  } catch {
    throw new ApiError("That is no picture that can be read here.");
  }
  const scale = Math.min(1, LARGEST / Math.max(picture.width, picture.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff"; // what is transparent shows paper, as the model sees it
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  const name = `own ${[...known.keys()].filter((key) => key.startsWith("own ")).length}`;
  known.set(name, canvas.toDataURL("image/png"));
  return name;
}

/**
 * Take pictures that are dropped, pasted or chosen.
 * @param {HTMLElement} zone where they may be dropped
 * @param {HTMLInputElement} input where a file is chosen
 * @param {(file: Blob) => void} take
 */
export function listenForPictures(zone, input, take) {
  input.addEventListener("change", () => {
    if (input.files[0]) take(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
  const over = (on) => zone.classList.toggle("over", on);
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    over(true);
  });
  zone.addEventListener("dragleave", () => over(false));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => {
    const file = event.clipboardData?.files[0];
    if (!file || zone.hidden) return;
    event.preventDefault();
    take(file);
  });
}

/**
 * An example as a button with its picture, and its words where it has some.
 * @param {number} i
 * @param {string} other
 * @param {() => void} onclick
 * @returns {HTMLElement}
 */
export function thumbnail(i, other, onclick) {
  const picture = el("img", { src: pictureOf(`example ${i}`), alt: `Example ${i + 1}`, width: 56, height: 56 });
  return el("button", { type: "button", class: "thumbnail", onclick }, picture, ...(other ? [el("span", {}, other)] : []));
}
