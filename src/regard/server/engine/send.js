// Where questions of the page go when there is no server: to the model in this page. Answers are
// `Response`s, as `fetch` gives them, so that the page asks as it always does.

import { Classifier } from "./classifier.js";
import { ANSWERS, pause } from "./routes.js";
import { Summarizer } from "./summarizer.js";
import { Translator } from "./translator.js";
import { Refusal } from "./what_ifs.js";
import { Writer } from "./writer.js";

/** Whether a program could ask the same questions. */
export const HAS_API = false;

/** By task: what its runs are. @type {Object<string, typeof import("./run.js").Run>} */
const RUNS = { translation: Translator, summarization: Summarizer, classification: Classifier, language: Writer };

/** @type {import("./run.js").Run|null} made of what `model.js` brings, when it is first asked */
let run = null;

/**
 * Ask the model.
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<Response>}
 */
export async function send(path, { body, signal } = {}) {
  const url = new URL(path, "file:///");
  await pause(); // the page first shows what it was told to
  try {
    run ??= new RUNS[REGARD_RUN.task](REGARD_RUN, tensorsOf(REGARD_WEIGHTS));
    const asked = body ? JSON.parse(String(body)) : Object.fromEntries(url.searchParams);
    if (Object.hasOwn(run.streams, url.pathname)) return streamed(run.streams[url.pathname](asked), signal);
    if (url.pathname === "/api/drawing") return new Response(run.file.drawing);
    return Response.json(await answered(run, url.pathname, asked));
  } catch (error) {
    return failed(error);
  }
}

/** The answer to a question of any task, or of this one. */
function answered(run, path, asked) {
  if (Object.hasOwn(ANSWERS, path)) return ANSWERS[path](run, asked);
  if (Object.hasOwn(run.answers, path)) return run.answers[path](asked);
  throw new Refusal("this page runs without a server and cannot do that; `regard serve` can", 404);
}

/** What went wrong, in words; what nobody foresaw is also told to who looks into the console. */
function failed(error) {
  if (error instanceof Refusal) return Response.json({ error: error.message }, { status: error.status });
  console.error(error);
  return Response.json({ error: `the model in this page failed: ${error.message}` }, { status: 500 });
}

/** Tokens as they are found, as server-sent events; whoever asks may go away meanwhile. */
function streamed(tokens, signal) {
  const first = tokens.next(); // what cannot be translated is refused before anything is sent
  const encoder = new TextEncoder();
  const event = ({ done, value }) => encoder.encode(`event: ${done ? "done" : "token"}\ndata: ${JSON.stringify(value)}\n\n`);
  let coming = first;
  return new Response(
    new ReadableStream({
      async pull(controller) {
        if (signal?.aborted) return controller.error(signal.reason);
        controller.enqueue(event(coming));
        if (coming.done) return controller.close();
        await pause();
        coming = tokens.next();
      },
    }),
  );
}

/** The weights by name: one text of 32-bit numbers, in which each tensor has its place. */
function tensorsOf({ tensors, numbers }) {
  const letters = atob(numbers);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const all = new Float32Array(bytes.buffer);
  let at = 0;
  return Object.fromEntries(
    tensors.map(([name, shape]) => {
      const size = shape.reduce((a, b) => a * b, 1);
      return [name, { shape, data: all.subarray(at, (at += size)) }];
    }),
  );
}
