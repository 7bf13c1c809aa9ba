// The player of lessons: it sets the page, asks for a prediction, and says what really came. Its
// card stays in view; only the beginning of a lesson moves the page, to the picture it speaks of.

import { byId, el, fill, scrollBehaviour } from "./elements.js";
import { LESSONS } from "./lessons.js";

/** @typedef {import("./lessons.js").Facts} Facts */

/** @type {{id: string, at: number, chosen: number|null, said: string, verdict: string, ready: boolean}|null} */
let going = null;
/** @type {import("./lessons.js").Lesson[]} */
let offered = []; // those that this run can give

/**
 * The lessons that this run can give, as buttons.
 * @param {any} box a details element
 * @param {Object} info
 * @param {Object} form
 * @param {(id: string) => void} begin
 */
export function offerLessons(box, info, form, begin) {
  offered = LESSONS.filter(({ needs }) => needs(info, form));
  box.hidden = offered.length === 0;
  const buttons = offered.map(({ id, title }) => el("button", { type: "button", "data-control": `lesson ${id}`, onclick: () => ((box.open = false), begin(id)) }, title)); // the picture needs the room
  fill(box, el("summary", {}, "Start here: lessons", el("span", {}, " of 90 seconds")), el("div", { class: "lessons", role: "group", "aria-label": "Lessons" }, ...buttons));
}

/**
 * Begin a lesson, or go to one of its steps.
 * @param {HTMLElement} box where it is played
 * @param {string} id
 * @param {number} at
 * @param {() => Facts} facts what the page shows now
 * @param {(part: Object) => Promise<void>} change
 */
export async function playLesson(box, id, at, facts, change) {
  const step = stepOf(id, at);
  const guessed = going?.id === id ? going.chosen : null;
  const mine = { id, at, chosen: null, said: "…", verdict: "", ready: false };
  going = mine;
  draw(box, facts, change);
  box.hidden = false;
  try {
    if (step.set) await change(await step.set(facts()));
    const now = facts();
    const [said, verdict] = [await step.say(now), await verdictOf(id, at, guessed, now)];
    if (going === mine) Object.assign(mine, { said, verdict, ready: true });
  } catch (error) {
    if (going === mine) Object.assign(mine, { said: `This step cannot be shown: ${error.message}`, ready: true });
  }
  if (going !== mine) return;
  draw(box, facts, change, true);
  if (at === 0) byId("view").scrollIntoView({ block: "nearest", behavior: scrollBehaviour() });
}

async function verdictOf(id, at, guessed, facts) {
  const [step, asked] = [stepOf(id, at), at > 0 ? stepOf(id, at - 1) : null];
  if (!step.answer || !asked?.choices) return "";
  const right = asked.choices[await step.answer(facts)];
  if (guessed === null) return `The answer: ${right}.`;
  const said = asked.choices[guessed];
  return said === right ? `You said “${said}”, and so it is.` : `You said “${said}”. It is “${right}”.`;
}

function stepOf(id, at) {
  return LESSONS.find((one) => one.id === id).steps[at];
}

function draw(box, facts, change, focus = false) {
  const { id, at, chosen, said, verdict, ready } = going;
  const { title, steps } = LESSONS.find((one) => one.id === id);
  const step = steps[at];
  const to = (next) => playLesson(box, id, next, facts, change);
  const choose = (i) => {
    going.chosen = i;
    draw(box, facts, change);
    to(at + 1);
  };
  const choices = (step.choices ?? []).map((text, i) => el("button", { type: "button", "aria-pressed": String(i === chosen), disabled: !ready, "data-control": `choice ${i}`, onclick: () => choose(i) }, text));
  const isLast = at + 1 === steps.length;
  const next = isLast ? offered[offered.findIndex((one) => one.id === id) + 1] : null;
  const heading = el("h2", { id: "lesson-title", tabindex: -1 }, title);
  fill(
    box,
    heading,
    el("p", { class: "caption" }, `Step ${at + 1} of ${steps.length}; the whole takes about 90 seconds.`),
    verdict ? el("p", { class: "verdict" }, verdict) : "",
    el("p", {}, said),
    choices.length ? el("div", { class: "choices", role: "group", "aria-label": "Your prediction" }, ...choices) : "",
    el(
      "div",
      { class: "steering" },
      isLast ? "" : el("button", { type: "button", disabled: !ready, "data-control": "lesson next", onclick: () => to(at + 1) }, step.choices ? "Skip the question" : "Next"),
      next ? el("button", { type: "button", class: "main", disabled: !ready, "data-control": "next lesson", onclick: () => playLesson(box, next.id, 0, facts, change) }, `Next lesson: ${next.title}`) : "",
      el("button", { type: "button", class: isLast && !next ? "main" : "quiet", "data-control": "lesson end", onclick: () => end(box) }, isLast ? "Done" : "Leave the lesson"),
    ),
  );
  box.scrollTop = 0; // the reply comes first
  if (focus) heading.focus({ preventScroll: true });
}

function end(box) {
  going = null;
  box.hidden = true;
  fill(box);
  /** @type {any} */ (document.querySelector("#lessons summary"))?.focus();
}
