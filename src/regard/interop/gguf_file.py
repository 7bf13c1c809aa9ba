"""Language models and their tokenizers from GGUF files, through the package ``gguf``.

Tensors that were quantised are written out again by gguf's own functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import CheckpointError, ConfigError
from regard.core.settings import parse
from regard.interop.decoders import imported, padding
from regard.interop.gguf_names import BIAS, KINDS, OUTPUT, TOKENS, Llama, rows
from regard.interop.imported import Imported
from regard.models.decoder import DecoderConfig

FULL = ("F32", "F16", "BF16")
"""Types of tensors that are not quantised."""
SPECIAL_IDS = ("bos", "eos", "unknown", "padding")


@dataclass(frozen=True, slots=True)
class CarriedTokenizer:
    """What a file says about its tokenizer, as it says it."""

    kind: str
    """``gpt2`` is byte-level BPE, ``llama`` is SentencePiece."""
    before: str | None
    """The name of the rule by which texts are cut before merging."""
    tokens: tuple[str, ...]
    """In the order of their ids."""
    types: tuple[int, ...]
    """A number a token: 1 normal, 2 unknown, 3 control, 4 the user's, 5 unused, 6 a byte."""
    scores: tuple[float, ...]
    merges: tuple[str, ...]
    """Pairs with a space between them, the first merged first."""
    special_ids: dict[str, int]
    """By what they are for: bos, eos, unknown, padding."""
    adds: dict[str, bool]
    """What is put before or after a text: space_prefix, bos_token, eos_token."""
    chat_template: str | None
    """In the language of Jinja."""


def library() -> Any:
    """The package ``gguf``, or how to get it."""
    try:
        import gguf
    except ImportError as error:
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        raise ConfigError(
            f"the package gguf cannot be imported{reason}; install it with: pip install "
            "'regard[gguf]'"
        ) from None
    return gguf


def read_gguf(path: Path) -> Imported:
    """The model of a file, its numbers as float32."""
    reader = _opened(path)
    settings = _settings(reader, path, "tokenizer.ggml.tok", "tokenizer.ggml.merges")
    kind = str(settings.get("general.architecture"))
    if kind not in KINDS:
        raise CheckpointError(
            f"{path} holds a model of the kind {kind!r}; supported are {', '.join(KINDS)}"
        )
    tensors, quantised = _tensors(reader, path)
    n_vocab = len(tensors[TOKENS]) if TOKENS in tensors else 0
    ids = _special_ids(settings)
    pad_id, note = padding(ids.get("padding"), ids.get("eos"), n_vocab)
    config = _config(kind, settings, tensors, n_vocab=max(n_vocab, 1), pad_id=pad_id)
    sizes = ("n_vocab", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "max_len")
    told = ", ".join(f"{name}={getattr(config, name)}" for name in sizes)
    of = f"{path} (of the kind {kind}: {told})"
    return imported(config, rows(config, kind), tensors, of, notes=(note, quantised))


def read_gguf_tokenizer(path: Path) -> CarriedTokenizer:
    """What the file says about its tokenizer."""
    settings = _settings(_opened(path), path)
    found = {
        name.removeprefix("tokenizer.ggml."): value
        for name, value in settings.items()
        if name.startswith("tokenizer.ggml.")
    }
    if "model" not in found or "tokens" not in found:
        raise CheckpointError(f"{path} carries no tokenizer")
    return CarriedTokenizer(
        kind=found["model"],
        before=found.get("pre"),
        tokens=tuple(found["tokens"]),
        types=tuple(found.get("token_type", ())),
        scores=tuple(found.get("scores", ())),
        merges=tuple(found.get("merges", ())),
        special_ids=_special_ids(settings),
        adds={
            name: bool(found[f"add_{name}"])
            for name in ("space_prefix", "bos_token", "eos_token")
            if f"add_{name}" in found
        },
        chat_template=settings.get("tokenizer.chat_template"),
    )


def _opened(path: Path) -> Any:
    gguf = library()
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}")
    try:
        reader = gguf.GGUFReader(path)
    except Exception as error:  # a torn file fails in any way
        raise CheckpointError(f"{path} is no GGUF file, or damaged: {error}") from error
    if reader.byte_order != "I":
        raise CheckpointError(f"{path} was written for machines of another byte order")
    return reader


def _settings(reader: Any, path: Path, *left_out: str) -> dict[str, Any]:
    """All values by their names, but those whose names begin so: long ones take a while."""
    try:
        return {
            name: field.contents()
            for name, field in reader.fields.items()
            if not name.startswith(left_out)
        }
    except ValueError as error:  # no UTF-8
        raise CheckpointError(f"{path} is damaged: {error}") from error


def _special_ids(settings: Mapping[str, Any]) -> dict[str, int]:
    names = {name: f"tokenizer.ggml.{name}_token_id" for name in SPECIAL_IDS}
    return {name: settings[key] for name, key in names.items() if key in settings}


def _config(
    kind: str, settings: Mapping[str, Any], tensors: Mapping[str, Tensor], **known: int
) -> DecoderConfig:
    begin = f"{kind}."
    own = {name.removeprefix(begin): x for name, x in settings.items() if name.startswith(begin)}
    sizes = parse(KINDS[kind], own, kind)
    if isinstance(sizes, Llama) and sizes.odd():
        raise ConfigError("; ".join(sizes.odd()))
    seen = {"tied": OUTPUT not in tensors, "bias": BIAS in tensors, "dropout": 0.0}
    return parse(DecoderConfig, {**sizes.ours(), **seen, **known}, kind)


def _tensors(reader: Any, path: Path) -> tuple[dict[str, Tensor], str | None]:
    """All tensors by name, and what to say about how they were kept."""
    dequantize = library().quants.dequantize
    found: dict[str, Tensor] = {}
    types: dict[str, None] = {}
    for one in reader.tensors:
        types[one.tensor_type.name] = None
        try:
            numbers = dequantize(one.data, one.tensor_type)
        except NotImplementedError:
            raise CheckpointError(
                f"{path}: tensor {one.name} is kept as {one.tensor_type.name}, which the package "
                "gguf cannot write out; take a file of another quantisation"
            ) from None
        found[one.name] = torch.from_numpy(np.array(numbers, dtype=np.float32))
    quantised = [name for name in types if name not in FULL]
    if not quantised:
        return found, None
    return found, f"tensors kept as {', '.join(quantised)} were written out as float32"
