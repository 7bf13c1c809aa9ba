// Where questions of the page go: to the server that it came from. A page that was exported has
// another module of this name, which asks the model inside the page.

/** Whether a program could ask the same questions. */
export const HAS_API = true;

/**
 * Send a question.
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<Response>}
 */
export function send(path, options) {
  return fetch(path, options);
}
