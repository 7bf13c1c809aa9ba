// The picture alone, as large as the screen and with larger text: for a lecture room.

const TYPED_INTO = "input, textarea, select, [contenteditable]";

/** Whether the browser can do it here; inside another page it may not be allowed to. */
export const hasFullScreen = () => Boolean(document.fullscreenEnabled);

/**
 * Let a button and the key F give the whole screen to a part of the page, and take it back, as Escape
 * does. Nothing is drawn anew but for its size.
 * @param {HTMLElement} stage
 * @param {HTMLButtonElement} button inside it
 * @param {HTMLElement} status inside it, for those who hear the page
 */
export function offerFullScreen(stage, button, status) {
  button.hidden = !hasFullScreen();
  if (button.hidden) return;
  const isFull = () => document.fullscreenElement === stage;
  /** @type {HTMLElement|null} */
  let before = null; // what had the focus, where that was outside
  const enter = async () => {
    const held = /** @type {HTMLElement} */ (document.activeElement);
    try {
      await stage.requestFullscreen();
      before = stage.contains(held) ? null : held;
      if (before) button.focus();
    } catch {
      status.textContent = "The browser does not allow full screen now.";
    }
  };
  const turn = () => (isFull() ? document.exitFullscreen() : enter());
  button.addEventListener("click", turn);
  stage.addEventListener("fullscreenchange", () => {
    const name = isFull() ? "Leave full screen" : "Full screen";
    button.setAttribute("aria-label", name);
    button.title = `${name} (F)`;
    status.textContent = isFull() ? "The picture fills the screen; F or Escape leaves." : "Full screen is left.";
    if (isFull()) return;
    before?.focus({ preventScroll: true });
    before = null;
  });
  addEventListener("keydown", (event) => wanted(event, stage, isFull()) && take(event, turn), true);
}

/** Whether a key turns it on or off: not what is typed, and not where there is no picture. */
function wanted({ key, target, ctrlKey, metaKey, altKey, repeat }, stage, isFull) {
  if (ctrlKey || metaKey || altKey || repeat) return false;
  if (key === "Escape") return isFull;
  return key?.toLowerCase() === "f" && !target.closest?.(TYPED_INTO) && stage.getClientRects().length > 0;
}

/** The key means nothing else: Escape also lets go of a chosen word. */
function take(event, turn) {
  event.preventDefault();
  event.stopImmediatePropagation();
  turn();
}
