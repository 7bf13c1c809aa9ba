"""What the tasks of encoders have in common: training one, fresh or begun as that of another run,
and how its runs are scored, measured and shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder, load_config, load_model
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.numbers import counted
from regard.core.settings import parse
from regard.data.batch import Batch
from regard.data.corpora import read_corpus
from regard.data.examples import IdTable, Ints
from regard.data.records import Corpus, Labelled
from regard.data.row_batches import Layout, RowCollate, ordered_rows, row_stream
from regard.data.splits import Data, load_records
from regard.data.stream import Stream
from regard.models.encoder import Encoder
from regard.models.presets import PRESETS, ModelSettings, resolve_for
from regard.models.settings import EncoderConfig
from regard.tasks.base import Evaluation, JudgedRun, Prepared
from regard.tasks.encoding import (
    TAB,
    EncoderRun,
    Texts,
    check_encoder,
    encode_texts,
    open_encoder,
    texts_of,
)
from regard.tasks.examples import PageExample
from regard.tasks.opening import SHARED, check_memory, load_tokenizer
from regard.tasks.recipe import Recipe
from regard.tasks.texts import (
    TEXTS_INSTEAD,
    Scorer,
    Subject,
    TextTask,
    check_data,
    given_texts,
)
from regard.tasks.verbs import check_length
from regard.text.tokenizer import Tokenizer
from regard.training.flops import TextFlops, encoder_flops

Begin = Callable[..., dict[str, Any]]
"""``begin`` with its first arguments given."""
Targets = Mapping[str, Any]
"""Arrays: what is learned of each row of a table, by the name that ``collate`` gives it."""
HEAD = "head."
"""How the names of a head's weights begin."""
N_SAMPLES = 8


def begin(
    recipe: Recipe,
    data: Data[Labelled],
    device: torch.device,
    begun: Path | None,
    *,
    head: str,
    n_labels: int | None = None,
    same_head: Callable[[Path], bool] = lambda _folder: True,
    pairs: bool = False,
    joined: bool = True,
) -> dict[str, Any]:
    """Fields of ``PreparedEncoding`` but the tables: tokenizer and model are fresh or a run's.

    A run ``begun`` keeps its tokenizer and its configuration; its weights are in its snapshots, and
    what became of ``train.init`` does not matter. ``same_head`` says whether the head of a run, if
    it is of the same kind, answers the same question. ``pairs`` are read together, which the model
    must then tell apart; texts that are not ``joined`` are read each alone.
    """
    if recipe.train.compile is True and head != "masked":
        raise ConfigError(
            "train.compile=true: only models that write or guess words are compiled; leave it at "
            "auto"
        )
    init = None if recipe.train.init is None else RunFolder(Path(recipe.train.init))
    known = begun or (None if init is None else init.path)
    if known is None:
        tokenizer = Tokenizer.train(_all_texts(data.splits["train"]), recipe.text, masking=True)
    else:
        tokenizer = load_tokenizer(known)
    torch.manual_seed(recipe.train.seed)
    asked, old, remedy = {"head": head, "n_labels": n_labels}, None, "set it to 2"
    if begun is not None:
        config = load_config(RunFolder(begun))
    elif init is not None:
        old = check_encoder(load_model(init), init)
        _check_preset(recipe.model, old.config, init)
        remedy = f"{init.path} tells no two apart; begin from a run that does"
        settings = {**old.config.model_dump(), **recipe.model.given(), **asked}
        config = parse(EncoderConfig, settings, "model")
    else:
        sizes = {"n_vocab": tokenizer.n_vocab, "pad_id": tokenizer.specials.pad}
        config = resolve_for(recipe.task, EncoderConfig, recipe.model, **sizes, **asked)
    assert isinstance(config, EncoderConfig), "only encoders have these tasks"
    if config.n_segments < 2 and (pairs or head == "spans"):
        raise ConfigError(
            f"model.n_segments={config.n_segments}, but two texts are read together; {remedy}"
        )
    check_memory(config, device)
    model = Encoder(config)
    notes = () if old is None or init is None else (_fill(model, old, init, same_head),)
    return {
        "recipe": recipe,
        "config": config,
        "model": model.to(device),
        "notes": (*data.notes, *notes),
        "device": device,
        "data": data,
        "tokenizer": tokenizer,
        "layout": Layout(tokenizer.specials, config.max_len, joined=joined),
        "formula": encoder_flops(model),
    }


