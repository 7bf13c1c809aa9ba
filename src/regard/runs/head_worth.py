"""What a head is worth: how much loss and BLEU change when it brings nothing home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from regard.data.batches import Batch, fixed_batches
from regard.data.examples import encode_pairs
from regard.data.pairs import Pair
from regard.evaluation.text_scores import bleu
from regard.inspection.edits import Ablate, edited
from regard.runs.run import Run
from regard.runs.translation import DECODE_TOKENS
from regard.text.specials import PAD_ID
from regard.training.losses import token_loss

BLEU_SENTENCES = 100
"""So many are translated for each head: writing costs far more than judging."""

Place = tuple[str, int, int]
"""Name, layer, head."""


@dataclass(frozen=True, slots=True)
class Worth:
    """The model as it is, and how it changes without each head."""

    loss: float
    """Nats a token, the right tokens before it being given; no smoothing."""
    bleu: float
    """Of greedy search."""
    n_bleu: int
    changes: dict[Place, tuple[float, float]]
    """Of loss and BLEU."""


def worth(
    run: Run, pairs: Sequence[Pair], heads: Sequence[Place], tick: Callable[[int, int], None]
) -> Worth:
    """Ablate one head after the other; the model is left as it was."""
    examples = encode_pairs(pairs, run.tokenizers.source, run.tokenizers.target)
    batches = [batch.to(run.device) for batch in fixed_batches(examples, DECODE_TOKENS)]
    written = pairs[:BLEU_SENTENCES]
    loss, score = _loss(run, batches), _bleu(run, written)
    changes: dict[Place, tuple[float, float]] = {}
    for i, place in enumerate(heads):
        with edited(run.model, [Ablate(*place)]):
            changes[place] = (_loss(run, batches) - loss, _bleu(run, written) - score)
        tick(i + 1, len(heads))
    return Worth(loss, score, len(written), changes)


@torch.inference_mode()
def _loss(run: Run, batches: Sequence[Batch]) -> float:
    total = 0.0
    for batch in batches:
        logits = run.model(batch.source, batch.target_in)
        total += token_loss(logits, batch.target_out, pad=PAD_ID, label_smoothing=0.0).item()
    return total / sum(batch.n_target_tokens for batch in batches)


def _bleu(run: Run, pairs: Sequence[Pair]) -> float:
    translations = run.translate([pair.source for pair in pairs], beam=1)
    return bleu(translations, [pair.target for pair in pairs]).value
