"""What there is to know about a run before it is asked anything: the object of ``/api/info``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from regard.checkpoints.run_folder import load_scores
from regard.core.errors import CheckpointError
from regard.inspection.capture import POOL, viewpoints
from regard.models.decoder import LanguageModel
from regard.models.encoder import Encoder
from regard.runs.kinds.encoder_run import EncoderRun
from regard.runs.kinds.translator import Run
from regard.server.examples import sentences, texts
from regard.server.service import Service
from regard.text.specials import SPECIALS
from regard.text.tokenizer import Tokenizer
from regard.visual.head_table import COLUMNS

PRONOUNS = {"en": ("it", "they", "he", "she"), "fr": ("il", "elle", "ils", "elles")}
"""Words of the built-in world that stand for others."""
_LABEL = re.compile(r"(?P<name>\S+) layer (?P<layer>\d+) (?:head (?P<head>\d+)|mean)")


def info(service: Service) -> dict[str, Any]:
    """Plain data: what was trained, what it knows, and how its heads are measured.

    ``examples`` are texts, or objects with a ``text``, and an ``other`` one where two go in.
    """
    run = service.run
    about = _of_translator if isinstance(run, Run) else _of_text_run
    return {
        **run.facts(),
        "name": service.name,
        "measures": [column._asdict() for column in COLUMNS],
        **about(service),
    }


def _of_translator(service: Service) -> dict[str, Any]:
    run = service.run
    shown = sentences(run, service.limits.look_tokens)
    return {
        "knows": vocabulary(run.tokenizers.source, run.recipe.text.shared),
        "examples": shown,
        "attentions": [
            {"name": name, "layers": len(layers), "heads": len(layers[0])}
            for name, layers in run.explain(shown[0] if shown else "a").attentions.items()
        ],
        "antecedents": antecedents(run),
    }


def _of_text_run(service: Service) -> dict[str, Any]:
    run = service.run
    return {
        "knows": vocabulary(run.tokenizer),
        "pairs": isinstance(run, EncoderRun) and bool(run.takes_pairs),
        "examples": texts(run),
        "attentions": _attentions(run.model),
    }


def _attentions(model: Encoder | LanguageModel) -> list[dict[str, Any]]:
    """Name, layers and heads of every attention; one that pools a text has one head."""
    shape = model.config
    names = dict.fromkeys(name for (name, _), _ in viewpoints(model))
    return [
        {"name": name, "layers": 1, "heads": 1}
        if name == POOL
        else {"name": name, "layers": shape.n_layers, "heads": shape.n_heads}
        for name in names
    ]


def vocabulary(tokenizer: Tokenizer, of_both: bool = False) -> str:
    """What a model can read, where that is a list of words; pieces and letters spell anything.

    ``of_both`` languages of a translator, where they share one list.
    """
    if tokenizer.kind != "word":
        return ""
    special = {*SPECIALS, *tokenizer.special_ids}
    words = [word for word in tokenizer.tokens(range(tokenizer.n_vocab)) if word not in special]
    both = " of both languages" if of_both else ""
    lower = ", in lower case" if all(word == word.lower() for word in words) else ""
    signs = any(not any(map(str.isalnum, word)) for word in words)
    return f"{len(words):,} words{both}{lower}{'' if signs else ', without punctuation'}"


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
