"""``regard bench train``: target tokens a second, padding not counted.

Our other systems do different work, so their speeds tell what a system costs, not how well it is
written. To give a measure, a translator of two plain GRUs without attention, of as many parameters
as ``bahdanau2015``, stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from regard.bench.contest import BenchRequest, Contender, Plan, Work, Workload, compete, grow
from regard.bench.measures import limit
from regard.bench.results import OURS, Bench, BenchRow
from regard.bench.training_peers import PEERS, Peer, plain_gru
from regard.bench.updates import CLIP, LENGTHS, default, our_updates, plain_updates, shape
from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.pair_batches import packed_stream, padded_stream, tiled_stream
from regard.models.presets import ModelSettings, build, n_parameters, resolve
from regard.models.settings import SequenceConfig, TransformerConfig
from regard.tasks.opening import pick_device
from regard.text.specials import PAD_ID, SPECIALS
from regard.training.flops import BACKWARD, flop_formula
from regard.training.losses import cross_entropy
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss, reads_packed, records_padded

LABEL_SMOOTHING = 0.1
N_BATCHES = {"cpu": 4, "cuda": 8}
"""Batches of a round."""
UNIT = "target tokens/s"
MEAN_LENGTH, SPREAD, LONGEST = 24.0, 0.5, 120
"""Log-normal lengths, as those of sentences are: their mean, the deviation of the logarithm."""
CORPUS, POOL = 30_000, 20
"""Sentences that batches are cut from, at least, and at least so many times those that are used:
as in a real corpus, each finds others of its length."""

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
    "gnmt2016": ModelSettings(preset="gnmt2016"),
    "deep-att2016": ModelSettings(preset="deep-att2016"),
    "moe2017": ModelSettings(preset="moe2017"),
    "bytenet2016": ModelSettings(preset="bytenet2016"),
    "convs2s2017": ModelSettings(preset="convs2s2017"),
}


def train_bench(
    asked: BenchRequest,
    *,
    size: str | None = None,
    vocab: int | None = None,
    batch_tokens: int | None = None,
    systems: bool = False,
) -> Bench:
    """Everybody on the same sentences; with ``long`` on longer ones and larger batches too."""
    device, precisions = pick_device(asked.device), asked.precisions
    if "int8" in precisions:
        raise ConfigError("training takes fp32 or bf16, not int8")
    who = asked.chosen({peer.name: peer.package for peer in PEERS})
    size = size or default("size", device)
    vocab = vocab or default("vocab", device)
    batch_tokens = batch_tokens or default("batch_tokens", device)
    config = shape(size, vocab)  # a wrong size is told before anything is measured
    cut = partial(sentences, vocab, n_batches=N_BATCHES.get(device.type, 4))
    text = cut(batch_tokens=batch_tokens)

    def point(
        config: TransformerConfig, text: Sentences, by: str | None = None, at: int = 0
    ) -> tuple[Workload, list[Contender]]:
        what = f"training by {by}, {at:,}" if by else "training"
        flops = training_flops(config, text)
        task = Workload(what=what, unit=UNIT, flops=flops, by=by, at=at if by else None)
        return task, [c for name in precisions for c in contenders(config, text, device, name, who)]

    def larger() -> Iterator[tuple[Workload, list[Contender]]]:
        for factor in (0.25, 0.5, 1, 2, 4):
            n = max(16, round(batch_tokens * factor))
            yield point(config, cut(batch_tokens=n), "batch tokens", n)

    def longer() -> Iterator[tuple[Workload, list[Contender]]]:
        for n in LENGTHS:
            text = cut(batch_tokens=max(batch_tokens, n), length=n)
            yield point(shape(size, vocab, max_len=n + 2), text, "length", n)

    plan = asked.plan()
    rows = compete(*point(config, text), plan)
    if systems:
        rows += systems_rows(text, plan, size=size, vocab=vocab, precision=precisions[0])
    if asked.long:
        rows += grow(larger(), plan) + grow(longer(), plan)
    facts = {
        "shape": config.model_dump(include={"d_model", "n_layers", "n_heads", "d_ff", "dropout"}),
        "vocab": vocab,
        "batch_tokens": batch_tokens,
        "sentences": len(text.examples),
        "target_tokens": text.n_target_tokens,
        "padding_of_padded_batches": text.padding,
    }
    return plan.bench(rows, facts)


def contenders(
    config: TransformerConfig, text: Sentences, device: torch.device, precision: str, who: set[str]
) -> Iterator[Contender]:
    """Ourselves first, then the peers, in each of their ways."""

    def start(peer: Peer, compiled: bool) -> Work:
        torch.manual_seed(0)
        return padded_training(peer.make(config), text.batches, device, precision, compiled)

    if OURS in who:
        ours = partial(our_training, config, text, device=device, precision=precision)
        yield Contender(
            OURS,
            "packed, compiled" if reads_packed(config, device, precision) else "",
            precision,
            ours,
        )
    for peer in PEERS:
        for way in peer.ways(device) if peer.name in who else ():
            yield Contender(peer.name, way, precision, partial(start, peer, bool(way)))


def systems_rows(
    text: Sentences, plan: Plan, *, size: str, vocab: int, precision: str
) -> list[BenchRow]:
    """One row a system."""
    limits: dict[str, str] = {}

    def start(name: str) -> Work:
        config = resolved(SYSTEMS[name], size, vocab)
        work = counted_training(config, text, device=plan.device, precision=precision)
        work.run()
        limits[name] = limit(work.run, plan.device)
        return work

    def plain() -> Work:
        with torch.device("meta"):
            wanted = n_parameters(build(resolved(SYSTEMS[MEASURE], size, vocab)))
        model = plain_gru(vocab, wanted)
        return padded_training(model, text.batches, plan.device, precision)

    contenders = [Contender(OURS, name, precision, partial(start, name)) for name in SYSTEMS]
    contenders.append(Contender("torch.nn.GRU", "no attention", precision, plain))
    task = Workload(what="training, our other systems", unit=UNIT)
    rows = compete(task, contenders, plan)
    return [replace(row, limit=limits.get(row.how)) for row in rows]


def resolved(settings: ModelSettings, size: str, vocab: int) -> SequenceConfig:
    """A system in a size."""
    settings = settings.model_copy(update={"size": size})
    return resolve(settings, n_source_vocab=vocab, n_target_vocab=vocab, shared_vocab=True)


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
    device: torch.device,
    precision: str,
    compiled: bool = False,
) -> Work:
    """Train a translator on each of the padded batches once; the unit is a target token."""

    def loss(forward: Callable[..., Tensor], batch: Batch) -> Tensor:
        logits = forward(batch.source, batch.target_in)
        total = cross_entropy(logits, batch.target_out, pad=PAD_ID, label_smoothing=LABEL_SMOOTHING)
        return total / batch.count

    return plain_updates(model, batches, loss, device, precision, compiled=compiled, dynamic=True)


def our_training(
    config: SequenceConfig, text: Sentences, *, device: torch.device, precision: str
) -> Work:
    """Train on the sentences once, in batches of our own making."""
    torch.manual_seed(0)
    model, packed = build(config), reads_packed(config, device, precision)
    tiled = records_padded(config, device, precision)
    how = {"precision": precision, "label_smoothing": LABEL_SMOOTHING, "clip": CLIP}
    settings = TrainSettings.model_validate({"max_steps": config.compiles_from, **how})
    batches = text.batches
    if packed or tiled:  # all sentences once
        make = packed_stream if packed else partial(tiled_stream, longest=config.longest)
        stream = make(text.examples, batch_tokens=text.batch_tokens, seed=0)
        batches = [stream.next() for _ in range(stream.n_batches)]
    n_tokens = sum(batch.count for batch in batches)
    assert n_tokens == text.n_target_tokens, "everybody learns from the same sentences"
    objective = TokenLoss(settings, compiled=packed)
    return our_updates(model, objective, batches, settings, device, captured=packed or tiled)


def counted_training(
    config: SequenceConfig, text: Sentences, *, device: torch.device, precision: str
) -> Work:
    """Train on the sentences once, with the FLOPs of this system."""
    work = our_training(config, text, device=device, precision=precision)
    return replace(work, flops=training_flops(config, text))