def _all_texts(examples: Iterable[Labelled]) -> Iterator[str]:
    for one in examples:
        yield one.text
        if one.other is not None:
            yield one.other


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


def _fill(model: Encoder, old: Encoder, init: RunFolder, same_head: Callable[[Path], bool]) -> str:
    """Copy the weights of a run, its head too where that answers the same question -> a note."""
    new, config = model.config, old.config
    alike = new.head == config.head and new.pooling == config.pooling
    keeps_head = alike and same_head(init.path)
    weights = dict(old.named_parameters())
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
        parameter.data.copy_(weights[name].detach())
    fresh = "" if keeps_head or new.head == "none" else "; its head is fresh"
    return f"the encoder begins as that of {init.path}{fresh}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEncoding(Prepared):
    """Texts, their tokenizer and an encoder."""

    collate: ClassVar[RowCollate]
    """What makes a batch of some rows of a table, and of what is learned of them."""
    config: EncoderConfig
    model: Encoder
    data: Data[Labelled]
    tokenizer: Tokenizer
    layout: Layout
    formula: TextFlops
    train: IdTable
    valid: IdTable
    train_targets: Targets
    valid_targets: Targets

    @property
    @override
    def size(self) -> dict[str, int]:
        return {"training texts": len(self.train), "vocabulary": self.tokenizer.n_vocab}

    @property
    @override
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        return (self.tokenizer,)

    @override
    def stream(self) -> Stream:
        settings = self.recipe.train
        how = {"batch_tokens": settings.batch_tokens, "seed": settings.seed, **self.train_targets}
        return row_stream(self.collate, self.train, self.layout, **how)

    def valid_batch(self, rows: Ints) -> Batch:
        """Some rows of the validation set, on the device."""
        batch: Batch = self.collate(self.valid, rows, layout=self.layout, **self.valid_targets)
        return batch.to(self.device)

    def valid_rows(self) -> list[Ints]:
        """The rows of each batch of the validation set."""
        return ordered_rows(self.valid, self.layout, self.recipe.train.batch_tokens)

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
            (
                one.text if one.other is None else f"{one.text} | {one.other}",
                answer,
                one.label if one.score is None else f"{one.score:g}",
            )
            for name, evaluation in judged.evaluations.items()
            for one, answer in zip(self.data.split(name), evaluation.outputs, strict=False)
        ]
        return replace(judged, samples=sorted(made, key=lambda one: one[1] == one[2])[:N_SAMPLES])

    @override
    def held_out(self) -> Sequence[Any]:
        return self.data.splits["valid"]

    @override
    def learned_from(self) -> Sequence[Any]:
        return self.data.splits.get("train", ())

    @override
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / SHARED)


def with_tables(
    fields: dict[str, Any], train: Targets | None = None, valid: Targets | None = None
) -> dict[str, Any]:
    """The fields of ``begin`` with the tables of both splits, and what is learned of their rows."""
    layout: Layout = fields["layout"]
    tables, notes = {}, []
    for name in ("train", "valid"):
        texts = texts_of(fields["data"].splits[name])
        tables[name], n_cut = layout.cut(encode_texts(texts, fields["tokenizer"]))
        if n_cut:
            notes.append(f"{name}: {n_cut} examples cut to max_len={layout.max_len} tokens")
    targets = {"train_targets": train or {}, "valid_targets": valid or {}}
    return {**fields, **tables, **targets, "notes": (*fields["notes"], *notes)}


