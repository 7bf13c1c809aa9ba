"""What every run of an encoder can do: read texts, and give a vector for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.checkpoints.run_folder import RunFolder, load_model
from regard.core.counting import counted
from regard.core.errors import ConfigError
from regard.data.examples import Column, Table
from regard.data.row_batches import Layout, ordered_rows
from regard.models.encoder import Encoder
from regard.models.presets import n_parameters
from regard.models.settings import TaskName
from regard.recipes.recipe import Recipe
from regard.runs.device import pick_device
from regard.runs.evaluation import Evaluation
from regard.runs.facts import common_facts
from regard.runs.given import one_or_many, several
from regard.runs.looking.look import Look
from regard.runs.looking.outcome import Outcome, answer
from regard.runs.looking.reading import Laid, Reader
from regard.runs.opening import check_vocabulary, recipe_in
from regard.runs.tokenizers import load_tokenizer
from regard.runs.verbs import check_task
from regard.text.tokenizer import Tokenizer, unknown_words

READ_TOKENS = 4096
"""Padded tokens that are read at once."""

Vectors = NDArray[np.float32]


class NearText(NamedTuple):
    """A text, and the cosine of its vector with that of the query."""

    text: str
    score: float


Texts = Sequence[str] | Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class EncoderRun(ABC):
    """A trained encoder with all it needs to be used."""

    folder: RunFolder
    recipe: Recipe
    tokenizer: Tokenizer
    model: Encoder
    device: torch.device

    @property
    def task(self) -> TaskName:
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
        return Layout(self.tokenizer.marks, self.model.config.max_len)

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
        or several, as objects or JSON (``regard.runs.edits``), asks what would be if: the model
        reads under it, and is as before afterwards.
        """
        reader = Reader(
            task=self.task,
            model=self.model,
            tokenizer=self.tokenizer,
            layout=self.layout,
            device=self.device,
            pairs=self.takes_pairs,
            encode=self.looked_at,
            came=self.outcome,
        )
        return reader.look(text, other, edit)

    @property
    def takes_pairs(self) -> bool | None:
        """Whether it reads two texts at once (a question and its text); None: one or two."""
        return self.model.config.head == "spans"

    def looked_at(self, text: str) -> list[int]:
        """The ids of a text that is looked at."""
        return self.tokenizer.encode(text)

    def outcome(self, output: Tensor, laid: Laid) -> Outcome:
        """What comes out of a text, given what the head makes of it; mostly but a vector."""
        if self.model.config.head == "spans":
            return answer(output, laid.segments, laid.texts[-1], self.tokenizer)
        return Outcome("vector", "")

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text in which something is that the model has never seen."""
        return unknown_words(self.tokenizer, text)

    def facts(self) -> dict[str, Any]:
        """What was trained, as plain data."""
        return {
            **common_facts(self.recipe, self.model, self.model.config),
            "special_ids": self.tokenizer.special_ids,
        }

    @abstractmethod
    def evaluate(self, split: str = "test") -> Evaluation:
        """Scores on a split of the data the run was trained with."""


def closest(cosines: Vectors, n: int) -> list[int]:
    """The numbers of the largest, largest first; equals in their order."""
    return np.argsort(-cosines, kind="stable")[:n].tolist()


@dataclass(frozen=True, slots=True)
class Opened:
    """What all runs of encoders are made of."""

    folder: RunFolder
    recipe: Recipe
    tokenizer: Tokenizer
    model: Encoder
    device: torch.device

    def parts(self) -> tuple[RunFolder, Recipe, Tokenizer, Encoder, torch.device]:
        """In the order of ``EncoderRun``."""
        return self.folder, self.recipe, self.tokenizer, self.model, self.device


def open_encoder(path: str | Path, task: TaskName, device: str | None) -> Opened:
    """The folder of a run of this task. Nothing in it is executed."""
    folder = RunFolder(Path(path))
    recipe = recipe_in(folder)
    check_task(folder.path, recipe.task, task, f"one of {task}")
    place = pick_device(device)
    model, tokenizer = encoder_in(folder), load_tokenizer(folder.path)
    check_vocabulary(folder, tokenizer, model.config.n_vocab, spare=True)
    return Opened(folder, recipe, tokenizer, model.to(place).eval(), place)


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
