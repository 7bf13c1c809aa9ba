// Questions to the server. Answers are kept, for switches are turned on and off again.

import { send } from "./send.js";

/** What the server answered when it could not do what was asked; the message is for readers. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} [status] of the response, 0 where none came
   */
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

const KEY = "regard-key"; // where this tab keeps the server's key until it is closed

/**
 * From now on, send this key.
 * @param {string} key
 */
export function useKey(key) {
  sessionStorage.setItem(KEY, key);
}

/**
 * Whether there is a key to send.
 * @returns {boolean}
 */
export function hasKey() {
  return Boolean(sessionStorage.getItem(KEY));
}

/** Shows that this page asks, and no other website, where the browser does not tell. */
const TOKEN = document.querySelector('meta[name="regard-token"]')?.getAttribute("content") ?? "";

const LIMIT = 40; // answers kept; the oldest goes first

/** @type {Map<string, Promise<any>>} */
const kept = new Map();

/**
 * Ask for JSON. With a body it is sent (POST); without, it is only asked for (GET).
 * @param {string} path
 * @param {Object} [body]
 * @returns {Promise<any>}
 */
export function ask(path, body) {
  const key = path + " " + (body && JSON.stringify(body));
  if (!kept.has(key)) {
    const answer = askAgain(path, body);
    answer.catch(() => kept.delete(key)); // what failed may work the next time
    kept.set(key, answer);
    if (kept.size > LIMIT) kept.delete(kept.keys().next().value);
  }
  return kept.get(key);
}

/**
 * The same, where the answer may be another one every time: it is not kept.
 * @param {string} path
 * @param {Object} [body]
 * @returns {Promise<any>}
 */
export async function askAgain(path, body) {
  const sent = body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await reach(path, sent || {});
  return response.json();
}

/**
 * Fetch, with errors as readable words.
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<Response>}
 */
export async function reach(path, options) {
  const key = sessionStorage.getItem(KEY);
  const own = { "X-Regard-Token": TOKEN, ...(key && { Authorization: `Bearer ${key}` }) };
  const headers = { ...options.headers, ...own };
  let response;
  try {
    response = await send(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is `regard serve` still running?");
  }
  if (!response.ok) throw new ApiError(await reason(response), response.status);
  return response;
}

/** The server's own words where it has some: {"error": text} or {"detail": text or a list}. */
async function reason(response) {
  const said = await response.json().catch(() => ({}));
  const words = said.error ?? said.detail;
  if (typeof words === "string") return words;
  if (Array.isArray(words)) return words.map(({ loc, msg }) => `${loc?.at(-1)}: ${msg}`).join("; ");
  const wait = response.headers.get("Retry-After");
  if (response.status === 503) return `The server is busy; try again in ${wait ?? "a few"} s.`;
  return `The server answered ${response.status} ${response.statusText}.`;
}
