// The page of a run that is being trained: it asks again and again, and shows what is new.

import { byId } from "./elements.js";
import { TrainingView } from "./training.js";

const EVERY = 2000; // milliseconds between two questions
const view = new TrainingView(byId("training"));

async function ask() {
  if (document.hidden) return; // nobody looks
  try {
    tell(await view.refresh());
    byId("trouble").hidden = true;
  } catch (error) {
    byId("trouble").textContent = error.status ? error.message : "The training does not answer: it has ended, or was stopped. What came so far stays here; `regard serve RUN` shows it again.";
    byId("trouble").hidden = false;
  }
}

/** How far it is. When it is over, the run's page is at this address, and waits for who is at the film. */
function tell({ name, step, seconds, share, steps, over }) {
  if (over && !view.film.touched) return location.reload();
  document.title = `${name}: ${over ? "trained" : `step ${step}`}`;
  byId("about").textContent = `${over ? "Trained" : "Training"} ${name}`;
  const parts = [step ? `step ${step.toLocaleString("en")}, ${Math.round(seconds)} s` : "preparing: the first numbers come with the first steps"];
  if (share !== null && step) parts.push(share < 1 ? `${Math.round(100 * share)} % of what was asked for` : "now it is scored");
  if (!steps.length && step) parts.push("the film begins with the next validation");
  byId("progress").textContent = parts.join(" · ");
  byId("done").hidden = !over;
}

async function goOn() {
  await ask();
  setTimeout(goOn, EVERY);
}

document.addEventListener("visibilitychange", ask);
goOn();
