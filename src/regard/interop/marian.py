"""Translators from and to MarianMT folders in the layout of Hugging Face.

Imported, a translator gets our special ids. Marian has no begin token: its padding starts a target,
so that row is our BEGIN, and keeps its share in the softmax as it does there (``generate`` hides
padding only after the softmax). Our PAD is a new row without any share. So the log-probability of
every token is what it was. Exported, a translator keeps its ids, and the description tells what
they are.

Marian's sinusoids are all sines, then all cosines; ours take turns. The residual stream knows no
order of its own, so that of every tensor that touches it is changed once, here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.interop import folders, naming
from regard.interop.naming import Imported, Names, Renumbering, renumbered, specials_first
from regard.models.settings import TransformerConfig
from regard.models.transformer import Transformer
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, UNKNOWN, UNKNOWN_ID

SHARED = "model.shared.weight"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OUTPUT, OUTPUT_BIAS = "lm_head.weight", "final_logits_bias"
COMPUTED = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
"""Sinusoids, which old folders keep."""

ENCODER: tuple[Names, ...] = (
    ("self_attn.q_proj", "self_attention.to_q"),
    ("self_attn.k_proj", "self_attention.to_k"),
    ("self_attn.v_proj", "self_attention.to_v"),
    ("self_attn.out_proj", "self_attention.to_out"),
    ("self_attn_layer_norm", "around_self.norm"),
    ("fc1", "feed_forward.inner"),
    ("fc2", "feed_forward.outer"),
    ("final_layer_norm", "around_feed_forward.norm"),
)
DECODER: tuple[Names, ...] = (
    *ENCODER,
    ("encoder_attn.q_proj", "cross_attention.to_q"),
    ("encoder_attn.k_proj", "cross_attention.to_k"),
    ("encoder_attn.v_proj", "cross_attention.to_v"),
    ("encoder_attn.out_proj", "cross_attention.to_out"),
    ("encoder_attn_layer_norm", "around_cross.norm"),
)

_READS = ("to_q.weight", "to_k.weight", "to_v.weight", "inner.weight", "tokens.weight")
_WRITES = ("to_out.weight", "to_out.bias", "outer.weight", "outer.bias", "norm.weight", "norm.bias")

NAME = "MarianMT"

_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "static_position_embeddings": (True,),
    "is_encoder_decoder": (True,),
    "activation_function": tuple(folders.ACTIVATIONS),
}
"""Their settings of which we have a counterpart for these values only."""
_BOTH_SIDES = {"layers": "n_layers", "attention_heads": "n_heads", "ffn_dim": "d_ff"}
"""What encoder and decoder say each, which must be the same, and our settings."""

_COUNTERPARTS: dict[str, tuple[Any, ...]] = {
    "norm_first": (False,),
    "norm": ("layer",),
    "eps": (1e-5,),
    "n_kv_heads": (None,),
    "bias": (True,),
    "positions": ("sinusoidal",),
    "activation": ("relu", "gelu", "gelu_tanh", "silu"),
    "hidden_source_id": (None,),
}
"""The values of our settings that Marian can compute."""

START = "decoder_start_token_id"
IDS = {"pad_token_id": PAD_ID, "bos_token_id": BEGIN_ID, "eos_token_id": END_ID, START: BEGIN_ID}


def rows(config: TransformerConfig) -> Iterator[Names]:
    """The whole table for one Transformer, tensor by tensor."""
    if config.shared_vocab:
        yield SHARED, naming.SOURCE_TOKENS
    else:
        yield SOURCE, naming.SOURCE_TOKENS
        yield TARGET, naming.TARGET_TOKENS
    if not config.tied_output:
        yield OUTPUT, naming.OUTPUT_WEIGHT
    if config.output_bias:
        yield OUTPUT_BIAS, naming.OUTPUT_BIAS
    for i in range(config.n_layers):
        for side, table in (("encoder", ENCODER), ("decoder", DECODER)):
            where = f"{side}.layers.{i}."
            yield from naming.parts(table, naming.WEIGHT_AND_BIAS, f"model.{where}", where)


def in_halves(
    weights: Mapping[str, Tensor], d_model: int, *, back: bool = False
) -> dict[str, Tensor]:
    """Weights by our names with our dimensions of the residual stream -> with Marian's, or back."""
    places = torch.arange(d_model)
    theirs = places // 2 + (d_model + 1) // 2 * (places % 2)  # (D,): where Marian has each of ours
    order, found = theirs if back else theirs.argsort(), dict(weights)
    for name, tensor in weights.items():
        if name.endswith(_READS) or name == naming.OUTPUT_WEIGHT:
            found[name] = tensor[:, order]
        elif name.endswith(_WRITES):
            found[name] = tensor[order]
    return found


def config_of(raw: Mapping[str, Any], where: str) -> TransformerConfig:
    """Our configuration, with their vocabulary as it is."""
    problems = naming.unsupported(raw, _SUPPORTED)
    for name in _BOTH_SIDES:
        one, other = f"encoder_{name}", f"decoder_{name}"
        if one in raw and raw.get(other, raw[one]) != raw[one]:
            both = f"{one}={raw[one]} beside {other}={raw[other]}"
            problems.append(f"{both} (supported: both the same)")
    if problems:
        told = "; ".join(problems)
        raise CheckpointError(f"{where} describes what Regard has no counterpart of: {told}")
    tied = raw.get("tie_word_embeddings", True)
    try:
        ours = {
            "n_source_vocab": raw["vocab_size"],
            "n_target_vocab": raw.get("decoder_vocab_size") or raw["vocab_size"],
            # Where nothing is tied, the embeddings of both sides aren't either.
            "shared_vocab": tied and raw.get("share_encoder_decoder_embeddings", True),
            "d_model": raw["d_model"],
            **{ours: raw[f"encoder_{theirs}"] for theirs, ours in _BOTH_SIDES.items()},
            "dropout": raw.get("dropout", 0.1),
            "max_len": raw.get("max_position_embeddings", 512),
            "activation": folders.ACTIVATIONS[raw.get("activation_function", "gelu")],
            "embedding_scale": raw.get("scale_embedding", False),
            "output_bias": True,
            "tied_output": tied,
        }
        return TransformerConfig.model_validate(ours, strict=True)
    except KeyError as error:
        raise CheckpointError(f"{where} does not say its {error.args[0]}") from None
    except ValidationError as error:
        told = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}, found {one['input']!r}"
            for one in error.errors()
        )
        raise CheckpointError(f"{where} describes no model: {told}") from None


