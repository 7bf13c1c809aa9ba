"""The beam as a tree: what was tried, what was kept, what was pruned; as SVG and as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.visual.svg import Markup, element, picture, printable
from regard.visual.theme import FINISHED, INK, exact, number

Node = Mapping[str, Any]
Tree = Mapping[str, Any]

_SIGNS = {"open": "", "pruned": " ✕", "finished": " ■", "best": " ★"}
_STYLES: Mapping[str, Mapping[str, str | float | None]] = {
    "open": {"stroke": INK, "stroke_width": 1.2},
    "pruned": {"stroke": "currentColor", "stroke_opacity": "0.5", "stroke_dasharray": "3 3"},
    "finished": {"stroke": FINISHED, "stroke_width": 1.6},
    "best": {"stroke": FINISHED, "stroke_width": 3},
}
_LINE, _LETTER, _GAP = 28, 7.4, 34


def tree_text(tree: Tree) -> str:
    """A line a hypothesis, below the one it continues; ★ the best, ■ finished, ✕ pruned and why."""
    children = _grouped(tree, "parent")
    lines: list[str] = []
    open_ = [(node, "", "") for node in reversed(children[None])]
    while open_:  # a stack: long sentences make deep trees
        node, lead, below = open_.pop()
        why = f"  ({node['why']})" if node.get("why") else ""
        lines.append(f"{lead}{printable(_words(node))}{why}")
        last = len(children[node["id"]]) - 1
        branches = [
            (child, below + ("└ " if i == last else "├ "), below + ("  " if i == last else "│ "))
            for i, child in enumerate(children[node["id"]])
        ]
        open_.extend(reversed(branches))
    return "\n".join(lines) + "\n"


def tree_svg(tree: Tree) -> Markup:
    """A column a step, a box a hypothesis; point at one for its numbers and why it was pruned."""
    lines = _lines(tree)
    xs = _columns(tree["nodes"])
    height = 30 + _LINE * (max(lines.values(), default=0) + 1)
    nodes = tree["nodes"]
    places = {one["id"]: (xs[one["step"]], 40 + _LINE * lines[one["id"]]) for one in nodes}
    headings = [
        element("text", f"step {step}" if step else "start", x=x, y=14, fill_opacity="0.7")
        for step, x in enumerate(xs[:-1])
    ]
    boxes = (_box(node, *places[node["id"]]) for node in nodes)
    size, label = (xs[-1] + 10, height), f"beam of {tree['n_beams']}"
    return picture(*headings, *_edges(nodes, places), *boxes, size=size, label=label)


def tree_html(tree: Tree) -> str:
    """The picture in a box that scrolls, for notebooks."""
    style = "max-width:100%;max-height:46rem;overflow:auto"
    return element("div", tree_svg(tree), style=style)


def _edges(nodes: Sequence[Node], places: Mapping[int, tuple[float, float]]) -> Iterator[Markup]:
    by_id = {node["id"]: node for node in nodes}
    for node in nodes:
        if node["parent"] is not None:
            (x1, y1), (x2, y2) = places[node["parent"]], places[node["id"]]
            x1 += _width(by_id[node["parent"]])
            middle = (x1 + x2) / 2
            d = f"M{x1:.1f} {y1}C{middle:.1f} {y1} {middle:.1f} {y2} {x2:.1f} {y2}"
            yield element("path", d=d, fill="none", **_STYLES[node["state"]])


def _box(node: Node, x: float, y: float) -> Markup:
    state = node["state"]
    story = str(node["token"])
    if node["parent"] is not None:
        why = f" ({node['why']})" if node.get("why") else ""
        numbers = f"log-probability {exact(node['log_prob'])}, score {exact(node['score'])}"
        story += f": {numbers}, {state}{why}"
    size = {"width": _width(node), "height": 22, "rx": 5}
    ink = {"fill": "currentColor", "fill_opacity": "0.1" if state == "best" else "0.02"}
    faint = "0.6" if state == "pruned" else None
    box = element("rect", x=x, y=y - 11, **size, **ink, **_STYLES[state])
    words = element("text", _words(node), x=x + 8, y=y + 4.5, fill_opacity=faint)
    return element("g", element("title", story), box, words)


def _words(node: Node) -> str:
    if node["parent"] is None:
        return str(node["token"])
    return f"{node['token']} {number(node['score'], 'score')}{_SIGNS[node['state']]}"


def _width(node: Node) -> float:
    return 16 + _LETTER * len(_words(node))


def _columns(nodes: Sequence[Node]) -> list[float]:
    """Where each step begins, and where the last one ends."""
    xs = [10.0]
    for step in range(1 + max((node["step"] for node in nodes), default=0)):
        xs.append(xs[-1] + _GAP + max(_width(node) for node in nodes if node["step"] == step))
    return xs


def _grouped(tree: Tree, key: str) -> Mapping[Any, list[Node]]:
    """The nodes of each ``step`` or ``parent``, the best first."""
    groups: dict[Any, list[Node]] = defaultdict(list)
    for node in sorted(tree["nodes"], key=lambda node: -float(node.get("score", 0.0))):
        groups[node[key]].append(node)
    return groups


def _lines(tree: Tree) -> dict[int, int]:
    """In each step in the order of the scores, the pruned ones below."""
    ordered = (
        sorted(group, key=lambda node: node.get("state") == "pruned")
        for group in _grouped(tree, "step").values()
    )
    return {node["id"]: line for group in ordered for line, node in enumerate(group)}
