"""Tensors under the names of a format and under ours, so that none is lost and none is made up.

A format is a table of names. What shapes ours must have is told by the model, built without
numbers so that any size is cheap.

Translators get our special tokens in front of their vocabularies, which decoding relies on. A row
that the model of others lacks is zeros, and its logit gets the bias ``CLOSED``: it has no share in
the softmax, so that the log-probabilities of all other tokens stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from regard.checkpoints.run_folder import model_tensors
from regard.core.errors import CheckpointError, ConfigError
from regard.interop.folders import CONFIG
from regard.models.presets import build
from regard.models.settings import DecoderConfig, ModelConfig, TransformerConfig
from regard.text.specials import BEGIN_ID, SPECIALS

Shape = tuple[int, ...]
Weights = Mapping[str, Tensor]
Names = tuple[str, ...]  # a name of theirs, then those of ours that lie in it, one below the other

POSITIONS = "embedding.positions.table"
SOURCE_TOKENS = "encoder.embedding.tokens.weight"
TARGET_TOKENS = "decoder.embedding.tokens.weight"
OUTPUT_WEIGHT, OUTPUT_BIAS = "decoder.output_weight", "decoder.output_bias"
CLOSED = -1e4  # its exponential is 0 in float32, and no sum over logits becomes infinite
WEIGHT = {"weight": "weight"}
WEIGHT_AND_BIAS = {"weight": "weight", "bias": "bias"}
"""The tensors of a layer where theirs are called as ours."""

Supported = Mapping[str, Collection[object]]  # settings, and the values that are supported

OURS: Supported = {
    "score": ("scaled_dot",),
    "window": ("global",),
    "windows": (None,),
    "normaliser": ("softmax",),
    "join": (None, "add"),
    "d_positions": (None,),
    "memory": ("last",),
    "cross_after": ("attention",),
    "d_head": (None,),
    "experts": (None,),
}
"""Settings that formats of others do not have, with what is computed there."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A model of others, in our terms."""

    config: ModelConfig
    weights: dict[str, Tensor]
    """Float32, under the names of our model's parameters and buffers, each of them."""
    notes: tuple[str, ...] = ()
    """What a user should know about the way, a sentence each."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the recipe's data that the model comes with: how pictures are prepared."""


class Description(BaseModel):
    """What a format says of a language model, as far as it decides what is computed.

    Fields that are called as ours have the format's name for them as alias.
    """

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    def ours(self) -> dict[str, Any]:
        """The values of our settings."""
        return self.model_dump(include=set(DecoderConfig.model_fields))

    @classmethod
    def theirs(cls, config: DecoderConfig) -> dict[str, Any]:
        """The values of our settings under the format's names."""
        fields = {name: field.alias for name, field in cls.model_fields.items() if field.alias}
        return {alias: getattr(config, name) for name, alias in fields.items()}


def parts(
    table: Iterable[Names], kinds: dict[str, str], theirs: str = "", ours: str = "", dot: str = "."
) -> Iterator[Names]:
    """Names of the tensors of each layer of a table.

    ``kinds`` are their names for a layer's tensors and ours; ``theirs`` and ``ours`` stand before
    the names, ``dot`` before the kind of theirs.
    """
    for name, *others in table:
        for their_kind, our_kind in kinds.items():
            found = (f"{ours}{one}.{our_kind}" for one in others)
            yield (f"{theirs}{name}{dot}{their_kind}", *found)


def listed(settings: Mapping[str, object], names: Iterable[str]) -> str:
    """Some settings with their values, for messages."""
    return ", ".join(f"{name}={settings[name]}" for name in names)


def check_exportable(why_not: str | None) -> None:
    """Refuse a model that a format has no counterpart of."""
    if why_not:
        raise ConfigError(f"this model cannot be exported: {why_not}")


def no_counterpart(config: BaseModel, known: Supported, of: str) -> str | None:
    """Which settings of ours have values that a format does not know, or None."""
    ours = {name: values for name, values in OURS.items() if hasattr(config, name)}
    wrong = [
        f"{name}={value!r}"
        for name, values in {**ours, **known}.items()
        if (value := getattr(config, name)) not in values
    ]
    return f"{of} has no counterpart of {', '.join(wrong)}" if wrong else None


def unsupported(said: Mapping[str, object], known: Supported) -> list[str]:
    """Which settings of a description have values that we have no counterpart of."""
    return [
        f"{name}={said[name]!r} (supported: {', '.join(map(str, values))})"
        for name, values in known.items()
        if name in said and said[name] not in values
    ]


