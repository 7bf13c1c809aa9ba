// What is on the screen, asked for by a program: the same question as a command and in Python.

import { hasKey } from "./api.js";
import { el, fill } from "./elements.js";
import { HAS_API } from "./send.js";

const LONGEST = 20_000; // letters of a question; a picture has more, and no command line takes it

/**
 * Show the calls that give the look on the screen, each with a button that copies it.
 * @param {HTMLElement} box hidden where nobody else can ask, or not on a command line for its length
 * @param {Object} body what was asked of /api/explain
 */
export function showCalls(box, body) {
  const asked = { ...body };
  delete asked.packed; // how the page has weights sent to itself
  box.hidden = !HAS_API || JSON.stringify(asked).length > LONGEST;
  if (box.hidden) return;
  const url = `${location.origin}/api/explain`;
  fill(box.querySelector("div"), part("curl", curlOf(url, asked)), part("Python", pythonOf(url, asked)));
}

function part(name, text) {
  const copied = el("span", { role: "status" });
  const button = el("button", { type: "button", "data-control": `copy ${name}`, onclick: () => copy(text, copied) }, `Copy ${name}`);
  const code = el("pre", { tabindex: 0, "aria-label": name }, text);
  return el("div", { class: "call" }, code, el("p", {}, button, " ", copied));
}

/**
 * Put a text on the clipboard, and say whether that worked.
 * @param {string} text
 * @param {HTMLElement} said
 */
export async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = "copied";
  } catch {
    said.textContent = "the browser does not allow it: select it and copy by hand";
  }
  setTimeout(() => (said.textContent = ""), 2500);
}

const KEY = "REGARD_KEY"; // the variable that holds the server's key, which is not shown

function curlOf(url, body) {
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const key = hasKey() ? ` \\\n  -H "Authorization: Bearer $${KEY}"` : "";
  return `curl -s ${url}${key} \\\n  -H 'Content-Type: application/json' \\\n  -d '${quoted}'`;
}

function pythonOf(url, body) {
  const key = hasKey() ? `, "Authorization": "Bearer " + os.environ["${KEY}"]` : "";
  return [
    `import json${hasKey() ? ", os" : ""}, urllib.request`,
    "",
    `asked = ${literal(body)}`,
    "request = urllib.request.Request(",
    `    ${JSON.stringify(url)},`,
    "    data=json.dumps(asked).encode(),",
    `    headers={"Content-Type": "application/json"${key}},`,
    ")",
    "look = json.load(urllib.request.urlopen(request))",
    'print(look["answer"])',
  ].join("\n");
}

/** A value as Python writes it. */
function literal(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}: ${literal(one)}`).join(", ")}}`;
}
