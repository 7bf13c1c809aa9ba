"""What there is to know about a run before it is asked anything: the object of ``/api/info``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from regard.checkpoints.run_folder import load_scores
from regard.core.errors import CheckpointError
from regard.runs.kinds.translator import Run
from regard.server.examples import examples
from regard.server.knowing import known_words
from regard.visual.head_table import COLUMNS

PRONOUNS = {"en": ("it", "they", "he", "she"), "fr": ("il", "elle", "ils", "elles")}
"""Words of the built-in world that stand for others."""
_LABEL = re.compile(r"(?P<name>\S+) layer (?P<layer>\d+) (?:head (?P<head>\d+)|mean)")


def about(run: Run, look_tokens: int) -> dict[str, Any]:
    """Plain data: what was trained, what it knows, and how its heads are measured."""
    shown = examples(run, look_tokens)
    return {
        **run.facts(),
        "knows": known_words(run.tokenizers.source, run.recipe.text.shared),
        "examples": shown,
        "attentions": _attentions(run, shown[0] if shown else "a"),
        "measures": [column._asdict() for column in COLUMNS],
        "antecedents": antecedents(run),
    }


def _attentions(run: Run, text: str) -> list[dict[str, Any]]:
    """Name, layers and heads of every attention, found by looking at a sentence."""
    return [
        {"name": name, "layers": len(layers), "heads": len(layers[0])}
        for name, layers in run.explain(text).attentions.items()
    ]


def antecedents(run: Run) -> dict[str, Any] | None:
    """The head that finds antecedents best, as the run's scores tell: chosen on ``valid``.

    ``share`` is how often it finds them on ``test``; ``head`` is None for the mean of a layer.
    """
    test = _test_scores(run)
    place = _LABEL.fullmatch(str(test.get("antecedent_accuracy_by")))
    pronouns = PRONOUNS.get(run.recipe.data.direction.split("-")[0])
    if place is None or pronouns is None or run.recipe.data.world != "sentences":
        return None
    return {
        "name": place["name"],
        "layer": int(place["layer"]),
        "head": None if place["head"] is None else int(place["head"]),
        "share": test.get("antecedent_accuracy"),
        "shuffled": test.get("antecedent_accuracy_shuffled"),
        "pronouns": pronouns,
    }


def _test_scores(run: Run) -> Mapping[str, Any]:
    """What the run scored on ``test``; nothing where it has not come to its end."""
    try:
        scores = load_scores(run.folder).get("scores", {})
    except CheckpointError:
        return {}
    test = scores.get("test", {}) if isinstance(scores, Mapping) else {}
    return test if isinstance(test, Mapping) else {}