class EncodingTask(TextTask):
    """A task of an encoder."""

    config, attends, looks = EncoderConfig, "bert", frozenset({"other"})
    run: ClassVar[type[EncoderRun]]
    """What a trained encoder of this task is."""

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> Any:
        return self.run(*open_encoder(path, self.name, device))

    @override
    def prepare(
        self,
        recipe: Recipe,
        device: torch.device,
        *,
        begun: Path | None = None,
        cache: Path | None = None,  # ids of texts that people have labelled are made as fast
    ) -> PreparedEncoding:
        data = load_records(recipe.data, self.run.records)
        return self.prepared(data, begun, partial(begin, recipe, data, device, begun))

    def prepared(self, data: Data[Any], begun: Path | None, begin: Begin) -> PreparedEncoding:
        """Data and an encoder, which ``begin`` gives by the head that is asked for."""
        raise NotImplementedError

    def data(self, run: Any) -> Data[Any]:
        """What the run was trained with."""
        return load_records(run.recipe.data, self.run.records)

    @override
    def records_of(self, run: Any, split: str) -> Sequence[Any]:
        check_data(run.folder, run.recipe.data, TEXTS_INSTEAD)
        return self.data(run).split(split)

    @override
    def asked_of(self, run: Any, records: Sequence[Any]) -> Iterator[PageExample]:
        for one in records:
            yield {"text": one.text} | ({} if one.other is None else {"other": one.other})

    @override
    def score_file(self, run: Any, path: Path, **options: Any) -> Evaluation:
        self.options_of(options)
        corpus: Corpus[Any] = read_corpus(str(path), self.run.records, run.recipe.data)
        notes = [*corpus.notes(path.name), *self.file_notes(run, corpus, path.name)]
        return replace(run.scored(corpus.examples, path.name), notes=tuple(notes))

    def file_notes(self, run: Any, corpus: Corpus[Any], name: str) -> list[str]:
        """What is to be told of a user's file, which is refused if the run cannot take it."""
        n, most = run.n_cut(self.read_texts(corpus.examples)), run.model.config.max_len
        return [f"{name}: {counted(n, 'text')} cut to {most} tokens"] if n else []

    def read_texts(self, examples: Sequence[Labelled]) -> Texts:
        """Examples as the model reads them."""
        return texts_of(examples)

    @override
    def check_look(self, run: Any, at_most: int, source: str, **more: Any) -> None:
        check_length(run, at_most, source, more.get("other"), able="can be looked at")

    @override
    def tokenizers(self, run: Any) -> tuple[Tokenizer, None]:
        return run.tokenizer, None

    @override
    def info(self, run: Any) -> dict[str, Any]:
        return {"pairs": bool(run.takes_pairs)}

    @override
    def subject(self, run: Any, split: str, n: int) -> Subject:
        check_data(run.folder, run.recipe.data, TEXTS_INSTEAD)
        data = self.data(run)
        examples = data.split(split)[:n]
        judge = self.scorer(lambda: run.scored(examples, split).scores)
        return self.measured_on(run, self.read_texts(examples), judge, split, data.notes)

    @override
    def given_subject(self, run: Any, texts: Sequence[str], name: str, n: int) -> Subject:
        """Judged by how far the vectors of the texts turn: ``moved`` is the mean of 1 - cosine."""
        given: Texts = given_texts(texts, name, n)
        if TAB in given[0] if run.takes_pairs is None else run.takes_pairs:
            given = [_pair(text, name) for text in given if isinstance(text, str)]

        def vectors() -> Tensor:
            return F.normalize(run.pooled(given).double(), dim=-1)

        def moved() -> dict[str, float]:
            return {"moved": 1 - float((vectors() * before).sum(dim=-1).mean())}

        before = vectors()
        return self.measured_on(run, given, moved, name)

    @staticmethod
    def measured_on(
        run: EncoderRun, texts: Texts, judge: Scorer, split: str, notes: tuple[str, ...] = ()
    ) -> Subject:
        """Heads are measured while the run reads some texts."""
        readings = partial(run.readings, texts)
        return Subject(run.model, run.device, readings, judge, split, len(texts), notes)


def _pair(text: str, name: str) -> tuple[str, str]:
    first, tab, second = text.partition(TAB)
    if not tab:
        raise DataError(f"{name}: this run reads pairs, and there is no tab in {text!r}")
    return first, second
