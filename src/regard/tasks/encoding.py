"""Encoders: what their runs can do whatever their task is: read, give vectors, be looked into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder, load_model
from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.data.corpora import Wanted, read_corpus
from regard.data.examples import Column, Example, Table
from regard.data.records import Corpus, Labelled
from regard.data.row_batches import Layout, ordered_rows
from regard.data.splits import Data, load_records
from regard.inspection.capture import POOL
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.encoder import Encoder
from regard.models.presets import n_parameters
from regard.models.settings import EncoderConfig
from regard.tasks import edits
from regard.tasks.base import TASKS, Evaluation
from regard.tasks.data import check_data
from regard.tasks.look import Look, Prediction, check_length
from regard.tasks.opening import (
    check_task,
    check_vocabulary,
    common_facts,
    load_tokenizer,
    one_or_many,
    pick_device,
    several,
)
from regard.tasks.recipe import Recipe, recipe_in
from regard.tasks.subjects import Reading, Scorer, Subject, batched, padded, special_ids
from regard.tasks.texts import PageExample, TextTask, spoken
from regard.tasks.verbs import check_length as check_request_length
from regard.text.tokenizer import Tokenizer, unknown_words

READ_TOKENS = 4096
"""Padded tokens that are read at once."""
Vectors = NDArray[np.float32]


class NearText(NamedTuple):
    """A text, and the cosine of its vector with that of the query."""

    text: str
    score: float


Texts = Sequence[str] | Sequence[tuple[str, str]]


TAB = "\t"
"""Between the two texts of a pair."""


@dataclass(frozen=True, slots=True)
class EncoderInput:
    """A text or a pair as an encoder reads it."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    cut: bool
    """Whether it was longer than the model can read."""
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EncoderRun(ABC):
    """A trained encoder with all it needs to be used."""

    folder: RunFolder
    recipe: Recipe
    tokenizer: Tokenizer
    model: Encoder
    device: torch.device

    @property
    def task(self) -> str:
        """What the model does."""
        return self.recipe.task

    def __repr__(self) -> str:
        size = counted(n_parameters(self.model), "parameter")
        kind = type(self).__name__
        system = f"{self.recipe.model.preset}, {self.task}"
        return f"<{kind} {self.folder.path}: {system}, {size}, {self.device}>"

    @property
    def layout(self) -> Layout:
        """How texts are laid out for the model."""
        return Layout(self.tokenizer.specials, self.model.config.max_len)

    def embed(self, texts: str | Sequence[str], *, normalised: bool = True) -> Vectors:
        """The mean of each text's vectors: str -> (d,), list -> (n, d).

        Each has length 1, so that a product of two is their cosine; with ``normalised=False`` it
        is as the model gives it. What is longer than the model can read is cut.
        """
        many = one_or_many(texts)
        found = self.read(self.table(many), self.model.pooled, self.model.config.d_model).numpy()
        if normalised:
            found = found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return found[0] if isinstance(texts, str) else found

    def nearest(
        self, query: Any, texts: Sequence[str], n: int = 5, *, among: Vectors | None = None
    ) -> Any:
        """The ``n`` texts nearest to a query, or to each of a list: ``NearText(text, score)``.

        ``among`` are the vectors of the texts, where they are known already.
        """
        if n < 1:
            raise ConfigError(f"n={n} texts were asked for; ask for at least 1")
        known = several(texts)
        vectors = self.embed(known) if among is None else among
        found = [
            [NearText(known[i], float(cosines[i])) for i in closest(cosines, n)]
            for cosines in self.embed(one_or_many(query)) @ vectors.T
        ]
        return found[0] if isinstance(query, str) else found

    def n_cut(self, texts: Texts) -> int:
        """How many of the texts, or pairs of them, are longer than the model reads."""
        return self.layout.cut(self._examples(texts))[1]

    def table(self, texts: Texts) -> Table:
        """Texts, or pairs of texts, as ids that fit."""
        return self.layout.cut(self._examples(texts))[0]

    def _examples(self, texts: Texts) -> Table:
        first = [one if isinstance(one, str) else one[0] for one in texts]
        second = ["" if isinstance(one, str) else one[1] for one in texts]
        sides = [self.tokenizer.encode_batch(side) for side in (first, second)]
        return Table(*(Column.joined(side) for side in sides))

    @torch.inference_mode()
    def read(self, table: Table, reading: Callable[..., Tensor], width: int) -> Tensor:
        """What a reading of ids and segments gives for each text (n, width), in their order."""
        found = torch.zeros(len(table), width)
        for rows in ordered_rows(table, self.layout, READ_TOKENS) if len(table) else []:
            ids, segments = self.layout.texts(table, rows)
            given = reading(*self.model.inputs(ids.to(self.device), segments.to(self.device)))
            found[torch.from_numpy(rows)] = given.float().cpu()
        return found

    def explain(self, text: str, other: str | None = None, edit: Any = ()) -> Look:
        """Where every attention looks while a text is read, and what comes out of it.

        A run that takes pairs is given its second text as ``other``, or behind a tab. An ``edit``,
        or several, as objects or JSON (``regard.tasks.edits``), asks what would be if: the model
        reads under it, and is as before afterwards.
        """
        changes = edits.edits_from(edit)
        if any(isinstance(change, edits.ForceToken) for change in changes):
            raise ConfigError(
                "force_token: this run reads and writes nothing, so no token is forced"
            )
        source = edits.swapped(self._source(text, other), changes)
        laid = self._laid([source] if self.takes_pairs is False else source.split(TAB, 1))
        check_length(self.model.config, len(laid.ids))
        ids, kinds = (torch.tensor([row], device=self.device) for row in (laid.ids, laid.segments))
        with edited(self.model, edits.of_model(changes)):
            output, found = recorded_call(self.model, *self.model.inputs(ids, kinds))
        edits.check_keys(changes, found)
        outcome = self.outcome(output[0], laid)
        most = self.model.config.max_len
        cut = f"the text is longer than the {most:,} tokens that the model reads: it was cut"
        return Look.of(
            found,
            changes,
            source=source,
            source_tokens=tuple(self.tokenizer.tokens(laid.ids)),
            target_tokens=(outcome.text,) if POOL in found else (),
            answer=outcome.text,
            warnings=(cut,) if laid.cut else (),
            task=self.task,
            outcome=outcome,
        )

    def _source(self, text: str, other: str | None) -> str:
        """The text, or both with a tab between them."""
        for one in (text, "" if other is None else other):
            if not isinstance(one, str):
                raise DataError(f"explain takes texts, got {type(one).__name__}")
        if self.takes_pairs and other is None and TAB not in text:
            raise DataError("this run reads pairs of texts: give two, or a tab between them")
        if self.takes_pairs is False and other is not None:
            raise DataError("this run reads each text alone: give one, not two")
        return text if other is None else f"{text}{TAB}{other}"

    def _laid(self, texts: Sequence[str]) -> EncoderInput:
        encoded = [self.looked_at(text) for text in texts]
        if not any(encoded):
            raise DataError("there is nothing to look at in an empty text")
        first, second = encoded if len(encoded) > 1 else (encoded[0], ())
        table, n_cut = self.layout.cut([Example(first, second)])
        ids, segments = self.layout.row(table.source[0], table.target[0])
        return EncoderInput(tuple(map(int, ids)), tuple(segments), n_cut > 0, tuple(texts))

    @property
    def takes_pairs(self) -> bool | None:
        """Whether it reads two texts at once (a question and its text); None: one or two."""
        return False

    def looked_at(self, text: str) -> list[int]:
        """The ids of a text that is looked at."""
        return self.tokenizer.encode(text)

    def outcome(self, output: Tensor, laid: EncoderInput) -> Prediction:
        """What comes out of a text, given what the head makes of it; mostly but a vector."""
        return Prediction("vector", "")

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text in which something is that the model has never seen."""
        return unknown_words(self.tokenizer, text)

    def facts(self) -> dict[str, Any]:
        """What was trained, as plain data."""
        return {
            **common_facts(self.recipe, self.model, self.model.config),
            "special_ids": self.tokenizer.special_ids,
        }

    def evaluate(self, split: str = "test") -> Evaluation:
        """Scores on a split of the data the run was trained with."""
        task = TASKS[self.task]
        assert isinstance(task, EncodingTask), "encoders have such a task"
        return self.scored(task.data(self).split(split), split)

    def evaluation(
        self, split: str, n: int, scores: Mapping[str, Any], outputs: Sequence[str] = ()
    ) -> Evaluation:
        """Scores of ``n`` examples, and what came out of each."""
        named = {"task": self.task, "split": split, "n": n}
        return Evaluation({**named, **scores}, list(outputs))

    @abstractmethod
    def scored(self, examples: Sequence[Any], split: str) -> Evaluation:
        """Scores on any examples."""


def closest(cosines: Vectors, n: int) -> list[int]:
    """The numbers of the largest, largest first; equals in their order."""
    return np.argsort(-cosines, kind="stable")[:n].tolist()


Parts = tuple[RunFolder, Recipe, Tokenizer, Encoder, torch.device]
"""The fields of ``EncoderRun``."""


def open_encoder(path: str | Path, task: str, device: str | None) -> Parts:
    """The folder of a run of this task. Nothing in it is executed."""
    folder = RunFolder(Path(path))
    recipe = recipe_in(folder)
    check_task(folder.path, recipe.task, task, f"one of {task}")
    place = pick_device(device)
    model, tokenizer = encoder_in(folder), load_tokenizer(folder.path)
    check_vocabulary(folder, tokenizer, model.config.n_vocab, spare=True)
    return folder, recipe, tokenizer, model.to(place).eval(), place


def encoder_in(folder: RunFolder) -> Encoder:
    """The model of a run, which must be an encoder."""
    model = load_model(folder)
    if not isinstance(model, Encoder):
        family = getattr(model, "config", None)
        raise ConfigError(
            f"{folder.path} holds a model of the family {getattr(family, 'family', 'unknown')!r}, "
            "and this needs an encoder"
        )
    return model


def encoder_readings(run: EncoderRun, texts: Texts) -> Iterator[Reading]:
    """Texts or pairs, longest first."""
    table, marks = run.table(texts), run.tokenizer.specials
    rows = [run.layout.row(table.source[i], table.target[i]) for i in range(len(table))]
    for some in batched([ids for ids, _ in rows], run.model.config):
        n = len(some[0][1])
        ids = padded([ids for _, ids in some], n, run.model.config.pad_id)
        segments = padded([rows[i][1][:n] for i, _ in some], n, 0)
        yield Reading(run.model.inputs(ids, segments), special_ids(some, marks))


class EncodingTask(TextTask):
    """A task of an encoder."""

    attends, looks = "bert", frozenset({"other"})
    wanted: ClassVar[Wanted] = "text"
    """What a line of the data has besides a text."""

    @property
    @override
    def config(self) -> type[EncoderConfig]:
        return EncoderConfig

    def data(self, run: Any) -> Data[Labelled]:
        """What the run was trained with."""
        return load_records(run.recipe.data, self.wanted)

    @override
    def held_out(self, run: Any) -> Iterator[PageExample]:
        for one in self.data(run).split("valid"):
            yield (
                {"text": one.text} if one.other is None else {"text": one.text, "other": one.other}
            )

    @override
    def score_file(self, run: Any, path: Path, **options: Any) -> Evaluation:
        self.options_of(options)
        corpus = read_corpus(str(path), self.wanted, run.recipe.data)
        texts = self.check_file(run, corpus)
        n = run.n_cut(texts)
        cut = f"{path.name}: {counted(n, 'text')} cut to {run.model.config.max_len} tokens"
        notes = (*corpus.notes(path.name), *([cut] if n else []))
        return replace(run.scored(corpus.examples, path.name), notes=notes)

    def check_file(self, run: Any, corpus: Corpus[Labelled]) -> Texts:
        """The texts of a user's file as the run reads them; what it cannot take is refused."""
        return texts_of(corpus.examples)

    @override
    def check_look(self, run: Any, at_most: int, source: str, **more: Any) -> None:
        check_request_length(run, at_most, source, more.get("other"), able="can be looked at")

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
        return self._subject(run, self.read_texts(examples), judge, split, data.notes)

    def read_texts(self, examples: Sequence[Labelled]) -> Texts:
        """Examples as the model reads them."""
        return texts_of(examples)

    @override
    def given_subject(self, run: Any, texts: Sequence[str], name: str, n: int) -> Subject:
        """Judged by how far the vectors of the texts turn: ``moved`` is the mean of 1 - cosine."""
        said = spoken(texts, name, n)
        pairs = TAB in said[0] if run.takes_pairs is None else run.takes_pairs
        given = [_pair(text, name) for text in said] if pairs else said
        return self._subject(run, given, _moved(run, given), name)

    @staticmethod
    def _subject(
        run: EncoderRun, texts: Texts, judge: Scorer, split: str, notes: tuple[str, ...] = ()
    ) -> Subject:
        readings = partial(encoder_readings, run, texts)
        return Subject(run.model, run.device, readings, judge, split, len(texts), notes)


TEXTS_INSTEAD = "regard heads … --texts FILE measures on other texts"


def texts_of(examples: Sequence[Labelled]) -> Texts:
    """The texts of examples, or their pairs."""
    if examples and examples[0].other is not None:
        return [(one.text, one.other or "") for one in examples]
    return [one.text for one in examples]


def _moved(run: EncoderRun, texts: Texts) -> Scorer:
    def vectors() -> Tensor:
        found = run.read(run.table(texts), run.model.pooled, run.model.config.d_model)
        return F.normalize(found.double(), dim=-1)

    before = vectors()
    return lambda: {"moved": 1 - float((vectors() * before).sum(dim=-1).mean())}


def _pair(text: str, name: str) -> tuple[str, str]:
    first, tab, second = text.partition(TAB)
    if not tab:
        raise DataError(f"{name}: this run reads pairs, and there is no tab in {text!r}")
    return first, second
