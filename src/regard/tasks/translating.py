"""Targets for sources: searched for in batches, streamed, judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.pair_batches import collate_pairs, ordered_batches
from regard.decoding.beam import Attention, beam_search
from regard.decoding.ensemble import members_of
from regard.decoding.greedy import Dropped, Ended, token_steps
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.protocol import Generator
from regard.decoding.sampling import Sampler, noise_for, sample, seeded
from regard.decoding.settings import DecodeSettings
from regard.fast.quick import quickened
from regard.inspection.capture import CROSS, AttentionCalls, Place, viewpoints, watch
from regard.models.base import SequenceModel
from regard.models.settings import ModelConfig
from regard.text.specials import END_ID, PAD_ID
from regard.training.distributed import divided
from regard.training.losses import token_log_probs

DECODE_TOKENS = 65_536
"""At most so many padded source tokens are decoded at once: several of long documents."""
SCORE_TOKENS = 4096
"""So many are scored at once: all their logits are there together."""
CPU_TOKENS = 4096
"""A CPU is no faster with more of them."""
MOST_ROWS = {"cuda": 2048, "cpu": 256}
"""Hypotheses written at once: of very short sentences there would be too many for the memory."""


class Engine(Protocol):
    """What writes targets: the model itself by ``decode``, or another program with its weights."""

    def __call__(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodeSettings,
        *,
        n_best: int,
        batch_tokens: int,
        prefixes: Sequence[Sequence[int]],
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, in the order of the sources; none is empty.

        Each begins with the ids of its source's prefix, where there are prefixes.
        """
        ...


