"""The task of translating: its loss, its validation, and how a model is made to write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data.batches import Batch, Example, collate, fixed_batches
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodeSettings
from regard.evaluation.text_scores import bleu, exact_match
from regard.models.base import SequenceModel
from regard.runs.objective import TokenLoss
from regard.runs.tokenizers import Tokenizers
from regard.text.specials import PAD_ID
from regard.training.settings import TrainSettings

DECODE_TOKENS = 4096
"""Padded source tokens decoded at once."""
VALID_SENTENCES = 200
"""So many are translated at each validation: enough for a curve, and quick."""


class Validation:
    """An evaluator for the training loop: loss of the whole set, translations of a part of it."""

    def __init__(
        self,
        examples: Sequence[Example],
        references: Sequence[str],
        tokenizers: Tokenizers,
        settings: DecodeSettings,
        *,
        training: TrainSettings,
        device: torch.device,
    ) -> None:
        self.objective = TokenLoss(training)
        self.batches = fixed_batches(examples, training.batch_tokens)
        self.sources = [example.source for example in examples[:VALID_SENTENCES]]
        self.references = references[:VALID_SENTENCES]
        self.tokenizers = tokenizers
        self.settings = settings.model_copy(update={"beam": 1})
        self.device = device

    def __call__(self, model: SequenceModel) -> Mapping[str, float]:
        """``loss``, and ``bleu`` and ``exact_match`` of greedy search."""
        texts = self.write(model)
        return {
            "loss": self.loss(model),
            "bleu": bleu(texts, self.references).value,
            "exact_match": exact_match(texts, self.references),
        }

    def write(self, model: SequenceModel, *, at_most: int | None = None) -> list[str]:
        """The translations of a part of the set, perhaps cut after so many tokens."""
        limit = {} if at_most is None else {"max_len": at_most}
        settings = self.settings.model_copy(update=limit)
        found = decode(model, self.sources, settings, device=self.device)
        return [self.tokenizers.target.decode(best[0].ids) for best in found]

    @property
    def mean_length(self) -> int:
        """Tokens of a target, the end token included."""
        n_tokens = sum(batch.n_target_tokens for batch in self.batches)
        return round(n_tokens / sum(len(batch.numbers) for batch in self.batches))

    @torch.inference_mode()
    def loss(self, model: SequenceModel) -> float:
        """The loss a token, smoothed as in training.

        Without smoothing, a model that was told to doubt would look worse the better it learned it.
        """
        total = sum(self.objective(model, batch.to(self.device)).item() for batch in self.batches)
        return total / sum(batch.n_target_tokens for batch in self.batches)


def decode(
    model: SequenceModel,
    sources: Sequence[Sequence[int]],
    settings: DecodeSettings,
    *,
    device: torch.device,
    n_best: int = 1,
    batch_tokens: int = DECODE_TOKENS,
) -> list[list[Hypothesis]]:
    """The best hypotheses for each source, in the order of the sources.

    Sentences of like length share a batch; what shares it changes no result.
    """
    if not sources:
        return []
    results: dict[int, list[Hypothesis]] = {}
    examples = [Example(source, ()) for source in sources]
    for batch in _batches(examples, max(1, batch_tokens // settings.beam)):
        limits = length_limits(model, batch, settings.max_len)
        source = batch.source.to(device)
        if settings.beam == 1 and n_best == 1:
            found = greedy(
                model, source, limits=limits.to(device), length_penalty=settings.length_penalty
            )
            best = [[one] for one in found]
        else:
            best = beam_search(
                model,
                source,
                limits=limits.to(device),
                n_beams=settings.beam,
                n_best=n_best,
                length_penalty=settings.length_penalty,
            )
        results |= dict(zip(batch.numbers, best, strict=True))
    return [results[number] for number in range(len(sources))]


class TokenScores(NamedTuple):
    """How a model judges one given target, token by token, the end token included."""

    log_probs: Tensor
    """(T,)"""
    right: Tensor
    """(T,) boolean: would it have said the same?"""


@torch.inference_mode()
def token_scores(
    model: SequenceModel, examples: Sequence[Example], *, device: torch.device
) -> list[TokenScores]:
    """Teacher forced: each target given its source, in order."""
    results: dict[int, TokenScores] = {}
    for batch in _batches(examples, DECODE_TOKENS):
        logits = model(batch.source.to(device), batch.target_in.to(device)).float()
        wanted = batch.target_out.to(device)
        chosen = logits.log_softmax(dim=-1).gather(2, wanted.unsqueeze(2)).squeeze(2).cpu()
        right = (logits.argmax(dim=-1) == wanted).cpu()  # (B, T)
        for row, number in enumerate(batch.numbers):
            n_tokens = len(examples[number].target) + 1
            results[number] = TokenScores(chosen[row, :n_tokens], right[row, :n_tokens])
    return [results[number] for number in range(len(examples))]


def _batches(examples: Sequence[Example], batch_tokens: int) -> Iterable[Batch]:
    return fixed_batches(examples, batch_tokens) if len(examples) > 1 else map(collate, [examples])


def length_limits(model: SequenceModel, batch: Batch, max_len: int) -> Tensor:
    """How long each target may become: no translation is thrice as long as its source.

    Nor longer than the model could read again with a begin token before it, as looking inside does.
    """
    lengths = (batch.source != PAD_ID).sum(dim=1)
    longest = max_len if model.config.longest is None else model.config.longest - 1
    return (3 * lengths + 10).clamp(max=min(max_len, longest))
