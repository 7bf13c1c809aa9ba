"""The steps that a page of a look carries with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import product
from typing import Any

from regard.inspection.steps import Steps
from regard.visual.payload import Payload, Selected, selected_view


def steps_shown(
    payload: Payload, steps: Callable[..., Steps], selected: Selected
) -> Iterator[dict[str, Any]]:
    """Of every token in every head of the layer that is shown first, head by head.

    They are made one at a time, and arrays stay arrays: a page takes only as many as it has room
    for. The head that is selected comes first.
    """
    if not payload["attentions"]:
        return
    shown = selected_view(payload, selected)
    heads = sorted(range(len(shown.weights)), key=lambda head: head != selected.head)
    for head, token in product(heads, range(len(shown.rows))):
        one = steps(token, name=shown.name, layer=shown.layer, head=head)
        yield {field.name: getattr(one, field.name) for field in fields(one)}
