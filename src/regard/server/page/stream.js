// What is decoded as it comes: server-sent events, read with fetch, for unlike EventSource it
// shows what the server says about an error and does not ask again by itself.

import { ApiError, reach } from "./api.js";

/**
 * Ask, and be told of every token.
 * @param {string} path
 * @param {Object|null} body sent as JSON (POST); null: only asked for (GET)
 * @param {(data: Object) => void} onToken
 * @param {AbortSignal} signal
 * @returns {Promise<Object>} the data of the last event
 */
export async function streamed(path, body, onToken, signal) {
  const headers = { "Content-Type": "application/json" };
  const sent = body && { method: "POST", headers, body: JSON.stringify(body) };
  const response = await reach(path, { ...sent, signal });
  for await (const { event, data } of events(response.body)) {
    if (event === "token") onToken(data);
    if (event === "done") return { unknown: [], notes: [], ...data };
    if (event === "error") throw new ApiError(data.error ?? data.detail ?? "decoding failed");
  }
  throw new ApiError("The answer broke off; please try again.");
}

/**
 * The events of a stream of bytes.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{event: string, data: any}>}
 */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const found = parsed(block);
      if (found) yield found;
    }
  }
}

/** One block of lines; null for a mere comment, which servers send to keep a connection open. */
function parsed(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}
