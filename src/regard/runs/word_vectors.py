"""Models whose embeddings begin as the word vectors of ``train.vectors``, whatever their task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.core.errors import ConfigError, DataError
from regard.data.lines import present
from regard.data.settings import Files
from regard.data.word_vectors import read_vectors
from regard.layers.word_vectors import begin_rows, token_tables
from regard.runs.prepared import Prepared
from regard.text.tokenizer import Tokenizer

DECODER = "decoder."
"""How the name of a target's embedding begins."""


def with_vectors(prepared: Prepared) -> Prepared:
    """The same, its embeddings beginning as vectors of words, and a note on how many were found.

    Nothing is drawn. Words that a file lacks keep their draw. Two files are for the embedding of
    the source and for that of the target.
    """
    files = prepared.recipe.train.vectors
    if files is None:
        return prepared
    _check_words(prepared)
    tables = token_tables(prepared.model)
    _check_files(files, [*tables])
    notes, n_found = [], 0
    for name, table in tables.items():
        side = int(name.startswith(DECODER))
        file = Path(files if isinstance(files, str) else files[side])
        tokenizer = prepared.vocabularies[side % len(prepared.vocabularies)]
        n = _begin(table, tokenizer, present(file) or file)
        words = tokenizer.n_vocab - len(tokenizer.special_ids)
        notes.append(f"{name}: {n:,} of {words:,} words begin as vectors of {file}")
        n_found += n
    if not n_found:
        raise DataError(
            f"train.vectors: none of the words of the training texts is in {files}; are they of "
            "another language?"
        )
    return replace(prepared, notes=(*prepared.notes, *notes))


def _check_files(files: Files, tables: Sequence[str]) -> None:
    """Of two files, each is for an embedding of its own."""
    if not isinstance(files, str) and len(tables) < 2:
        raise ConfigError(
            f"train.vectors names two files, but there is one embedding, {tables[0]}; name one "
            "file, or set text.shared=false where there is a source and a target"
        )


def _check_words(prepared: Prepared) -> None:
    """Vectors are of words, so a token must be one."""
    kinds = {tokenizer.kind for tokenizer in prepared.vocabularies}
    if kinds == {"word"}:
        return
    if not kinds:
        raise ConfigError(
            f"train.vectors: the task {prepared.recipe.task} has no embedding of words; leave it "
            "out"
        )
    raise ConfigError(
        f"train.vectors has vectors of words, but the tokens here are of kind "
        f"{' and '.join(sorted(kinds))}; set text.kind=word, or leave it out"
    )


def _begin(table: nn.Embedding, tokenizer: Tokenizer, path: Path) -> int:
    """Fill the rows of the words that a file has -> how many.

    A word that it has only in small letters begins as that.
    """
    special = {*tokenizer.special_ids.values()}
    shown = tokenizer.tokens(range(tokenizer.n_vocab))
    words = {word: row for row, word in enumerate(shown) if row not in special}
    wanted = {*words, *(word.lower() for word in words)}
    vectors = read_vectors(path, wanted, table.embedding_dim)
    found = {
        row: vectors[said]
        for word, row in words.items()
        if (said := word if word in vectors else word.lower()) in vectors
    }
    if found:
        new = torch.from_numpy(np.stack([*found.values()]))
        begin_rows(table, torch.tensor([*found], device=table.weight.device), new)
    return len(found)
