"""Our other systems at the same training, and what limits each.

They do different work, so their speeds tell what a system costs, not how well it is written. To
give a measure, a translator of two plain GRUs without attention, of as many parameters as
``bahdanau2015``, stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch

from regard.bench.contest import Contender, Plan, Task, Work, compete
from regard.bench.limits import limit
from regard.bench.ours import our_training
from regard.bench.peers.plain_gru import plain_gru
from regard.bench.rows import OURS, Row
from regard.bench.shapes import Sentences, training_flops
from regard.bench.steps import padded_training
from regard.models.base import SequenceConfig
from regard.models.presets import build, n_parameters, resolve
from regard.models.settings import ModelSettings

MEASURE = "bahdanau2015"
SYSTEMS: Mapping[str, ModelSettings] = {
    "transformer, score additive": ModelSettings(score="additive"),
    "transformer, window local_p": ModelSettings(window="local_p"),
    "sutskever2014": ModelSettings(preset="sutskever2014"),
    "cs224n2019": ModelSettings(preset="cs224n2019"),
    MEASURE: ModelSettings(preset=MEASURE),
    "luong2015": ModelSettings(preset="luong2015"),
    "luong2015, window local_p": ModelSettings(preset="luong2015", window="local_p"),
    "graves2014": ModelSettings(preset="graves2014"),
    "cheng2016": ModelSettings(preset="cheng2016"),
}


def systems_rows(
    text: Sentences, plan: Plan, *, size: str, vocab: int, precision: str
) -> list[Row]:
    """One row a system."""
    limits: dict[str, str] = {}

    def start(name: str) -> Work:
        config = system(name, size, vocab)
        work = our_training(config, text, device=plan.device, precision=precision)
        work.run()
        limits[name] = limit(work.run, plan.device)
        return replace(work, flops=training_flops(config, text))

    def plain() -> Work:
        with torch.device("meta"):
            wanted = n_parameters(build(system(MEASURE, size, vocab)))
        model = plain_gru(vocab, wanted)
        return padded_training(model, text.batches, device=plan.device, precision=precision)

    contenders = [Contender(OURS, name, precision, partial(start, name)) for name in SYSTEMS]
    contenders.append(Contender("torch.nn.GRU", "no attention", precision, plain))
    task = Task(what="training, our other systems", unit="target tokens/s")
    rows = compete(task, contenders, plan)
    return [replace(row, limit=limits.get(row.how)) for row in rows]


def system(name: str, size: str, vocab: int) -> SequenceConfig:
    """A system of the table in a size."""
    settings = SYSTEMS[name].model_copy(update={"size": size})
    return resolve(settings, n_source_vocab=vocab, n_target_vocab=vocab, shared_vocab=True)
