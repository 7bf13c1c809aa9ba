"""An encoder before its first step, for any task: fresh, or begun as that of another run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder, load_config
from regard.core.errors import CheckpointError, ConfigError
from regard.core.settings import parse
from regard.data.examples import Column, Table
from regard.data.records import Labelled
from regard.data.row_batches import Layout
from regard.data.splits import Data
from regard.models.encoder import Encoder
from regard.models.presets import PRESETS, ModelSettings, build, resolve_for
from regard.models.settings import EncoderConfig, ModelConfig
from regard.tasks.base import Evaluation, JudgedRun, Prepared
from regard.tasks.encoding import encoder_in
from regard.tasks.opening import SHARED, check_memory, load_tokenizer
from regard.tasks.recipe import Recipe
from regard.text.tokenizer import Tokenizer
from regard.training.flops import TextFlops, encoder_flops
from regard.training.settings import TrainSettings

HEAD = "head."
"""How the names of a head's weights begin."""


@dataclass(frozen=True, slots=True)
class Begun:
    """An encoder before its first step, and how it reads."""

    config: EncoderConfig
    model: Encoder
    tokenizer: Tokenizer
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """What a task wants of a model."""

    recipe: Recipe
    head: str
    n_labels: int | None = None
    same_head: Callable[[Path], bool] = lambda _folder: True
    """Whether the head of a run, if it is of the same kind, answers the same question."""
    pairs: bool = False
    """Whether two texts are read together, which the model must then tell apart."""


