"""The work of training: a model's shape, sentences that nobody can have prepared for, updates.

An update is written once as every reader would write it, for all peers; ours is the very one that
``regard train`` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.bench.contest import Work
from regard.core.settings import parse
from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.pair_batches import packed_stream, padded_stream
from regard.models.presets import ModelSettings, build, n_parameters, resolve
from regard.models.settings import SequenceConfig, TransformerConfig
from regard.tasks.base import SHORT
from regard.tasks.translation import TokenLoss
from regard.text.specials import PAD_ID, SPECIALS
from regard.training.flops import BACKWARD, flop_formula
from regard.training.losses import Objective, cross_entropy
from regard.training.settings import TrainSettings
from regard.training.update import CapturedUpdate, Update, autocast

MEAN_LENGTH, SPREAD, LONGEST = 24.0, 0.5, 120
"""Log-normal lengths, as those of sentences are: their mean, the deviation of the logarithm."""
CORPUS, POOL = 30_000, 20
"""Sentences that batches are cut from, at least, and at least so many times those that are used:
as in a real corpus, each finds others of its length."""

LR, LABEL_SMOOTHING, CLIP = 1e-4, 0.1, 1.0


def shape(size: str, vocab: int, *, max_len: int = 512) -> TransformerConfig:
    """The Transformer that every contender has to be."""
    settings = parse(ModelSettings, {"size": size, "max_len": max_len}, "model")
    config = resolve(settings, n_source_vocab=vocab, n_target_vocab=vocab, shared_vocab=True)
    assert isinstance(config, TransformerConfig)
    return config


@dataclass(frozen=True, slots=True)
class Sentences:
    """What every contender learns from in one round."""

    batches: list[Batch]
    """The sentences in padded batches of like length, as peers get them."""
    examples: list[Example]
    """The same sentences, for who batches them another way."""
    batch_tokens: int
    """Of a batch, on its longer side."""

    @property
    def n_target_tokens(self) -> int:
        """End tokens counted, padding not."""
        return sum(batch.count for batch in self.batches)

    @property
    def padding(self) -> float:
        """Share of target positions that are padding in the padded batches."""
        return 1 - self.n_target_tokens / sum(b.target_out.numel() for b in self.batches)


def sentences(
    vocab: int, *, batch_tokens: int, n_batches: int, length: int | None = None, seed: int = 0
) -> Sentences:
    """``n_batches`` of the batches into which a larger corpus is cut, from short to long.

    With ``length`` all sentences have that many tokens, the end token included.
    """
    mean = (length or MEAN_LENGTH) + 1
    n = max(n_batches, round(n_batches * batch_tokens / mean))
    n_corpus = max(CORPUS, POOL * n) if length is None else 2 * n
    corpus = random_examples(n_corpus, vocab, length=length, seed=seed)
    stream = padded_stream(corpus, batch_tokens=batch_tokens, seed=seed)
    cut = [stream.next() for _ in range(stream.n_batches)]
    fullest = max(batch.count for batch in cut)
    whole = [batch for batch in cut if batch.count > fullest / 2]
    whole.sort(key=lambda batch: batch.target.shape[1])
    middles = [(2 * i + 1) * len(whole) // (2 * n_batches) for i in range(n_batches)]
    chosen = [whole[i] for i in middles]
    examples = [corpus[i] for batch in chosen for i in batch.numbers]
    return Sentences(chosen, examples, batch_tokens)


def random_examples(
    n: int, vocab: int, *, length: int | None = None, seed: int = 0
) -> list[Example]:
    """Random ids; a target is about as long as its source. ``length`` makes all of that length."""
    rng = np.random.default_rng(seed)
    if length is not None:
        lengths = np.full((n, 2), max(1, length - 1))
    else:
        source = rng.normal(np.log(MEAN_LENGTH) - SPREAD**2 / 2, SPREAD, n)
        target = source + rng.normal(0.0, 0.15, n)
        lengths = np.exp(np.stack((source, target), axis=1)).round().clip(3, LONGEST).astype(int)
    ends = np.cumsum(lengths)
    ids = np.split(rng.integers(len(SPECIALS), vocab, ends[-1]), ends[:-1])
    return [
        Example(one.tolist(), two.tolist()) for one, two in zip(ids[::2], ids[1::2], strict=True)
    ]


def training_flops(config: SequenceConfig, text: Sentences) -> float:
    """Useful FLOPs of training for one target token: of the sentences alone, padding not counted.

    The formula is our model's; peers of the same shape are charged the same.
    """
    formula = flop_formula(build(config))
    pairs = [(len(one.source) + 1, len(one.target) + 1) for one in text.examples]
    return BACKWARD * sum(formula.forward(*pair) for pair in pairs) / text.n_target_tokens


def padded_training(
    model: nn.Module,
    batches: Sequence[Batch],
    *,
    device: torch.device,
    precision: str,
    compiled: bool = False,
) -> Work:
    """Train a translator on each of the padded batches once; the unit is a target token."""

    def loss(forward: Callable[..., Tensor], batch: Batch) -> Tensor:
        logits = forward(batch.source, batch.target_in)
        total = cross_entropy(logits, batch.target_out, pad=PAD_ID, label_smoothing=LABEL_SMOOTHING)
        return total / batch.count

    run = plain_updates(
        model, batches, loss, device=device, precision=precision, compiled=compiled, dynamic=True
    )
    return Work(run, learned(model))


def plain_updates(
    model: nn.Module,
    batches: Sequence[Batch],
    loss: Callable[[Callable[..., Tensor], Batch], Tensor],
    *,
    device: torch.device,
    precision: str,
    compiled: bool,
    dynamic: bool,
) -> Callable[[], float]:
    """One update a batch, as every reader would write it; gives the target tokens of all."""
    model = model.to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=LR, betas=(0.9, 0.98), eps=1e-9, fused=True)
    forward: Callable[..., Tensor] = model
    if compiled:
        forward = torch.compile(model, dynamic=dynamic)
    here = [batch.to(device) for batch in batches]
    n_tokens = sum(batch.count for batch in here)

    def run() -> float:
        for batch in here:
            with autocast(device, precision):
                mean = loss(forward, batch)
            mean.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return n_tokens

    return run


def our_updates(
    model: nn.Module,
    objective: Objective,
    batches: Sequence[Batch],
    settings: TrainSettings,
    device: torch.device,
    *,
    captured: bool,
) -> Callable[[], float]:
    """One update a batch, as ``regard train`` makes it; gives the target tokens of all."""
    make = CapturedUpdate if captured else Update
    update = make(model.to(device).train(), objective, settings, device)
    here = [batch.to(device) for batch in batches]
    n_tokens = sum(batch.count for batch in here)

    def run() -> float:
        for batch in here:
            update([batch], LR)
        return n_tokens

    return run


def learned(model: nn.Module) -> int:
    """Parameters that are learned; tables of positions that are kept as such are not."""
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    return n_parameters(model) - frozen


def packs(config: SequenceConfig, device: torch.device) -> bool:
    """Whether a training there packs its batches, compiles its kernels and records its updates."""
    return device.type == "cuda" and config.packs


def our_training(
    config: SequenceConfig, text: Sentences, *, device: torch.device, precision: str
) -> Work:
    """Train on the sentences once, in batches of our own making."""
    torch.manual_seed(0)
    model, fast = build(config), packs(config, device)
    settings = TrainSettings.model_validate(
        {
            "max_steps": SHORT,
            "precision": precision,
            "label_smoothing": LABEL_SMOOTHING,
            "clip": CLIP,
        }
    )
    batches = _packed(text) if fast else text.batches
    n_tokens = sum(batch.count for batch in batches)
    assert n_tokens == text.n_target_tokens, "everybody learns from the same sentences"
    objective = TokenLoss(settings, compiled=fast)
    run = our_updates(model, objective, batches, settings, device, captured=fast)
    return Work(run, n_parameters(model))


def _packed(text: Sentences) -> list[Batch]:
    """All sentences once, end to end."""
    stream = packed_stream(text.examples, batch_tokens=text.batch_tokens, seed=0)
    return [stream.next() for _ in range(stream.n_batches)]
