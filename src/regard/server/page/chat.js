// A conversation with a run that chats. Each token of an answer can be chosen, to see where the model
// looked when it wrote it, and what else it might have written.

import { ask } from "./api.js";
import { probabilityText } from "./draw.js";
import { choice, el, fill } from "./elements.js";
import { called } from "./glossary.js";
import { bare, bars } from "./outcomes.js";
import { streamed } from "./stream.js";

const MOST_TURNS = 255; // the server takes 256; an odd number of the last begins with the reader's

/** @typedef {{role: "user"|"assistant", content: string, tokens?: {id: number, text: string}[]}} Message */

/** A box to talk in. */
export class ChatView {
  /** @param {HTMLElement} box */
  constructor(box) {
    /** @type {Message[]} */
    this.messages = [];
    this.stop = null; // ends the answer that is coming
    this.manner = { temperature: 1, max_tokens: 200 };
    this.log = el("div", { class: "turns", role: "log", "aria-label": "Conversation", tabindex: 0 });
    this.turns = el("ol");
    this.log.append(this.turns);
    this.trouble = el("p", { class: "trouble", role: "alert", hidden: true });
    this.words = el("textarea", { id: "chat-words", rows: 1, autocomplete: "off", placeholder: "Say something", onkeydown: (event) => this.key(event) });
    this.send = el("button", { type: "submit", class: "main" }, "Send");
    this.halt = el("button", { type: "button", hidden: true, onclick: () => this.stop?.abort() }, "Stop");
    this.clear = el("button", { type: "button", class: "quiet", onclick: () => this.forget() }, "Clear");
    this.look = el("section", { class: "look", "aria-label": "Where it looked", "aria-live": "polite", hidden: true });
    const form = el(
      "form",
      { onsubmit: (event) => (event.preventDefault(), this.say()) },
      el("label", { for: "chat-words" }, "Your turn; Enter sends it, Shift+Enter begins a new line, Escape stops an answer"),
      el("div", { class: "ask" }, this.words, this.send, this.halt),
      el("div", { class: "controls" }, this.temperature(), this.clear),
    );
    box.replaceChildren(el("h2", { id: "chat-title" }, "Talk to it"), this.log, this.trouble, form, this.look);
    box.addEventListener("keydown", (event) => event.key === "Escape" && this.stop?.abort());
  }

  temperature() {
    const set = (event) => (this.manner.temperature = Math.max(0, Math.min(2, Number(event.target.value) || 0)));
    const field = el("input", { type: "number", min: 0, max: 2, step: 0.1, value: this.manner.temperature, onchange: set });
    return el("label", { class: "choice" }, el("span", {}, "Temperature"), field);
  }

