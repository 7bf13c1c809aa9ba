"""What axe finds wrong on a page, with the two rules that it leaves half open decided.

Contrast is decided by pixels where axe cannot tell what lies behind a text, as in drawings; the
size of targets, which axe does not look at by itself, is looked at.
"""

import io

import numpy as np
from axe_playwright_python.base import AXE_FILE_PATH
from PIL import Image

AXE = AXE_FILE_PATH.read_text()
REPORTED = {
    "resultTypes": ["violations", "incomplete"],
    "preload": False,
}  # there is nothing to load
ALL = {**REPORTED, "rules": {"target-size": {"enabled": True}}}
BY_LOOKS = {**REPORTED, "runOnly": ["color-contrast", "target-size", "scrollable-region-focusable"]}
"""What colours and widths can change; names, roles and order are the same in all of them."""
TARGET = 24  # px, WCAG 2.2, 2.5.8; axe lets smaller ones pass that stand far apart
LEAST, LEAST_LARGE = 4.5, 3.0  # WCAG 2.2, 1.4.3
LARGE = 24  # px; of bold text 18.66
# Of each text that is in sight: where it stands, its colour as it is painted, its size.
PLACES = """selectors => selectors.map(selector => {
  const one = document.querySelector(selector);
  if (!one?.checkVisibility()) return null;
  const style = getComputedStyle(one), range = document.createRange();
  range.selectNodeContents(one);
  const box = (one instanceof SVGElement ? one : range).getBoundingClientRect();
  const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
  let opacity = 1;
  for (let up = one; up; up = up.parentElement) {
    const {opacity: share, overflow} = getComputedStyle(up), edge = up.getBoundingClientRect();
    opacity *= +share;
    const seen = x > edge.left && x < edge.right && y > edge.top && y < edge.bottom;
    if (overflow !== "visible" && up !== document.documentElement && !seen) return null;
  }
  return {
    box: [box.left + scrollX, box.top + scrollY, box.right + scrollX, box.bottom + scrollY],
    colour: one instanceof SVGElement ? style.fill : style.color,
    opacity: opacity * (one instanceof SVGElement ? +style.fillOpacity : 1),
    size: parseFloat(style.fontSize), bold: +style.fontWeight >= 700, text: one.textContent.trim(),
  };
})"""


def faults(page, options=ALL):
    """What is wrong in this state of the page: (rule, where or what) each."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found = page.evaluate("options => axe.run(document, options)", options)
    wrong = [
        (one["id"], node["target"], node["html"][:200])
        for one in found["violations"]
        for node in one["nodes"]
    ]
    return wrong + small(page) + faint(page, undecided(found["incomplete"]))


def small(page):
    """Buttons, lists, fields and summaries that are hard to hit; a tick's label belongs to it."""
    return page.evaluate(
        """least => [...document.querySelectorAll("button, select, summary, input")]
             .filter(one => one.checkVisibility({visibilityProperty: true}))
             .map(one => [one, (one.closest("label.tick") ?? one).getBoundingClientRect()])
             .filter(([, {width, height}]) => Math.min(width, height) < least - 0.01)
             .map(([one, {width, height}]) => ["target", one.outerHTML.slice(0, 90), width, height])
        """,
        TARGET,
    )


def undecided(incomplete):
    """Selectors of texts whose contrast axe leaves open."""
    return [
        node["target"][0]
        for one in incomplete
        if one["id"] == "color-contrast"
        for node in one["nodes"]
    ]


def faint(page, selectors):
    """Those texts that stand out too little from what is painted behind them."""
    if not selectors:
        return []
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")  # what sticks would lie over texts
    places = page.evaluate(PLACES, selectors)
    shot = Image.open(io.BytesIO(page.screenshot(full_page=True, animations="disabled")))
    pixels = np.asarray(shot.convert("RGB"))
    wrong = []
    for place in places:
        if place is None or not place["text"] or opacity(place) == 0:  # nothing to be read
            continue
        behind = background(pixels, place["box"])
        if behind is None:
            continue
        ratio = contrast(painted(place, behind), behind)
        large = place["size"] >= (LARGE / 1.286 if place["bold"] else LARGE)
        if ratio < (LEAST_LARGE if large else LEAST):
            wrong.append(("contrast", f"{ratio:.2f}", place["colour"], behind, place["text"][:40]))
    return wrong


def background(pixels, box):
    """The colour that most of a box has."""
    left, top, right, bottom = (max(0, round(one)) for one in box)
    inside = pixels[top:bottom, left:right].reshape(-1, 3)
    if not len(inside):
        return None
    colours, counts = np.unique(inside, axis=0, return_counts=True)
    return colours[counts.argmax()].tolist()


def rgba(place):
    """The numbers of a text's colour, three or four."""
    inside = place["colour"][place["colour"].index("(") + 1 : -1]
    return [float(one) for one in inside.replace(",", " ").split()]


def opacity(place):
    """How much of a text is painted: its own share and that of all it stands in."""
    return place["opacity"] * dict(enumerate(rgba(place))).get(3, 1.0)


def painted(place, behind):
    """The colour of a text over what is behind it."""
    alpha = opacity(place)
    return [alpha * a + (1 - alpha) * b for a, b in zip(rgba(place)[:3], behind, strict=True)]


def contrast(first, second):
    """WCAG's ratio of two colours, 1 to 21."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [one / 255 for one in colour]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
