// While a text is typed: words that the model does not know are marked in it, and it is told what
// will be read where that is not what was typed.

import { ask } from "./api.js";
import { el } from "./elements.js";

const PAUSE = 200; // milliseconds without a key before the server is asked

/**
 * Mark unknown words in a text box from now on.
 * @param {HTMLTextAreaElement} box
 * @param {() => void} onEmpty nothing is in it any more
 * @returns {() => void} looks again: the text may have been set from outside
 */
export function markUnknown(box, onEmpty) {
  const under = el("div", { class: "under", "aria-hidden": "true" });
  const typed = el("div", { class: "typed" });
  const line = el("p", { class: "hint read-as", role: "status" });
  box.replaceWith(typed);
  typed.append(under, box);
  typed.closest(".ask").after(line);
  let timer = 0;

  async function look() {
    const text = box.value;
    try {
      const found = text.trim() ? await ask("/api/read", { text }) : { unknown: [], read: null, known: true };
      if (text === box.value) show(text, found);
    } catch {
      show(text, { unknown: [], read: null, known: true }); // too long, or no server: it is told elsewhere
    }
  }

  function show(text, { unknown, read, known }) {
    under.replaceChildren(...marked(text, unknown));
    under.scrollTop = box.scrollTop;
    const words = [...new Set(unknown.map(([begin, end]) => [...text].slice(begin, end).join("")))];
    line.replaceChildren(...told(words, read, known));
  }

  box.addEventListener("input", () => {
    under.replaceChildren(); // marks of another text would stand in the wrong places
    clearTimeout(timer);
    if (!box.value.trim()) onEmpty();
    timer = setTimeout(look, box.value.trim() ? PAUSE : 0);
  });
  box.addEventListener("scroll", () => (under.scrollTop = box.scrollTop));
  return look;
}

/** The text with its unknown words marked; places count characters, not half ones. */
function marked(text, unknown) {
  const signs = [...text];
  const parts = [];
  let end = 0;
  for (const [first, after] of unknown) {
    parts.push(signs.slice(end, first).join(""), el("mark", {}, signs.slice(first, after).join("")));
    end = after;
  }
  return [...parts, signs.slice(end).join("")];
}

const MOST = 10; // words that are named

function told(words, read, known) {
  const parts = [];
  if (read !== null && known) parts.push("Read as “", el("span", {}, read.trim()), "”: small letters, no punctuation. ");
  if (!known) parts.push("No word of it is known. ");
  else if (words.length) {
    const named = words.slice(0, MOST).map((word) => `“${word}”`).join(", ") + (words.length > MOST ? ", …" : "");
    parts.push(`Not in the vocabulary: ${named}. What it makes of ${words.length > 1 ? "them" : "it"} is a guess.`);
  }
  return parts;
}
