"""What there is to know about a run that reads one text: the object of ``/api/info``."""

from __future__ import annotations

from typing import Any

from regard.inspection.capture import POOL, viewpoints
from regard.models.decoder import LanguageModel
from regard.models.encoder import Encoder
from regard.runs.kinds.encoder_run import EncoderRun
from regard.server.knowing import known_words
from regard.server.text_service import TextService
from regard.server.texts.examples import examples
from regard.visual.head_table import COLUMNS


def about(service: TextService) -> dict[str, Any]:
    """Plain data: what was trained, what it knows, and how its heads are measured.

    ``examples`` are objects with a ``text``, and an ``other`` one where two go in.
    """
    run = service.run
    return {
        **run.facts(),
        "name": service.name,
        "knows": known_words(run.tokenizer),
        "pairs": isinstance(run, EncoderRun) and bool(run.takes_pairs),
        "examples": examples(run),
        "attentions": _attentions(run.model),
        "measures": [column._asdict() for column in COLUMNS],
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
