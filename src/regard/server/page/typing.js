// Ask while somebody is typing: after a pause, for the last of what was typed only.

const PAUSE = 350; // milliseconds without a key

/**
 * Act on what is typed into fields, once there is a pause. Input that is still being composed, as of
 * Japanese, is waited for.
 * @param {HTMLElement[]} fields
 * @param {() => void} act
 * @returns {() => void} forget what was typed: somebody has asked by hand
 */
export function whileTyping(fields, act) {
  let timer = 0;
  for (const field of fields) {
    field.addEventListener("input", (event) => {
      clearTimeout(timer);
      if (!event.isComposing) timer = setTimeout(act, PAUSE);
    });
    field.addEventListener("compositionend", () => {
      clearTimeout(timer);
      timer = setTimeout(act, PAUSE);
    });
  }
  return () => clearTimeout(timer);
}