def renamed(rows: Iterable[Names], weights: Weights, to: str) -> dict[str, Tensor]:
    """Our weights under the names of a format, float32 on the CPU.

    A tensor that the table wants and the model lacks is an error, and so is one of the model that
    the table does not want: all of them are named.
    """
    table = {theirs: ours for theirs, *ours in rows}
    wanted = dict.fromkeys(name for ours in table.values() for name in ours)
    problems = [f"missing {name}" for name in wanted if name not in weights]
    problems += [f"unused {name}" for name in weights if name not in wanted]
    if problems:
        raise CheckpointError(f"this model has no counterpart in {to}: {'; '.join(problems)}")
    plain = {name: weights[name].detach().float().cpu() for name in wanted}
    return {theirs: torch.cat([plain[name] for name in ours]) for theirs, ours in table.items()}


def taken(
    rows: Iterable[Names],
    tensors: Weights,
    shapes: Mapping[str, Shape],
    of: str,
    *,
    passed_over: Collection[str] = (),
    deciding: Callable[[Sequence[str]], list[str]] = lambda names: [],
) -> dict[str, Tensor]:
    """The inverse of ``renamed``: their tensors under our names, float32.

    ``shapes`` are those of our model's tensors. What the table wants and ``of`` lacks, what it has
    beyond the table and ``passed_over``, what has another shape than the model asks for, with the
    settings ``deciding`` it, and what holds no numbers to compute with: all are named in one error.
    """
    table = {theirs: ours for theirs, *ours in rows}
    known = {*table, *passed_over}
    problems = [f"missing {name}" for name in table if name not in tensors]
    problems += [f"unused {name}" for name in tensors if name not in known]
    there = {theirs: ours for theirs, ours in table.items() if theirs in tensors}
    for theirs, ours in there.items():
        found, first = tuple(tensors[theirs].shape), shapes[ours[0]]
        wanted = (sum(shapes[name][0] for name in ours), *first[1:])
        if found != wanted:
            settings = deciding(ours)
            by = f", by {', '.join(settings)}" if settings else ""
            problems.append(
                f"{theirs} is {found}, but its configuration asks for {wanted} "
                f"({', '.join(ours)}{by})"
            )
    problems += _no_numbers({theirs: tensors[theirs] for theirs in there})
    if problems:
        raise CheckpointError(f"{of} does not fit its own description: {'; '.join(problems)}")
    weights: dict[str, Tensor] = {}
    for theirs, ours in table.items():
        each = tensors[theirs].float().split([shapes[name][0] for name in ours])
        weights |= dict(zip(ours, each, strict=True))
    return weights


def _no_numbers(tensors: Weights) -> list[str]:
    """What cannot be a weight: whole numbers, for one, need a scale that nobody told us."""
    wrong: dict[str, list[str]] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            wrong.setdefault(f"kept as {kind} (supported: floating point)", []).append(name)
        elif not tensor.isfinite().all():
            wrong.setdefault("with numbers that are not finite", []).append(name)
    return [f"{why}: {', '.join(names)}" for why, names in wrong.items()]


def shapes(config: ModelConfig, *, tied: bool = False) -> dict[str, Shape]:
    """What each parameter is called, and its shape; those that are ``tied`` under each name.

    Buffers that a model keeps are among them.
    """
    try:
        with torch.device("meta"):
            model = build(config)
            parameters = dict(model.named_parameters(remove_duplicate=not tied))
    except (RuntimeError, TypeError, OverflowError) as error:  # more than torch can count
        sizes, reason = _sizes(config), str(error).partition("\n")[0]
        raise CheckpointError(
            f"no model can have the sizes {listed(sizes, sizes)} ({reason})"
        ) from None
    every = {**parameters, **model_tensors(model)}
    return {name: tuple(one.shape) for name, one in every.items()}


def zeros_beyond(config: ModelConfig, full: ModelConfig) -> dict[str, Tensor]:
    """Zeros for the parameters that a model of ``full`` has beyond one of ``config``."""
    mine, every = shapes(config), shapes(full)
    return {name: torch.zeros(every[name]) for name in every if name not in mine}


def fitted(
    config: ModelConfig,
    rows: Iterable[Names],
    tensors: Weights,
    of: str,
    passed_over: Collection[str] = (),
) -> dict[str, Tensor]:
    """Their tensors as the weights of our model, float32; tied ones may stand under each name."""
    n_layers = _sizes(config).get("n_layers", 0)
    if n_layers > len(tensors):  # any number may be asked for: this many are not built
        raise CheckpointError(
            f"{of} does not fit its own description: it says {n_layers} layers, and holds "
            f"{len(tensors)} tensors"
        )
    wanted, by = shapes(config, tied=True), partial(deciding_settings, config)
    return taken(rows, tensors, wanted, of, passed_over=passed_over, deciding=by)


