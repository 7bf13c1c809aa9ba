"""What the formats of language models have in common."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.core.files import write_whole
from regard.interop.hf_folder import CONFIG, WEIGHTS
from regard.interop.imported import Imported
from regard.interop.naming import Row
from regard.interop.skeleton import fitted
from regard.models.decoder import DecoderConfig

Names = tuple[str, ...]
"""Theirs, then ours."""


def parts(
    table: Iterable[Names], kinds: Iterable[str], theirs: str = "", ours: str = ""
) -> Iterator[Row]:
    """Rows for the weight, or the weight and the bias, of each layer of a table."""
    for name, *others in table:
        for kind in kinds:
            yield Row(f"{theirs}{name}.{kind}", tuple(f"{ours}{one}.{kind}" for one in others))


def imported(
    config: DecoderConfig,
    rows: Iterable[Row],
    tensors: Mapping[str, Tensor],
    of: str,
    *,
    passed_over: Collection[str] = (),
    notes: Iterable[str | None] = (),
) -> Imported:
    """Their tensors as the weights of our model; the message names ``of`` where they do not fit."""
    weights = fitted(config, rows, tensors, of, passed_over=passed_over)
    return Imported(config, weights, tuple(note for note in notes if note))


def padding(pad: int | None, end: object, n_vocab: int) -> tuple[int, str | None]:
    """The id to pad with, and what to say where the model has none of its own.

    Nothing sees padding at the end of a text, so any token will do that is no target.
    """
    known = range(n_vocab)
    if pad is not None and pad in known:
        return pad, None
    stand_in = end[0] if isinstance(end, list) and end else end
    found = stand_in if isinstance(stand_in, int) and stand_in in known else 0
    return found, f"it has no token for padding; token {found} stands in"


def check_tied(tensors: Mapping[str, Tensor], tokens: str, output: str) -> None:
    """An output matrix that is said to be the embedding may be there twice, not differ from it."""
    if (
        tokens in tensors
        and output in tensors
        and not torch.equal(tensors[tokens], tensors[output])
    ):
        raise CheckpointError(
            f"tie_word_embeddings is true, but {output} is not {tokens}; set it to false in "
            f"{CONFIG} to take both"
        )


def write_hf(folder: Path, description: Mapping[str, object], tensors: dict[str, Tensor]) -> None:
    """A config.json and a model.safetensors, as ``transformers`` reads them."""
    write_whole(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))
    write_whole(folder / CONFIG, json.dumps(dict(description), indent=2) + "\n")