  key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.say();
  }

  forget() {
    this.stop?.abort();
    this.messages = [];
    this.look.hidden = this.trouble.hidden = true;
    this.turns.replaceChildren();
    this.words.focus();
  }

  async say() {
    const words = this.words.value.trim();
    if (!words || this.stop) return;
    const before = this.messages;
    this.messages = [...before, { role: "user", content: words }];
    this.words.value = "";
    const mine = this.bubble({ role: "user", content: words });
    const bubble = this.bubble({ role: "assistant", content: "" });
    this.busy(new AbortController());
    try {
      this.add(await this.answer(bubble), bubble);
    } catch (error) { // a turn that is refused is no part of the conversation, and can be typed again
      this.messages = before;
      for (const one of [mine, bubble]) one.closest("li").remove();
      this.words.value = words;
      this.trouble.textContent = error.message;
      this.trouble.hidden = false;
    } finally {
      this.busy(null);
    }
  }

  /** The answer as it comes; what was written when it is stopped stays, without its tokens. */
  async answer(bubble) {
    const { signal } = this.stop;
    let text = "";
    const onToken = (piece) => {
      bubble.textContent = text += piece.text;
      this.log.scrollTop = this.log.scrollHeight;
    };
    try {
      return await streamed("/api/chat", { messages: turnsOf(this.messages), ...this.manner }, onToken, signal);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
      return { text, tokens: [], finished: false };
    }
  }

  add(said, bubble) {
    if (!bubble.isConnected) return; // cleared meanwhile
    const asked = this.messages;
    this.messages = [...asked, { role: "assistant", content: said.text }];
    if (!said.tokens.length) bubble.textContent = said.text || "(nothing)";
    else bubble.replaceChildren(...said.tokens.map((_, i) => this.token(asked, said.tokens, i)));
    if (!said.finished) bubble.append(el("span", { class: "caption" }, " … it was stopped here"));
  }

  /** A token that can be chosen; one in a line can be reached by Tab, the others by arrow keys. */
  token(asked, tokens, i) {
    const onclick = (event) => {
      for (const one of this.log.querySelectorAll("[aria-pressed=true]")) one.setAttribute("aria-pressed", "false");
      event.target.setAttribute("aria-pressed", "true");
      this.show(asked, tokens, i);
    };
    const onkeydown = (event) => {
      const next = { ArrowRight: event.target.nextElementSibling, ArrowLeft: event.target.previousElementSibling }[event.key];
      if (!next?.matches("button")) return;
      event.preventDefault();
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    };
    const label = tokens[i].text || "a part of a character";
    return el("button", { type: "button", class: "token", "aria-pressed": "false", tabindex: i ? -1 : 0, onclick, onkeydown, "aria-label": `token ${label}` }, tokens[i].text || "·");
  }

  bubble({ role, content }) {
    const who = role === "user" ? "You" : "It";
    const words = el("div", { class: "bubble" }, content);
    this.turns.append(el("li", { class: role }, el("span", { class: "caption" }, who), words));
    this.log.scrollTop = this.log.scrollHeight;
    return words;
  }

  busy(stop) {
    this.stop = stop;
    this.send.hidden = Boolean(stop);
    this.halt.hidden = !stop;
    this.log.setAttribute("aria-busy", String(Boolean(stop)));
    if (stop) this.trouble.hidden = true;
    this.words.focus();
  }

  async show(asked, tokens, i) {
    this.look.hidden = false;
    try {
      const body = { messages: turnsOf(asked), max_tokens: this.manner.max_tokens, ids: tokens.map(({ id }) => id), token: i };
      showLook(this.look, await ask("/api/chat/look", body), {});
    } catch (error) {
      this.look.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.message));
    }
  }
}

function turnsOf(messages) {
  return messages.slice(-MOST_TURNS).map(({ role, content }) => ({ role, content }));
}

/**
 * Where a position looked: the conversation up to it, each token as dark as its weight.
 * @param {HTMLElement} box
 * @param {Object} look of /api/chat/look
 * @param {{name?: string, layer?: number, head?: number|null}} chosen
 */
function showLook(box, look, chosen) {
  const names = Object.keys(look.weights);
  const name = chosen.name ?? names[0];
  const layers = look.weights[name];
  const layer = chosen.layer ?? layers.length - 1;
  const head = chosen.head ?? null;
  const weights = head === null ? mean(layers[layer]) : layers[layer][head];
  const numbers = (n) => Array.from({ length: n }, (_, k) => [String(k), String(k)]);
  const set = (part) => showLook(box, look, { name, layer, head, ...part });
  const most = Math.max(...weights, 1e-9);
  const share = look.probability === null ? "" : ` (${probabilityText(look.probability)})`;
  fill(
    box,
    el("h3", {}, "When it wrote “", bare(look.token), `”${share}, it looked at`),
    el(
      "div",
      { class: "controls" },
      ...(names.length > 1 ? [choice("Attention", names.map((one) => [one, called(one)]), name, (one) => set({ name: one, layer: null, head: null }))] : []),
      choice("Layer", numbers(layers.length), String(layer), (one) => set({ layer: Number(one) })),
      choice("Head", [["", "mean of all"], ...numbers(layers[layer].length)], head === null ? "" : String(head), (one) => set({ head: one === "" ? null : Number(one) })),
    ),
    el("p", { class: "shaded" }, ...look.tokens.map((token, k) => shaded(token, weights[k], most, k >= look.n_read))),
    el("p", { class: "hint" }, `The darker a token, the more, up to ${most.toFixed(3)}; hover for the number. What it wrote itself is underlined.`),
    el("p", { class: "caption" }, "What it might have written there"),
    bars(look.choices, {}),
  );
}

function mean(heads) {
  return heads[0].map((_, k) => heads.reduce((sum, row) => sum + row[k], 0) / heads.length);
}

const DARKEST = 45; // per cent of ink behind a token: the words stay readable

function shaded(token, weight, most, own) {
  const made = el("span", { class: own ? "own" : null, "data-weight": weight, title: `${bare(token)}: ${weight.toFixed(3)}` }, bare(token));
  made.style.background = `color-mix(in srgb, var(--accent) ${Math.round((DARKEST * weight) / most)}%, transparent)`;
  return made;
}
