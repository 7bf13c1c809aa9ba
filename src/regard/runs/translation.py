"""The task of translating: its loss, its validation, and how a model is made to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.pair_batches import collate_pairs, ordered_batches
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.protocol import Generator
from regard.decoding.settings import DecodeSettings
from regard.evaluation.metrics import bleu, exact_match
from regard.fast.quick import quickened
from regard.models.base import SequenceModel
from regard.runs.objective import TokenLoss
from regard.runs.tokenizers import Tokenizers
from regard.text.specials import PAD_ID
from regard.training.settings import TrainSettings

DECODE_TOKENS = 16_384
"""At most so many padded source tokens are decoded at once."""
SCORE_TOKENS = 4096
"""So many are scored at once: all their logits are there together."""
CPU_TOKENS = 4096
"""A CPU is no faster with more of them."""
MOST_ROWS = {"cuda": 2048, "cpu": 256}
"""Hypotheses written at once: of very short sentences there would be too many for the memory."""
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
        self.batches = ordered_batches(examples, training.batch_tokens)
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
            "bleu": bleu(texts, self.references),
            "exact_match": exact_match(texts, self.references),
        }

    def write(self, model: SequenceModel, *, at_most: int | None = None) -> list[str]:
        """The translations of a part of the set, perhaps cut after so many tokens."""
        limit = {} if at_most is None else {"max_len": at_most}
        settings = self.settings.model_copy(update=limit)
        found = decode(model, self.sources, settings, device=self.device)
        return [self.tokenizers.target.decode(best[0].ids) for best in found]

    def rehearse(self, model: SequenceModel) -> None:
        """As much as a validation; a fresh model is made to write as much as the references are."""
        self.loss(model)
        self.write(model, at_most=self.mean_length)

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
        total = sum(
            self.objective(model, batch.to(self.device)).total.item() for batch in self.batches
        )
        return total / sum(batch.n_target_tokens for batch in self.batches)


class Engine(Protocol):
    """What writes targets: the model itself by ``decode``, or another program with its weights."""

    def __call__(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodeSettings,
        *,
        n_best: int,
        batch_tokens: int,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, in the order of the sources; none is empty."""
        ...


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
    writer = quickened(model, number_format(settings.precision, device), fast=settings.fast)
    for batch in _decode_batches(examples, batch_tokens, settings.beam, device):
        best = _searched(
            writer,
            batch.source.to(device),
            length_limits(model, batch, settings.max_len).to(device),
            settings,
            n_best,
        )
        results |= dict(zip(batch.numbers, best, strict=True))
    return [results[number] for number in range(len(sources))]


def _searched(
    model: Generator, source: Tensor, limits: Tensor, settings: DecodeSettings, n_best: int
) -> list[list[Hypothesis]]:
    if settings.beam == 1 and n_best == 1:
        found = greedy(model, source, limits=limits, length_penalty=settings.length_penalty)
        return [[one] for one in found]
    return beam_search(
        model,
        source,
        limits=limits,
        n_beams=settings.beam,
        n_best=n_best,
        length_penalty=settings.length_penalty,
    )


def number_format(precision: str, device: torch.device) -> torch.dtype | None:
    """What ``decode.precision`` means on a device; None: as the weights are."""
    has_it = device.type != "cuda" or torch.cuda.is_bf16_supported()
    if precision == "bf16" and not has_it:
        raise ConfigError("decode.precision=bf16, but this GPU has no bf16; use fp32")
    wanted = precision == "bf16" or (precision == "auto" and device.type == "cuda" and has_it)
    return torch.bfloat16 if wanted else None


def _decode_batches(
    examples: Sequence[Example], batch_tokens: int, n_beams: int, device: torch.device
) -> Iterator[Batch]:
    """Batches of at most so many tokens and hypotheses."""
    most = batch_tokens if device.type == "cuda" else min(batch_tokens, CPU_TOKENS)
    n_rows = max(1, MOST_ROWS.get(device.type, MOST_ROWS["cpu"]) // n_beams)
    for batch in _batches(examples, max(1, most // n_beams)):
        for begin in range(0, len(batch.numbers), n_rows):
            numbers = batch.numbers[begin : begin + n_rows]
            whole = len(numbers) == len(batch.numbers)
            yield batch if whole else collate_pairs([examples[i] for i in numbers], numbers)


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
    for batch in _batches(examples, SCORE_TOKENS):
        logits = model(batch.source.to(device), batch.target_in.to(device)).float()
        wanted = batch.target_out.to(device)
        chosen = logits.log_softmax(dim=-1).gather(2, wanted.unsqueeze(2)).squeeze(2).cpu()
        right = (logits.argmax(dim=-1) == wanted).cpu()  # (B, T)
        for row, number in enumerate(batch.numbers):
            n_tokens = len(examples[number].target) + 1
            results[number] = TokenScores(chosen[row, :n_tokens], right[row, :n_tokens])
    return [results[number] for number in range(len(examples))]


def _batches(examples: Sequence[Example], batch_tokens: int) -> Iterable[Batch]:
    return (
        ordered_batches(examples, batch_tokens)
        if len(examples) > 1
        else map(collate_pairs, [examples])
    )


def length_limits(model: SequenceModel, batch: Batch, max_len: int) -> Tensor:
    """``limits_for`` the sources of a batch."""
    return limits_for(model, (batch.source != PAD_ID).sum(dim=1), max_len)


def limits_for(model: SequenceModel, lengths: Tensor, max_len: int) -> Tensor:
    """How long each target may become: no translation is thrice as long as its source.

    Nor longer than the model could read again with a begin token before it, as looking inside does.
    Source lengths (B,), end token included -> target lengths (B,), end token included.
    """
    longest = max_len if model.config.longest is None else model.config.longest - 1
    return (3 * lengths + 10).clamp(max=min(max_len, longest))
