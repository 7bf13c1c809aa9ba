// A list of what-ifs is a value: these functions give a new list. Layers and heads count from 0.

import { wordsOf } from "./words.js";

/** @typedef {{kind: string, [field: string]: any}} Edit */

/** What makes two edits of a kind the same one: the later replaces the earlier. */
const PLACE = {
  ablate: ["name", "layer", "head"],
  force: ["name", "layer", "head"],
  temperature: [],
  no_positions: [],
  swap: [],
  force_token: ["position"],
  occlude: ["row", "column"],
};

/**
 * Whether two edits change the same thing.
 * @param {Edit} a
 * @param {Edit} b
 * @returns {boolean}
 */
export function samePlace(a, b) {
  return a.kind === b.kind && PLACE[a.kind].every((field) => a[field] === b[field]);
}

/**
 * Whether there are edits of this kind.
 * @param {any} kind
 * @returns {boolean}
 */
export function isKind(kind) {
  return typeof kind === "string" && Object.hasOwn(PLACE, kind);
}

/**
 * The edit of the list that changes the same thing, if any.
 * @param {Edit[]} edits
 * @param {Edit} like
 * @returns {Edit|undefined}
 */
export function found(edits, like) {
  return edits.find((edit) => samePlace(edit, like));
}

/**
 * The list without the edit that changes the same thing.
 * @param {Edit[]} edits
 * @param {Edit} like
 * @returns {Edit[]}
 */
export function without(edits, like) {
  return edits.filter((edit) => !samePlace(edit, like));
}

/**
 * The list with this edit, in place of one that changed the same thing.
 * @param {Edit[]} edits
 * @param {Edit} edit
 * @returns {Edit[]}
 */
export function withEdit(edits, edit) {
  return [...without(edits, edit), edit];
}

/**
 * What the server says of an edit that cannot be made, without the names that programs have for it.
 * @param {string} why
 * @returns {string}
 */
export function plainly(why) {
  if (/(^|; )edits\.\d+/.test(why)) return "The link that asks for it is damaged: some of it is missing, or out of range.";
  const kinds = Object.keys(PLACE).join("|");
  return why.replace(new RegExp(`^(${kinds})(\\.\\w+)?: `), "").replace(/^no attention is concerned by .*?(; known|$)/, "this model has no such attention$1");
}

/**
 * An edit in words.
 * @param {Edit} edit
 * @param {string} source the sentence, whose words a swap counts
 * @returns {string}
 */
export function spoken(edit, source) {
  const head = `${edit.name}, layer ${edit.layer}, head ${edit.head}`;
  const words = wordsOf(source);
  switch (edit.kind) {
    case "ablate":
      return `${head}: muted`;
    case "force":
      return `${head}: looks at key ${edit.key} only`;
    case "temperature":
      return `temperature ${edit.value} in ${edit.name ?? "all attentions"}`;
    case "occlude":
      return `row ${edit.row}, column ${edit.column} of the picture: painted grey`;
    case "no_positions":
      return "positions are off";
    case "swap":
      return `“${words[edit.first] ?? edit.first}” and “${words[edit.second] ?? edit.second}” swapped`;
    default:
      return `target token ${edit.position} is “${edit.token}”`;
  }
}