def deciding_settings(config: ModelConfig, names: Iterable[str]) -> list[str]:
    """The sizes, written as ``d_model=512``, with which the shapes of these parameters change."""
    return [size for size, changed in _changed_by_size(config).items() if changed & {*names}]


@lru_cache(maxsize=1)
def _changed_by_size(config: ModelConfig) -> dict[str, set[str]]:
    """For each size, whose shapes change where it is doubled."""
    mine, found = shapes(config, tied=True), {}
    for name, value in _sizes(config).items():
        try:
            others = shapes(config.model_copy(update={name: 2 * value}), tied=True)
        except Exception:  # a size that cannot change alone decides nothing alone
            continue
        found[f"{name}={value}"] = {one for one in mine if mine[one] != others.get(one)}
    return found


def _sizes(config: ModelConfig) -> dict[str, int]:
    settings = config.model_dump()
    return {name: value for name, value in settings.items() if type(value) is int and value > 0}


def padding(pad: int | None, end: object, n_vocab: int) -> tuple[int, list[str]]:
    """The id to pad with, and what to say where the model has none of its own.

    Nothing sees padding at the end of a text, so any token will do that is no target.
    """
    known = range(n_vocab)
    if pad is not None and pad in known:
        return pad, []
    stand_in = end[0] if isinstance(end, list) and end else end
    found = stand_in if isinstance(stand_in, int) and stand_in in known else 0
    return found, [f"it has no token for padding; token {found} stands in"]


def untied_rest(
    tensors: Weights, tied: bool, tokens: str, output: str, buffers: tuple[str, ...]
) -> set[str]:
    """Names that may be passed over: buffers by their endings, and a tied output's second copy.

    An output matrix that is said to be the embedding may be there twice, not differ from it.
    """
    found = {name for name in tensors if name.endswith(buffers)}
    if not tied:
        return found
    if {tokens, output} <= tensors.keys() and not torch.equal(tensors[tokens], tensors[output]):
        raise CheckpointError(
            f"tie_word_embeddings is true, but {output} is not {tokens}; set it to false in "
            f"{CONFIG} to take both"
        )
    return found | {output}


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Which of their rows each of our ids takes."""

    rows: tuple[int | None, ...]
    """None where they have none."""
    closed: frozenset[int]
    """Our ids that the model must give no probability."""

    @property
    def same(self) -> bool:
        """Whether nothing changes."""
        return not self.closed and self.rows == tuple(range(len(self.rows)))

    def taken(self, table: Tensor) -> Tensor:
        """Their rows (V, …) in our order, zeros where they have none."""
        index = torch.tensor([len(table) if row is None else row for row in self.rows])
        extra = table.new_zeros((1, *table.shape[1:]))
        return torch.cat((table, extra)).index_select(0, index)

    def bias(self, theirs: Tensor | None, n: int) -> Tensor:
        """Their bias of the output in our order, closed where it must be."""
        found = self.taken(torch.zeros(n) if theirs is None else theirs)
        found[sorted(self.closed)] = CLOSED
        return found

    def tokens(self, theirs: Sequence[str]) -> list[str]:
        """Their tokens in our order; a token of theirs that is called as one of ours is renamed."""
        rest = [theirs[row] for row in self.rows[len(SPECIALS) :] if row is not None]
        return [*SPECIALS, *(f"{token}_" if token in SPECIALS else token for token in rest)]


def specials_first(
    n: int, *, pad: int | None, begin: int, end: int, unknown: int | None
) -> Renumbering:
    """Their special ids to the front of n; ``begin`` is the id that a target starts with.

    What starts a target may also be their padding, which is then ours to begin with, or their end,
    which then stands in two places and can be written as the end alone.
    """
    front = (None if pad in (begin, end) else pad, begin, end, unknown)
    closed = {number for number, row in enumerate(front) if row is None}
    if begin == end:
        closed.add(BEGIN_ID)
    rest = (row for row in range(n) if row not in front)
    return Renumbering((*front, *rest), frozenset(closed))


def renumbered(
    config: TransformerConfig, weights: Weights, source: Renumbering, target: Renumbering
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """A model of theirs, by our names, with our ids."""
    found = dict(weights)
    found[SOURCE_TOKENS] = source.taken(weights[SOURCE_TOKENS])
    for name in (TARGET_TOKENS, OUTPUT_WEIGHT):
        if name in weights:
            found[name] = target.taken(weights[name])
    if config.output_bias or target.closed:
        found[OUTPUT_BIAS] = target.bias(weights.get(OUTPUT_BIAS), config.n_target_vocab)
    sizes = {"n_source_vocab": len(source.rows), "n_target_vocab": len(target.rows)}
    return config.model_copy(update={**sizes, "output_bias": OUTPUT_BIAS in found}), found