def begin(
    wish: EncoderSpec, texts: Callable[[], Iterable[str]], device: torch.device, begun: Path | None
) -> Begun:
    """Tokenizer and model: fresh ones, or those of ``train.init``.

    A run begun keeps its tokenizer and its configuration; its weights are in its snapshots, and
    what became of ``train.init`` does not matter.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    recipe = wish.recipe
    _check_training(recipe.train, wish.head)
    init = recipe.train.init
    known = begun or (None if init is None else Path(init))
    if known is None:
        tokenizer = Tokenizer.train(texts(), recipe.text, masking=True)
    else:
        tokenizer = load_tokenizer(known)
    torch.manual_seed(recipe.train.seed)
    if begun is None and init is not None:
        return _from_run(wish, RunFolder(Path(init)), tokenizer, device)
    config = _fresh(wish, tokenizer) if begun is None else load_config(RunFolder(begun))
    assert isinstance(config, EncoderConfig), "only encoders have these tasks"
    _check_segments(config, wish, "set it to 2")
    check_memory(config, device)
    return Begun(config, Encoder(config).to(device), tokenizer, ())


def _fresh(wish: EncoderSpec, tokenizer: Tokenizer) -> ModelConfig:
    """What the recipe asks for, its vocabulary and its head filled in."""
    recipe = wish.recipe
    sizes: dict[str, Any] = {"n_vocab": tokenizer.n_vocab, "pad_id": tokenizer.specials.pad}
    sizes |= {"head": wish.head, "n_labels": wish.n_labels}
    return resolve_for(recipe.task, EncoderConfig, recipe.model, **sizes)


def _check_training(settings: TrainSettings, head: str) -> None:
    """Refuse what only others are trained with."""
    if settings.compile is True and head != "masked":
        raise ConfigError(
            "train.compile=true: only models that write or guess words are compiled; leave it at "
            "auto"
        )


def _check_segments(config: EncoderConfig, wish: EncoderSpec, remedy: str) -> None:
    """Refuse pairs of texts where the model could not tell which is which."""
    if config.n_segments < 2 and (wish.pairs or wish.head == "spans"):
        raise ConfigError(
            f"model.n_segments={config.n_segments}, but two texts are read together; {remedy}"
        )


def _from_run(
    wish: EncoderSpec, init: RunFolder, tokenizer: Tokenizer, device: torch.device
) -> Begun:
    """The encoder of a run; its head too, where that answers the same question."""
    old = encoder_in(init)
    _check_preset(wish.recipe.model, old.config, init)
    asked = {**wish.recipe.model.given(), "head": wish.head, "n_labels": wish.n_labels}
    config = parse(EncoderConfig, {**old.config.model_dump(), **asked}, "model")
    _check_segments(config, wish, f"{init.path} tells no two apart; begin from a run that does")
    check_memory(config, device)
    model = build(config)
    assert isinstance(model, Encoder)
    alike = all(getattr(config, key) == getattr(old.config, key) for key in ("head", "pooling"))
    keeps_head = alike and wish.same_head(init.path)
    weights = {
        name: weight.detach()
        for name, weight in old.named_parameters()
        if keeps_head or not name.startswith(HEAD)
    }
    _fill(model, weights, init, keeps_head=keeps_head)
    fresh = "" if keeps_head or wish.head == "none" else "; its head is fresh"
    note = f"the encoder begins as that of {init.path}{fresh}"
    return Begun(config, model.to(device), tokenizer, (note,))


def _check_preset(settings: ModelSettings, old: EncoderConfig, init: RunFolder) -> None:
    """Sizes come with the run, but what reads is what the recipe says."""
    preset = next(iter(PRESETS[settings.preset].sizes.values()))
    asked = {**preset, **settings.given()}.get("cell")
    if asked != old.cell:
        fitting = "bert" if old.cell is None else "bilstm"
        raise ConfigError(
            f"train.init: the encoder of {init.path} has cell={old.cell}, and the recipe asks for "
            f"preset {settings.preset!r} with cell={asked}; choose preset {fitting!r}"
        )


def _fill(
    model: nn.Module, weights: Mapping[str, Tensor], init: RunFolder, *, keeps_head: bool
) -> None:
    wanted = {
        name: parameter
        for name, parameter in model.named_parameters()
        if keeps_head or not name.startswith(HEAD)
    }
    problems = [
        f"{name} is {tuple(weights[name].shape) if name in weights else 'missing'}, the model "
        f"wants {tuple(parameter.shape)}"
        for name, parameter in wanted.items()
        if name not in weights or weights[name].shape != parameter.shape
    ]
    if problems:
        shown = "; ".join(problems[:3]) + ("; …" if len(problems) > 3 else "")
        raise CheckpointError(
            f"train.init: the encoder of {init.path} does not fit: {shown}; leave the sizes out of "
            "the section model, they come with the run"
        )
    for name, parameter in wanted.items():
        parameter.data.copy_(weights[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEncoding(Prepared):
    """Texts, their tokenizer and an encoder."""

    config: EncoderConfig
    model: Encoder
    data: Data[Labelled]
    tokenizer: Tokenizer
    layout: Layout
    train: Table
    valid: Table
    formula: TextFlops

    @property
    @override
    def size(self) -> dict[str, int]:
        return {"training texts": len(self.train), "vocabulary": self.tokenizer.n_vocab}

    @property
    @override
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        return (self.tokenizer,)

    @override
    def flops(self, batch: Any) -> float:
        n_rows, n_tokens = batch.ids.shape
        return self.formula.training(n_rows, n_tokens, batch.count)

    @override
    def example(self, number: int) -> str:
        return self.data.splits["train"][number].text

    @property
    @override
    def test_sets(self) -> Sequence[str]:
        return self.data.test_sets

    @override
    def scored(self, run: Any, split: str) -> Evaluation:
        return run.scored(self.data.split(split), split)

    @override
    def judged(self, out: Path, test_sets: Sequence[str] | None) -> JudgedRun:
        """With some answers, wrong ones first."""
        judged = Prepared.judged(self, out, test_sets)
        made = [
            (_shown_text(one), answer, _wanted(one))
            for name, evaluation in judged.evaluations.items()
            for one, answer in zip(self.data.split(name), evaluation.outputs, strict=False)
        ]
        return replace(judged, samples=sorted(made, key=lambda one: one[1] == one[2])[:N_SAMPLES])

    @override
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / SHARED)


def parts(
    recipe: Recipe, data: Data[Labelled], start: Begun, layout: Layout, device: torch.device
) -> dict[str, Any]:
    """What every preparation of an encoder consists of, by field."""
    train, train_notes = encoded(data.splits["train"], start.tokenizer, layout, "train")
    valid, valid_notes = encoded(data.splits["valid"], start.tokenizer, layout, "valid")
    return {
        "recipe": recipe,
        "config": start.config,
        "model": start.model,
        "notes": (*data.notes, *start.notes, *train_notes, *valid_notes),
        "device": device,
        "data": data,
        "tokenizer": start.tokenizer,
        "layout": layout,
        "train": train,
        "valid": valid,
        "formula": encoder_flops(start.model),
    }


def encoded(
    examples: Sequence[Labelled], tokenizer: Tokenizer, layout: Layout, name: str
) -> tuple[Table, tuple[str, ...]]:
    """Examples as ids that fit, and a note on those that had to be cut."""
    sides = ([one.text for one in examples], [one.other or "" for one in examples])
    whole = Table(*(Column.joined(tokenizer.encode_batch(side)) for side in sides))
    table, n_cut = layout.cut(whole)
    note = f"{name}: {n_cut} examples cut to max_len={layout.max_len} tokens"
    return table, (note,) if n_cut else ()


def all_texts(examples: Iterable[Labelled]) -> Iterable[str]:
    """What a tokenizer learns from."""
    for one in examples:
        yield one.text
        if one.other is not None:
            yield one.other


N_SAMPLES = 8


def _shown_text(example: Labelled) -> str:
    return example.text if example.other is None else f"{example.text} | {example.other}"


def _wanted(example: Labelled) -> str | None:
    return example.label if example.score is None else f"{example.score:g}"
