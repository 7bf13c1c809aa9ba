"""Language models as folders of GPT-2, in the layout of Hugging Face: names on both sides.

GPT-2 keeps its matrices as (in, out), and queries, keys and values side by side in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.functional.positions import sinusoid
from regard.interop.decoders import (
    Names,
    check_tied,
    imported,
    parts,
    write_hf,
)
from regard.interop.gpt2_config import (
    NAME,
    Description,
    described,
    refusal,
)
from regard.interop.hf_folder import CONFIG, read_config, read_tensors
from regard.interop.imported import Imported
from regard.interop.naming import Row, renamed
from regard.interop.skeleton import shapes
from regard.models.decoder import DecoderConfig

PREFIX = "transformer."
"""Before all names but the output's; some folders leave it out."""
TOKENS, OUTPUT = "wte.weight", "lm_head.weight"

LAYER: tuple[Names, ...] = (
    ("ln_1", "around_self.norm"),
    ("attn.c_attn", "self_attention.to_q", "self_attention.to_k", "self_attention.to_v"),
    ("attn.c_proj", "self_attention.to_out"),
    ("ln_2", "around_feed_forward.norm"),
    ("mlp.c_fc", "feed_forward.inner"),
    ("mlp.c_proj", "feed_forward.outer"),
)
BUFFERS = (".attn.bias", ".attn.masked_bias")
"""Of a layer: masks, which some folders carry."""
TURNED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


def rows(config: DecoderConfig, prefix: str = PREFIX) -> Iterator[Row]:
    """The whole table for one model, tensor by tensor."""
    yield Row(prefix + TOKENS, ("embedding.tokens.weight",))
    yield Row(f"{prefix}wpe.weight", ("embedding.positions.table",))
    for i in range(config.n_layers):
        yield from parts(LAYER, ("weight", "bias"), f"{prefix}h.{i}.", f"layers.{i}.")
    yield from parts((("ln_f", "norm"),), ("weight", "bias"), prefix)
    if not config.tied:
        yield Row(OUTPUT, ("to_logits.weight",))


def read_gpt2(folder: Path) -> Imported:
    """The model of a folder whose config.json says ``gpt2``."""
    said = parse(Description, read_config(folder), CONFIG)
    config = said.ours()
    tensors = read_tensors(folder)
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    passed_over = {name for name in tensors if name.endswith(BUFFERS)}
    if config.tied:
        check_tied(tensors, prefix + TOKENS, OUTPUT)
        passed_over.add(OUTPUT)
    sizes = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    told = ", ".join(f"{name}={getattr(said, name)}" for name in sizes)
    of = f"{folder} (a {NAME} of {told}, n_inner={config.d_ff}; matrices told as out × in)"
    table = rows(config, prefix)
    notes = said.notes()
    return imported(config, table, _turned(tensors), of, passed_over=passed_over, notes=notes)


def write_gpt2(config: DecoderConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write config.json and model.safetensors into a folder that exists.

    Biases that our model lacks are written as zeros, and sinusoids as a table of ``max_len`` rows.
    """
    why_not = refusal(config)
    if why_not:
        raise ConfigError(f"this model cannot be exported: {why_not}")
    full = config.model_copy(update={"bias": True, "positions": "learned"})
    beyond = {name: torch.zeros(shape) for name, shape in shapes(full).items()}
    for name in shapes(config):
        del beyond[name]
    if config.positions == "sinusoidal":
        table = sinusoid(torch.arange(config.max_len), config.d_model)
        beyond["embedding.positions.table"] = table
    tensors = renamed(rows(full), {**weights, **beyond}, NAME)
    write_hf(folder, described(config), _turned(tensors))


def _turned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """(in, out) to (out, in), or back."""
    return {
        name: x.t().contiguous() if name.endswith(TURNED) and x.dim() == 2 else x
        for name, x in tensors.items()
    }
