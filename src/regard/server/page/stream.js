// The translation as it is decoded: server-sent events, read with fetch, for unlike EventSource it
// shows what the server says about an error and does not ask again by itself.

import { ApiError, reach } from "./api.js";

/**
 * Translate, and be told of every token.
 * @param {string} source
 * @param {(text: string, token: string) => void} onToken the translation so far, the newest token
 * @param {AbortSignal} signal
 * @returns {Promise<{translation: string, unknown: string[], notes: string[]}>}
 */
export async function streamed(source, onToken, signal) {
  const path = "/api/stream?" + new URLSearchParams({ source });
  const response = await reach(path, { signal });
  for await (const { event, data } of events(response.body)) {
    if (event === "token") onToken(data.text, data.token);
    if (event === "done") return { unknown: [], notes: [], ...data };
    if (event === "error") throw new ApiError(data.error ?? data.detail ?? "decoding failed");
  }
  throw new ApiError("The translation broke off; please try again.");
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
