"""From a recipe to all that training needs, before the first step."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.core.errors import ConfigError, DataError
from regard.data.lines import present
from regard.data.shards import Manifest
from regard.data.word_vectors import Vector, check_width, read_vectors
from regard.evaluation.metrics import check_judged, check_metrics
from regard.layers.embeddings import begin_rows, token_tables
from regard.tasks.base import TASKS, Prepared
from regard.tasks.opening import load
from regard.tasks.reading_verbs import NEIGHBOURS
from regard.tasks.recipe import Recipe
from regard.tasks.rewards import check_objective
from regard.text.tokenizer import Tokenizer

INSTEAD = {
    "train.batch_size": "set train.batch_tokens, which counts tokens, not texts",
    "train.objective": "a reward compares what is written with a text that is right, and here "
    "there is none: leave it out",
}
"""Settings of some tasks -> what to do in all others; else they are left out."""
DECODER = "decoder."
"""How the name of a target's embedding begins."""


def with_vectors(prepared: Prepared) -> Prepared:
    """The same, its embeddings beginning as vectors of words, and a note on how many were found.

    Nothing is drawn. Words that a file, or a run in its place, lacks keep their draw. Two files are
    for the embedding of the source and for that of the target.
    """
    files = prepared.recipe.train.vectors
    if files is None:
        return prepared
    kinds = {tokenizer.kind for tokenizer in prepared.vocabularies}
    if not kinds:
        raise ConfigError(
            f"train.vectors: the task {prepared.recipe.task} has no embedding of words; leave it "
            "out"
        )
    if kinds != {"word"}:
        raise ConfigError(
            f"train.vectors has vectors of words, but the tokens here are of kind "
            f"{' and '.join(sorted(kinds))}; set text.kind=word, or leave it out"
        )
    tables = token_tables(prepared.model)
    if not isinstance(files, str) and len(tables) < 2:
        raise ConfigError(
            f"train.vectors names two files, but there is one embedding, {next(iter(tables))}; "
            "name one file, or set text.shared=false where there is a source and a target"
        )
    notes, n_found = [], 0
    for name, table in tables.items():
        side = int(name.startswith(DECODER))
        file = Path(files if isinstance(files, str) else files[side])
        tokenizer = prepared.vocabularies[side % len(prepared.vocabularies)]
        n = _fill_rows(table, tokenizer, present(file) or file)
        words = tokenizer.n_vocab - len(tokenizer.special_ids)
        notes.append(f"{name}: {n:,} of {words:,} words begin as vectors of {file}")
        n_found += n
    if not n_found:
        raise DataError(
            f"train.vectors: none of the words of the training texts is in {files}; are they of "
            "another language?"
        )
    return replace(prepared, notes=(*prepared.notes, *notes))


def _fill_rows(table: nn.Embedding, tokenizer: Tokenizer, path: Path) -> int:
    """Fill the rows of the words that a file or a run has -> how many.

    A word that it has only in small letters begins as that.
    """
    special = {*tokenizer.special_ids.values()}
    shown = tokenizer.tokens(range(tokenizer.n_vocab))
    words = {word: row for row, word in enumerate(shown) if row not in special}
    wanted = {*words, *(word.lower() for word in words)}
    known = _vectors_of_run if path.is_dir() else read_vectors
    vectors = known(path, wanted, table.embedding_dim)
    found = {
        row: vectors[said]
        for word, row in words.items()
        if (said := word if word in vectors else word.lower()) in vectors
    }
    if found:
        new = torch.from_numpy(np.stack([*found.values()]))
        begin_rows(table, torch.tensor([*found], device=table.weight.device), new)
    return len(found)


def _vectors_of_run(path: Path, wanted: Collection[str], d_model: int) -> dict[str, Vector]:
    """As ``read_vectors``, of a run of the task vectors."""
    run = load(path, device="cpu", verb=NEIGHBOURS)
    check_width(path, run.model.config.d_model, d_model)
    pairs = zip(run.words, run.vectors, strict=True)
    return {word: vector for word, vector in pairs if word in wanted}


def check_used(recipe: Recipe) -> None:
    """Refuse settings that the task does not heed: nobody would notice that they do nothing.

    All of them are told at once.
    """
    heeded = TASKS[recipe.task].heeds
    elsewhere: dict[str, list[str]] = {}
    for name, task in TASKS.items():
        for setting in sorted(task.heeds - heeded):
            elsewhere.setdefault(setting, []).append(name)
    problems = []
    for name, (*others, last) in sorted(elsewhere.items()):
        users = f"{', '.join(others)} and {last}" if others else last
        if (value := _asked(recipe, name)) is not None:
            problem = f"{name}={value} does nothing in the task {recipe.task}, being for {users}"
            problems.append(f"{problem}; {INSTEAD.get(name, 'leave it out')}")
    if problems:
        raise ConfigError("; ".join(problems))


def _asked(recipe: Recipe, name: str) -> Any:
    """What was asked for, if it is anything: not what is so by itself, nor smoothing of 0."""
    section, key = name.split(".")
    settings = getattr(recipe, section)
    value = getattr(settings, key)
    off = key == "label_smoothing" and value == 0
    return None if off or value == type(settings).model_fields[key].default else value


def prepare(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> Prepared:
    """Data and a fresh model, as the recipe's task wants them.

    A run that was ``begun`` keeps its tokenizers, and its weights are known: word vectors are
    needed by a fresh one only. What can be kept of the data goes into ``cache``.
    """
    check_used(recipe)
    check_objective(recipe)
    check_judged(recipe.train.metrics, recipe.data.world)
    prepared = TASKS[recipe.task].prepare(recipe, device, begun=begun, cache=cache)
    if prepared.takes is not None:
        check_metrics(recipe.train.metrics, prepared.takes)
    metrics = (*recipe.train.metrics, *recipe.train.rewards)
    if recipe.train.criterion not in (*prepared.criteria, *metrics):
        raise ConfigError(
            f"train.criterion={recipe.train.criterion} is for other tasks; with this data, "
            f"{recipe.task} has {' and '.join(prepared.criteria)}"
        )
    return prepared if begun is not None else with_vectors(prepared)


def shard(
    recipe: Recipe, *, n_workers: int, say: Callable[[str], None] = lambda _text: None
) -> Manifest:
    """Tokenise the training texts of a recipe into its ``data.shards``, once for all trainings.

    Whoever was interrupted goes on; shards that are missing or damaged are made again.
    """
    check_used(recipe)
    return TASKS[recipe.task].shard(recipe, n_workers=n_workers, say=say)