def decode(
    model: SequenceModel,
    sources: Sequence[Sequence[int]],
    settings: DecodeSettings,
    *,
    device: torch.device,
    n_best: int = 1,
    batch_tokens: int = DECODE_TOKENS,
    prefixes: Sequence[Sequence[int]] = (),
    ended: Ended | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses for each source, or ``n_best`` samples, in the order of the sources.

    Sentences of like length share a batch; what shares it changes no result. Each target begins
    with the ids of its source's prefix, where there are ``prefixes``. ``ended`` gets the number of
    a source and what was written so far, and may end it there.
    """
    if not sources:
        return []
    each = n_best if settings.samples else settings.beam
    batches = (
        SourceBatch(
            batch.source.to(device),
            length_limits(model, batch.source, settings.max_len).to(device),
            batch.numbers,
        )
        for batch in decode_batches(sources, each, device, batch_tokens)
    )
    how: dict[str, Any] = {"n_best": n_best, "prefixes": prefixes, "ended": ended}
    return searched(model, batches, len(sources), settings, device=device, **how)


def search_settings(
    settings: DecodeSettings, *, beam: int | None, n_best: int, **sampling: Any
) -> DecodeSettings:
    """The settings of a search for ``n_best`` targets; a beam that is not given is as wide."""
    if (beam is not None and beam < 1) or n_best < 1:
        raise ConfigError(f"beam={beam} and n_best={n_best} must be at least 1")
    settings = settings.chosen(beam=beam, **sampling)
    if beam is None and not settings.samples:
        settings = settings.chosen(beam=max(settings.beam, n_best))
    return settings


class SourceBatch(NamedTuple):
    """Some sources, whatever they are, as a model reads them."""

    source: Tensor
    """(B, …)"""
    limits: Tensor
    """(B,): how long each target may become, end token included."""
    numbers: Sequence[int]
    """Which sources these are."""


def searched(
    model: SequenceModel,
    batches: Iterable[SourceBatch],
    n: int,
    settings: DecodeSettings,
    *,
    device: torch.device,
    n_best: int = 1,
    prefixes: Sequence[Sequence[int]] = (),
    ended: Ended | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses for each of ``n`` sources, or ``n_best`` samples; see ``decode``."""
    settings.check_vocabulary(model.config.n_target_vocab)
    results: dict[int, list[Hypothesis]] = {}
    lengths = [settings.max_len] * (n * n_best if settings.samples else 0)
    noise = noise_for(lengths, seeded(settings.seed)).view(-1, n_best, settings.max_len)
    with _looked_at(model, settings) as attention:
        writer = quickened(model, number_format(settings.precision, device), fast=settings.fast)

        def search(batch: SourceBatch) -> dict[int, list[Hypothesis]]:
            source, limits, numbers = batch
            over = _ended_by(ended, numbers, n_best if settings.samples else 1)
            begun = [prefixes[number] for number in numbers] if prefixes else []
            if settings.samples:
                drawn = noise[list(numbers)].flatten(0, 1).to(device)
                best = _sampled(writer, source, limits, settings, n_best, drawn, begun, over)
            else:
                best = beam_search(
                    writer, source, limits=limits, n_beams=settings.beam, n_best=n_best,
                    length_penalty=settings.length_penalty, stop=settings.stop, ended=over,
                    coverage_penalty=settings.coverage_penalty, attention=attention,
                    prefixes=begun,
                )  # fmt: skip
            return dict(zip(numbers, best, strict=True))

        for found in divided(batches, search):
            results |= found
    return [results[number] for number in range(n)]


def _sampled(
    model: Generator,
    source: Tensor,
    limits: Tensor,
    settings: DecodeSettings,
    n: int,
    noise: Tensor,
    prefixes: Sequence[Sequence[int]],
    ended: Ended | None,
) -> list[list[Hypothesis]]:
    """``n`` samples for each source (B, …), drawn by the noise (B·n, T)."""
    sampler = Sampler(noise, settings.temperature_or(1.0), settings.top_k, settings.top_p)
    source, limits = (part.repeat_interleave(n, dim=0) for part in (source, limits))
    found = sample(
        model, source, limits=limits, sampler=sampler, ended=ended,
        length_penalty=settings.length_penalty,
        prefixes=[prefix for prefix in prefixes for _ in range(n)],
    )  # fmt: skip
    return [found[i : i + n] for i in range(0, len(found), n)]


def _ended_by(ended: Ended | None, numbers: Sequence[int], n: int) -> Ended | None:
    """The same asked by the rows of a batch, ``n`` a source."""
    return None if ended is None else lambda row, ids: ended(numbers[row // n], ids)


@contextmanager
def _looked_at(model: SequenceModel, settings: DecodeSettings) -> Iterator[Attention | None]:
    """What each row of a step looked at in the source: the mean of all layers and heads."""
    if not settings.coverage_penalty or settings.beam == 1:
        yield None
        return
    with ExitStack() as watching:
        views = [watching.enter_context(watch(member)) for member in members_of(model)]
        looking = [found for found in map(_across, views) if found]
        if not looking:
            raise _without_attention("coverage_penalty")

        def last() -> Tensor:
            """Of each member that attends, and then the mean of these."""
            weights = [[view.weights()[:, :, -1].mean(dim=1) for view in one] for one in looking]
            for view in (view for seen in views for view in seen.values()):
                view.calls.clear()
            return torch.stack([torch.stack(one).mean(dim=0) for one in weights]).mean(dim=0)

        yield last


def _across(views: Mapping[Place, AttentionCalls]) -> list[AttentionCalls]:
    """Those of the attentions that look from the target to the source."""
    return [view for (name, _), view in views.items() if name == CROSS]


def check_looking(model: nn.Module, settings: DecodeSettings) -> None:
    """Refuse what goes by attention to the source, before a model that has none is trained."""
    if any(name == CROSS for (name, _), _ in viewpoints(model)):
        return
    for name in ("coverage_penalty", "replace_unknown"):
        if getattr(settings, name):
            raise _without_attention(name)


def _without_attention(name: str) -> ConfigError:
    return ConfigError(
        f"decode.{name} needs attention to the source, and this model has none; leave it out"
    )


def target_ids(
    model: SequenceModel,
    source: Sequence[int],
    settings: DecodeSettings,
    *,
    device: torch.device,
    prefix: Sequence[int] = (),
    dropped: Dropped | None = None,
) -> Iterator[int]:
    """The ids of one target as they are found, greedily or sampled; the end token is left out.

    The first are those of the prefix.
    """
    batch = collate_pairs([Example(source, ())])
    limits = length_limits(model, batch.source, settings.max_len).to(device)
    alone = SourceBatch(batch.source.to(device), limits, (0,))
    return coming_ids(model, alone, settings, prefix=prefix, dropped=dropped)


def coming_ids(
    model: SequenceModel,
    alone: SourceBatch,
    settings: DecodeSettings,
    *,
    prefix: Sequence[int] = (),
    dropped: Dropped | None = None,
) -> Iterator[int]:
    """The same of a batch of one source, whatever it is."""
    if settings.beam > 1:
        raise ConfigError("a beam search has no text before its end: leave out the beam to stream")
    source, limits, _ = alone
    noise = noise_for([settings.max_len], seeded(settings.seed)).to(source.device)
    sampler = Sampler(noise, settings.temperature_or(0.0), settings.top_k, settings.top_p)
    for step in token_steps(
        model, source, limits=limits, choose=sampler, prefixes=[prefix], dropped=dropped
    ):
        if step.ids[0] != END_ID:
            yield step.ids[0]


def number_format(precision: str, device: torch.device) -> torch.dtype | None:
    """What ``decode.precision`` means on a device; None: as the weights are."""
    has_it = device.type != "cuda" or torch.cuda.is_bf16_supported()
    if precision == "bf16" and not has_it:
        raise ConfigError("decode.precision=bf16, but this GPU has no bf16; use fp32")
    wanted = precision == "bf16" or (precision == "auto" and device.type == "cuda" and has_it)
    return torch.bfloat16 if wanted else None


def decode_batches(
    sources: Sequence[Sequence[int]],
    n_beams: int,
    device: torch.device,
    batch_tokens: int = DECODE_TOKENS,
) -> Iterator[Batch]:
    """What is searched together: at most so many tokens and hypotheses."""
    examples = [Example(source, ()) for source in sources]
    most = batch_tokens if device.type == "cuda" else min(batch_tokens, CPU_TOKENS)
    n_rows = max(1, MOST_ROWS.get(device.type, MOST_ROWS["cpu"]) // n_beams)
    for batch in _batches(examples, max(1, most // n_beams)):
        for begin in range(0, len(batch.numbers), n_rows):
            numbers = batch.numbers[begin : begin + n_rows]
            whole = len(numbers) == len(batch.numbers)
            yield batch if whole else collate_pairs([examples[i] for i in numbers], numbers)


class TokenScores(NamedTuple):
    """How a model judges given tokens, each after those before it."""

    log_probs: Tensor
    """(T,)"""
    right: Tensor
    """(T,) boolean: would it have said the same?"""


@torch.inference_mode()
def token_scores(
    model: SequenceModel, examples: Sequence[Example], *, device: torch.device
) -> list[TokenScores]:
    """Teacher forced: each target given its source, in order."""

    def judge(batch: Batch) -> dict[int, TokenScores]:
        logits = model(batch.source.to(device), batch.target_in.to(device))
        lengths = [len(examples[number].target) + 1 for number in batch.numbers]
        return dict(zip(batch.numbers, judged(logits, batch.target_out, lengths), strict=True))

    results: dict[int, TokenScores] = {}
    for found in divided(_batches(examples, SCORE_TOKENS), judge):
        results |= found
    return [results[number] for number in range(len(examples))]


def judged(logits: Tensor, wanted: Tensor, lengths: Iterable[int]) -> list[TokenScores]:
    """Of each target of a batch: logits (B, T, V), the right ids (B, T), and how many count."""
    wanted = wanted.to(logits.device)
    chosen, right = token_log_probs(logits, wanted).cpu(), (logits.argmax(dim=-1) == wanted).cpu()
    # No views: where processes divide the work, what is sent around would be the batch each time.
    rows = ((chosen[row, :n], right[row, :n]) for row, n in enumerate(lengths))
    return [TokenScores(some.clone(), others.clone()) for some, others in rows]


def _batches(examples: Sequence[Example], batch_tokens: int) -> Iterable[Batch]:
    return (
        ordered_batches(examples, batch_tokens)
        if len(examples) > 1
        else map(collate_pairs, [examples])
    )


def length_limits(model: SequenceModel, source: Tensor, max_len: int) -> Tensor:
    """``limits_for`` sources (B, S); of an ensemble by the ids that its first member reads."""
    read = (source != PAD_ID) & (source < model.config.n_source_vocab)
    return limits_for(model, read.sum(dim=1), max_len)


def limits_for(model: SequenceModel, lengths: Tensor, max_len: int) -> Tensor:
    """How long each target may become: no translation is thrice as long as its source.

    Nor longer than the model could read again with a begin token before it, as looking inside does.
    Source lengths (B,), end token included -> target lengths (B,), end token included.
    """
    return (3 * lengths + 10).clamp(max=longest_target(model.config, max_len))


def longest_target(config: ModelConfig, max_len: int) -> int:
    """Tokens of a target, end token included: no more than the model could read again."""
    return max_len if config.longest is None else min(max_len, config.longest - 1)