def refusal(config: TransformerConfig) -> str | None:
    """Why a Transformer cannot be exported, or None where it can."""
    return naming.no_counterpart(config, _COUNTERPARTS, NAME)


def described(config: TransformerConfig) -> dict[str, Any]:
    """Marian's description of a model of ours, whose ids stay as they are."""
    both = {theirs: getattr(config, ours) for theirs, ours in _BOTH_SIDES.items()}
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "vocab_size": config.n_source_vocab,
        "decoder_vocab_size": config.n_target_vocab,
        "share_encoder_decoder_embeddings": config.shared_vocab,
        "tie_word_embeddings": config.tied_output,
        "d_model": config.d_model,
        **{f"encoder_{name}": n for name, n in both.items()},
        **{f"decoder_{name}": n for name, n in both.items()},
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "activation_function": folders.THEIR_ACTIVATIONS.get(config.activation, config.activation),
        "scale_embedding": config.embedding_scale,
        "max_position_embeddings": config.max_len,
        **IDS,
        "unk_token_id": UNKNOWN_ID,
        "forced_eos_token_id": None,
        "torch_dtype": "float32",
    }


def searched(config: TransformerConfig) -> dict[str, Any]:
    """What generation_config.json shall say: a target holds neither padding nor a begin."""
    return {**IDS, "bad_words_ids": [[PAD_ID], [BEGIN_ID]], "max_length": config.max_len}


def read_marian(folder: Path) -> Imported:
    """The translator of a folder with config.json and weights, with our special ids."""
    config = config_of(folders.read_config(folder), str(folder / folders.CONFIG))
    tensors = _untied(folders.read_tensors(folder), config)
    unused = (SHARED,) if not config.shared_vocab else ()
    weights = naming.fitted(config, rows(config), tensors, str(folder), (*COMPUTED, *unused))
    weights = in_halves(weights, config.d_model, back=True)
    source, target = marian_numbering(folder)
    if target.same and not weights[naming.OUTPUT_BIAS].any():  # as we export
        del weights[naming.OUTPUT_BIAS]
        config = config.model_copy(update={"output_bias": False})
    return Imported(*renumbered(config, weights, source, target))


def marian_numbering(folder: Path) -> tuple[Renumbering, Renumbering]:
    """How the ids of source and target become ours."""
    raw, path = folders.read_config(folder), folder / folders.CONFIG
    config = config_of(raw, str(path))
    sizes = (config.n_source_vocab, config.n_target_vocab)
    least = min(sizes)
    pad, end = (_id(raw, name, least, path) for name in ("pad_token_id", "eos_token_id"))
    begin = pad if raw.get(START) is None else _id(raw, START, least, path)
    unknown = None
    if raw.get("unk_token_id") is not None:
        unknown = _id(raw, "unk_token_id", least, path)
    elif (words := folder / "vocab.json").exists():
        ids = folders.read_json(words)
        unknown = _id(ids, UNKNOWN, least, words) if UNKNOWN in ids else None
    ids = {"pad": pad, "begin": begin, "end": end, "unknown": unknown}
    return specials_first(sizes[0], **ids), specials_first(sizes[1], **ids)


def _id(raw: Mapping[str, object], name: str, n: int, path: Path) -> int:
    """An id that a file says, of a vocabulary of n tokens."""
    found = raw.get(name)
    if type(found) is not int or not 0 <= found < n:
        raise CheckpointError(
            f"{path} must say {name} as one number from 0 to {n - 1}, found {found!r}"
        )
    return found


def _untied(tensors: dict[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """With every tensor of the table once: tied ones are kept under one name or several."""
    found = dict(tensors)
    kept = SHARED if config.shared_vocab else TARGET
    copies = [SOURCE, TARGET] if config.shared_vocab else []
    for name in [*copies, OUTPUT] if config.tied_output else copies:
        if (copy := found.pop(name, None)) is not None:
            found.setdefault(kept, copy)
    n = len(found.get(kept, ()))  # as many as there are, whatever is said
    found[OUTPUT_BIAS] = found.get(OUTPUT_BIAS, torch.zeros(n)).reshape(-1)
    return found


def write_marian(model: Transformer, folder: Path) -> None:
    """Write config.json, generation_config.json and model.safetensors into a folder."""
    config = model.config
    naming.check_exportable(refusal(config))
    weights = in_halves(dict(model.named_parameters()), config.d_model)
    if config.shared_vocab and not config.tied_output:  # there, all three are tied or none
        weights[naming.TARGET_TOKENS] = weights[naming.SOURCE_TOKENS]
        config = config.model_copy(update={"shared_vocab": False})
    tensors = naming.renamed(rows(config), weights, NAME)
    bias = tensors.get(OUTPUT_BIAS, torch.zeros(config.n_target_vocab))
    tensors[OUTPUT_BIAS] = bias.reshape(1, -1)
    folders.write_json(folder / folders.GENERATION, searched(config))
    folders.write_hf(folder, described(config), tensors)
