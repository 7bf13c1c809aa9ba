"""Language models and their tokenizers from GGUF files, through the package ``gguf``.

Tensors that were quantised are written out again by gguf's own functions. Matrices of queries and
keys in a file of the kind ``llama`` already have the pairs that rotary positions turn side by
side, as ours do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, Field, model_validator
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.core.settings import parse
from regard.functional.positions import BASE
from regard.interop import naming
from regard.interop.folders import optional_package
from regard.interop.naming import Imported, Names
from regard.models.settings import DecoderConfig

TOKENS, OUTPUT = "token_embd.weight", "output.weight"
BIAS = "blk.0.attn_output.bias"  # is there where linear layers have biases

NORMS: tuple[Names, ...] = (
    ("attn_norm", "around_self.norm"),
    ("ffn_norm", "around_feed_forward.norm"),
)
OUTER: tuple[Names, ...] = (
    ("attn_output", "self_attention.to_out"),
    ("ffn_down", "feed_forward.outer"),
)
LINEARS: dict[str, tuple[Names, ...]] = {
    "llama": (
        ("attn_q", "self_attention.to_q"),
        ("attn_k", "self_attention.to_k"),
        ("attn_v", "self_attention.to_v"),
        ("ffn_gate", "feed_forward.inner"),
        ("ffn_up", "feed_forward.beside"),
        *OUTER,
    ),
    "gpt2": (
        ("attn_qkv", "self_attention.to_q", "self_attention.to_k", "self_attention.to_v"),
        ("ffn_up", "feed_forward.inner"),
        *OUTER,
    ),
}

LIBRARY = "the package gguf"
FULL = ("F32", "F16", "BF16")  # types of tensors that are not quantised
SPECIAL_IDS = ("bos", "eos", "unknown", "padding")


class Gpt2Sizes(naming.Description):
    """Settings of the kind ``gpt2``, whose names begin with that of the kind."""

    n_layers: int = Field(alias="block_count")
    max_len: int = Field(alias="context_length")
    d_model: int = Field(alias="embedding_length")
    d_ff: int = Field(alias="feed_forward_length")
    n_heads: int = Field(alias="attention.head_count")
    eps: float = Field(alias="attention.layer_norm_epsilon")


class LlamaSizes(Gpt2Sizes):
    """Settings of the kind ``llama``; from ``turned`` on, one value is supported."""

    eps: float = Field(alias="attention.layer_norm_rms_epsilon")
    n_kv_heads: int | None = Field(None, alias="attention.head_count_kv")
    rotary_base: float = Field(BASE, alias="rope.freq_base")
    turned: int | None = Field(None, alias="rope.dimension_count")
    key_length: int | None = Field(None, alias="attention.key_length")
    value_length: int | None = Field(None, alias="attention.value_length")
    scaling: Literal["none"] = Field("none", alias="rope.scaling.type")
    scale: Annotated[float, Field(ge=1, le=1, alias="rope.scale_linear")] = 1.0
    n_experts: Literal[0] = Field(0, alias="expert_count")

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> LlamaSizes:
        widths = {
            "rope.dimension_count": self.turned,
            "attention.key_length": self.key_length,
            "attention.value_length": self.value_length,
        }
        problems = [
            f"llama.{name}={width}: only embedding_length / attention.head_count "
            f"({self.d_model} / {self.n_heads}) is supported"
            for name, width in widths.items()
            if width is not None and width * self.n_heads != self.d_model
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self


KINDS: dict[str, tuple[type[Gpt2Sizes], dict[str, str]]] = {
    "llama": (LlamaSizes, {"norm": "rms", "activation": "swiglu", "positions": "rotary"}),
    "gpt2": (Gpt2Sizes, {"activation": "gelu_tanh"}),
}
"""What a file says of its kind, and our settings that make a model of that kind."""


def rows(config: DecoderConfig, kind: str) -> Iterator[Names]:
    """The whole table for one model, tensor by tensor."""
    norms = naming.WEIGHT_AND_BIAS if config.norm == "layer" else naming.WEIGHT
    linears = naming.WEIGHT_AND_BIAS if config.bias else naming.WEIGHT
    yield TOKENS, "embedding.tokens.weight"
    if config.positions == "learned":
        yield "position_embd.weight", naming.POSITIONS
    for i in range(config.n_layers):
        yield from naming.parts(NORMS, norms, f"blk.{i}.", f"layers.{i}.")
        yield from naming.parts(LINEARS[kind], linears, f"blk.{i}.", f"layers.{i}.")
    yield from naming.parts((("output_norm", "norm"),), norms)
    if not config.tied:
        yield OUTPUT, "to_logits.weight"


class CarriedTokenizer(BaseModel):
    """What a file says about its tokenizer, as it says it."""

    kind: str = Field(alias="model")
    """``gpt2`` is byte-level BPE, ``llama`` is SentencePiece."""
    before: str | None = Field(None, alias="pre")
    """The name of the rule by which texts are cut before merging."""
    tokens: tuple[str, ...]
    """In the order of their ids."""
    types: tuple[int, ...] = Field((), alias="token_type")
    """A number a token: 1 normal, 2 unknown, 3 control, 4 the user's, 5 unused, 6 a byte."""
    merges: tuple[str, ...] = ()
    """Pairs with a space between them, the first merged first."""
    special_ids: dict[str, int]
    """By what they are for: bos, eos, unknown, padding."""
    adds_begin: bool = Field(False, alias="add_bos_token")
    adds_end: bool = Field(False, alias="add_eos_token")
    chat_template: str | None
    """In the language of Jinja."""


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
    pad_id, notes = naming.padding(ids.get("padding"), ids.get("eos"), n_vocab)
    description, architecture = KINDS[kind]
    ours = {
        **architecture,
        **parse(description, _under(f"{kind}.", settings), kind).ours(),
        "n_vocab": max(n_vocab, 1),
        "pad_id": pad_id,
        "tied": OUTPUT not in tensors,
        "bias": BIAS in tensors,
        "dropout": 0.0,
    }
    config = parse(DecoderConfig, ours, kind)
    sizes = ("n_vocab", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_ff", "max_len")
    of = f"{path} (of the kind {kind}: {naming.listed(config.model_dump(), sizes)})"
    weights = naming.fitted(config, rows(config, kind), tensors, of)
    return Imported(config, weights, (*notes, *quantised))


def read_gguf_tokenizer(path: Path) -> CarriedTokenizer:
    """What the file says about its tokenizer."""
    settings = _settings(_opened(path), path)
    found = _under("tokenizer.ggml.", settings)
    if "model" not in found or "tokens" not in found:
        raise CheckpointError(f"{path} carries no tokenizer")
    template = settings.get("tokenizer.chat_template")
    more = {"special_ids": _special_ids(settings), "chat_template": template}
    return parse(CarriedTokenizer, {**found, **more}, str(path))


def _opened(path: Path) -> Any:
    gguf = optional_package("gguf", LIBRARY)
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}")
    try:
        reader = gguf.GGUFReader(path)
    except Exception as error:  # a torn file fails in any way
        raise CheckpointError(f"{path} is not a GGUF file, or damaged: {error}") from error
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


def _under(prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): x for name, x in settings.items() if name.startswith(prefix)}


def _special_ids(settings: Mapping[str, Any]) -> dict[str, int]:
    names = {name: f"tokenizer.ggml.{name}_token_id" for name in SPECIAL_IDS}
    return {name: settings[key] for name, key in names.items() if key in settings}


def _tensors(reader: Any, path: Path) -> tuple[dict[str, Tensor], list[str]]:
    """All tensors by name, and what to say about how they were kept."""
    dequantize = optional_package("gguf", LIBRARY).quants.dequantize
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
    note = f"tensors kept as {', '.join(quantised)} were written out as float32"
    return found, [note] if quantised else []
