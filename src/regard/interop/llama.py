"""Language models as folders of LLaMA, in the layout of Hugging Face: names on both sides.

Rotary positions there turn number i of a head with number i + d/2; ours turn neighbours. So the
rows that make queries and keys change places on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from torch import Tensor

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.interop.decoders import (
    Names,
    check_tied,
    imported,
    parts,
    write_hf,
)
from regard.interop.hf_folder import CONFIG, read_config, read_tensors
from regard.interop.imported import Imported
from regard.interop.llama_config import NAME, Description, described, refusal
from regard.interop.naming import Row, renamed
from regard.models.decoder import DecoderConfig

PREFIX = "model."
"""Before all names but the output's; some folders leave it out."""
TOKENS, OUTPUT = "embed_tokens.weight", "lm_head.weight"

NORMS: tuple[Names, ...] = (
    ("input_layernorm", "around_self.norm"),
    ("post_attention_layernorm", "around_feed_forward.norm"),
)
LINEARS: tuple[Names, ...] = (
    ("self_attn.q_proj", "self_attention.to_q"),
    ("self_attn.k_proj", "self_attention.to_k"),
    ("self_attn.v_proj", "self_attention.to_v"),
    ("self_attn.o_proj", "self_attention.to_out"),
    ("mlp.gate_proj", "feed_forward.inner"),
    ("mlp.up_proj", "feed_forward.beside"),
    ("mlp.down_proj", "feed_forward.outer"),
)
BUFFER = ".self_attn.rotary_emb.inv_freq"
"""Of a layer: angles, which old folders carry."""


def rows(config: DecoderConfig, prefix: str = PREFIX) -> Iterator[Row]:
    """The whole table for one model, tensor by tensor."""
    kinds = ("weight", "bias") if config.bias else ("weight",)
    yield Row(prefix + TOKENS, ("embedding.tokens.weight",))
    for i in range(config.n_layers):
        yield from parts(NORMS, ("weight",), f"{prefix}layers.{i}.", f"layers.{i}.")
        yield from parts(LINEARS, kinds, f"{prefix}layers.{i}.", f"layers.{i}.")
    yield Row(f"{prefix}norm.weight", ("norm.weight",))
    if not config.tied:
        yield Row(OUTPUT, ("to_logits.weight",))


def read_llama(folder: Path) -> Imported:
    """The model of a folder whose config.json says ``llama``."""
    said = parse(Description, read_config(folder), CONFIG)
    config = said.ours()
    tensors = read_tensors(folder)
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    passed_over = {name for name in tensors if name.endswith(BUFFER)}
    if config.tied:
        check_tied(tensors, prefix + TOKENS, OUTPUT)
        passed_over.add(OUTPUT)
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    told = ", ".join(f"{name}={getattr(said, name)}" for name in sizes)
    of = (
        f"{folder} (a {NAME} of {told}, num_key_value_heads={config.kv_heads}, "
        f"intermediate_size={config.d_ff})"
    )
    found = imported(
        config, rows(config, prefix), tensors, of, passed_over=passed_over, notes=said.notes()
    )
    return Imported(config, _replaced(config, found.weights, neighbours), found.notes)


def write_llama(config: DecoderConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write config.json and model.safetensors into a folder that exists."""
    why_not = refusal(config)
    if why_not:
        raise ConfigError(f"this model cannot be exported: {why_not}")
    tensors = renamed(rows(config), _replaced(config, weights, halves), NAME)
    write_hf(folder, described(config), tensors)


def neighbours(x: Tensor, n_heads: int) -> Tensor:
    """Rows (H·d, …) whose pairs are half a head apart -> rows whose pairs lie side by side."""
    return x.unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def halves(x: Tensor, n_heads: int) -> Tensor:
    """The inverse of ``neighbours``."""
    return x.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def _replaced(
    config: DecoderConfig, weights: Mapping[str, Tensor], order: Callable[[Tensor, int], Tensor]
) -> dict[str, Tensor]:
    """Our weights, with the rows of queries and keys in another order."""
    heads = {".to_q.": config.n_heads, ".to_k.": config.kv_heads}
    found = dict(weights)
    for name, x in weights.items():
        for part, n in heads.items():
            if part in name:
                found[name] = order(x, n)
    return found
