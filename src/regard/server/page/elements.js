// Building the page's elements. Text becomes text nodes, so markup in a sentence stays harmless.

/**
 * Make an element. Keys that begin with "on" are listeners; true and false set or leave out an
 * attribute; strings among the children become text nodes.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...(Node|string)} children
 * @returns {HTMLElement}
 */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, String(value));
  }
  made.append(...children);
  return made;
}

/**
 * A part of the page that holds a picture, with other things below it. A picture that was there
 * before stays until the next is drawn, which then keeps its focus and its place.
 * @param {HTMLElement} box
 * @param {...Node} below
 * @returns {HTMLElement}
 */
export function canvasIn(box, ...below) {
  let canvas = box.querySelector(":scope > .canvas.kept");
  for (const other of [...box.children]) if (other !== canvas) other.remove();
  if (!canvas) box.append((canvas = el("div", { class: "canvas kept" })));
  box.append(...below);
  return canvas;
}

/**
 * How the page scrolls by itself: at once where the reader wants no motion.
 * @returns {"auto"|"smooth"}
 */
export function scrollBehaviour() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
}

/**
 * The element of the page with this id.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * A labelled drop-down list.
 * @param {string} label
 * @param {[string, string][]} options value and text of each
 * @param {string} chosen
 * @param {(value: string) => void} onChange
 * @returns {HTMLElement}
 */
export function choice(label, options, chosen, onChange) {
  const list = el(
    "select",
    { onchange: (event) => onChange(event.target.value), "data-control": label },
    ...options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
  );
  return el("label", { class: "choice" }, el("span", {}, label), list);
}

/**
 * A labelled tick box.
 * @param {string} label
 * @param {boolean} on
 * @param {(on: boolean) => void} onChange
 * @returns {HTMLElement}
 */
export function tick(label, on, onChange) {
  const box = el("input", {
    type: "checkbox",
    checked: on,
    "data-control": label,
    onchange: (event) => onChange(event.target.checked),
  });
  return el("label", { class: "tick" }, box, el("span", {}, label));
}

/**
 * Put new children into a part of the page, and give the focus back to the control that had it:
 * whoever works with the keyboard must not be thrown out by a redrawing.
 * @param {HTMLElement} box
 * @param {...(Node|string)} children
 */
export function fill(box, ...children) {
  const held = box.contains(document.activeElement) && document.activeElement;
  const key = held && held.dataset.control;
  box.replaceChildren(...children);
  if (!key) return;
  for (const one of box.querySelectorAll("[data-control]")) {
    if (one.dataset.control === key) return one.focus();
  }
}
