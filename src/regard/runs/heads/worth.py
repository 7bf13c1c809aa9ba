"""What a head is worth: how much the scores of a model change when it brings nothing home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from regard.data.batch import Batch
from regard.data.examples import encode_pairs
from regard.data.pair_batches import ordered_batches
from regard.data.pairs import Pair
from regard.evaluation.metrics import bleu
from regard.inspection.edits import Ablate, edited
from regard.runs.kinds.translator import Run
from regard.runs.translation import DECODE_TOKENS
from regard.text.specials import PAD_ID
from regard.training.losses import cross_entropy

BLEU_SENTENCES = 100
"""So many are translated for each head: writing costs far more than judging."""

Place = tuple[str, int, int]
"""Name, layer, head."""
Scoring = Callable[[], dict[str, float]]
"""The scores of the model as it is when asked, by name."""
Tick = Callable[[int, int], None]
"""Told after each ablated head: how many are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Worth:
    """The model as it is, and how it changes without each head."""

    scores: dict[str, float]
    changes: dict[Place, dict[str, float]]
    """Of the same scores."""


def worth(model: nn.Module, heads: Sequence[Place], judge: Scoring, tick: Tick) -> Worth:
    """Ablate one head after the other; the model is left as it was."""
    whole = judge()
    changes: dict[Place, dict[str, float]] = {}
    for i, place in enumerate(heads):
        with edited(model, [Ablate(*place)]):
            found = judge()
        changes[place] = {name: found[name] - score for name, score in whole.items()}
        tick(i + 1, len(heads))
    return Worth(whole, changes)


def pair_judge(run: Run, pairs: Sequence[Pair]) -> Scoring:
    """Of a translator: ``loss`` and ``bleu``.

    The loss is nats a token, the right tokens before it being given, without smoothing. BLEU is
    that of greedy search for the first pairs.
    """
    examples = encode_pairs(pairs, run.tokenizers.source, run.tokenizers.target)
    batches = [batch.to(run.device) for batch in ordered_batches(examples, DECODE_TOKENS)]
    written = pairs[:BLEU_SENTENCES]
    return lambda: {"loss": _loss(run, batches), "bleu": _bleu(run, written)}


@torch.inference_mode()
def _loss(run: Run, batches: Sequence[Batch]) -> float:
    total = 0.0
    for batch in batches:
        logits = run.model(batch.source, batch.target_in)
        total += cross_entropy(logits, batch.target_out, pad=PAD_ID, label_smoothing=0.0).item()
    return total / sum(batch.n_target_tokens for batch in batches)


def _bleu(run: Run, pairs: Sequence[Pair]) -> float:
    translations = run.translate([pair.source for pair in pairs], beam=1)
    return bleu(translations, [pair.target for pair in pairs])
