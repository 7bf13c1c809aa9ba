"""Answers to questions as plain data: what ``--json`` prints and the server sends."""

from __future__ import annotations

from regard.runs.finding import Answer


def told(one: Answer) -> dict[str, object]:
    """The words, where they stand in the text, and how sure the model is of them."""
    return {
        "answer": one.text,
        "start": one.start,
        "end": one.end,
        "probability": one.probability,
    }
