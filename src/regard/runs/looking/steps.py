"""The steps that a page of a look carries with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import product
from typing import Any

from regard.core.counting import mentioned
from regard.inspection.records import Steps
from regard.visual.payload import Payload, Selected, selected_view
from regard.visual.steps_table import steps_html, steps_text
from regard.visual.tables import plain_text

WIDTH = 80
"""Letters of a line where a look or its steps are printed."""


class ShownSteps(Steps):
    """Steps that a notebook shows as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        where = f"{self.name}, layer {self.layer}, head {self.head}"
        most = int(self.weights.argmax())
        looks = f"{mentioned(self.columns[most])} ({self.weights[most]:.3f})"
        return f"<Steps of {mentioned(self.row)} in {where}: looks most at {looks}>"

    def __str__(self) -> str:
        return plain_text([steps_text(self.as_json(), width=WIDTH)], WIDTH)

    def _repr_html_(self) -> str:
        return steps_html(self.as_json())


def shown(steps: Steps) -> ShownSteps:
    """The same steps, to be shown."""
    return ShownSteps(**{one.name: getattr(steps, one.name) for one in fields(steps)})


def steps_shown(
    payload: Payload, steps: Callable[..., Steps], selected: Selected
) -> Iterator[dict[str, Any]]:
    """Of every token in every head of the layer that is shown first, head by head.

    They are made one at a time, and arrays stay arrays: a page takes only as many as it has room
    for. The head that is selected comes first.
    """
    if not payload["attentions"]:
        return
    view = selected_view(payload, selected)
    heads = sorted(range(len(view.weights)), key=lambda head: head != selected.head)
    for head, token in product(heads, range(len(view.rows))):
        one = steps(token, name=view.name, layer=view.layer, head=head)
        yield {field.name: getattr(one, field.name) for field in fields(one)}
