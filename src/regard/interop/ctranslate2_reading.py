"""Translators from CTranslate2 folders: model.bin, config.json, vocabularies.

The Transformer of Vaswani et al. in the variants that ours has. Log-probabilities are those of
CTranslate2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.interop.ctranslate2_file import Kept, read_file
from regard.interop.ctranslate2_model import ACTIVATIONS, NORM_EPSILON
from regard.interop.ctranslate2_names import rows
from regard.interop.ctranslate2_positions import (
    SIDES,
    positions_of,
    told_positions,
    with_tables,
)
from regard.interop.ctranslate2_vocabularies import Vocabularies, read_vocabularies
from regard.interop.imported import Imported
from regard.interop.renumbering import renumbered
from regard.interop.skeleton import fitted, shapes
from regard.models.transformer import TransformerConfig
from regard.text.specials import END_ID

MODEL = "model.bin"
HEADS = {"": 8, "TransformerBase": 8, "TransformerBig": 16}
"""Of specifications that were too old to say it."""
IGNORED = ("alignment_layer", "alignment_heads", "embeddings_merge", "multi_query_attention")
"""Numbers about other things than what is computed here; the last is False or refused."""

_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/")


def read_ctranslate2(folder: Path) -> tuple[Imported, list[str], list[str]]:
    """The translator of a folder with our special ids, its source tokens and its target tokens."""
    kept = read_file(folder / MODEL)
    if kept.specification not in (*HEADS, "TransformerSpec"):
        raise CheckpointError(
            f"{folder / MODEL} is a {kept.specification}; encoder-decoders of the Transformer "
            "kind (TransformerSpec) are supported"
        )
    tensors, numbers = _named(kept)
    for name in ("encoder/embeddings_0/weight", "decoder/embeddings/weight"):
        if name not in tensors:
            raise CheckpointError(f"{folder / MODEL} has no {name}")
    n_source = len(tensors["encoder/embeddings_0/weight"])
    n_target = len(tensors["decoder/embeddings/weight"])
    words = read_vocabularies(folder, n_source, n_target)
    config = _config(tensors, numbers, words, folder / MODEL)
    notes = told_positions(tensors, config)
    weights = fitted(config, rows(config), with_tables(tensors, config), str(folder / MODEL))
    weights = {
        name: weights[name].clone() for name in shapes(config)
    }  # what was an alias stands alone
    source, target = words.numbering()
    config, weights = renumbered(config, weights, source, target)
    if words.shared and not config.shared_vocab:
        notes = (*notes, "both sides share their tokens, but not their embeddings")
    return (
        Imported(config, weights, notes),
        source.tokens(words.source),
        target.tokens(words.target),
    )


def _named(kept: Kept) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Tensors under today's names; single numbers by name, those for both sides on both."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, float] = {}
    if kept.revision < 3:
        numbers |= {f"{side}/num_heads": HEADS.get(kept.specification, 8) for side in SIDES}
    for name, tensor in kept.tensors.items():
        if tensor.dim() == 0:
            places = [name] if name.startswith(SIDES) else [f"{side}/{name}" for side in SIDES]
            numbers |= dict.fromkeys(places, tensor.item())
        else:
            tensors[re.sub(r"^encoder/embeddings/", "encoder/embeddings_0/", name)] = tensor
    return tensors, numbers


def _config(
    tensors: Mapping[str, Tensor], numbers: Mapping[str, float], words: Vocabularies, where: Path
) -> TransformerConfig:
    said = {side: _said(tensors, numbers, side) for side in SIDES}
    _refuse(said, numbers, words, where)
    found = said["decoder"]
    source, target = tensors["encoder/embeddings_0/weight"], tensors["decoder/embeddings/weight"]
    output = tensors.get("decoder/projection/weight", target)
    shared = words.shared and source.shape == target.shape and torch.equal(source, target)
    activations = {number: name for name, number in ACTIVATIONS.items()}
    d_model = target.shape[1]
    try:
        return TransformerConfig(
            n_source_vocab=len(source),
            n_target_vocab=len(target),
            shared_vocab=shared,
            d_model=d_model,
            n_layers=found["layers"],
            n_heads=found["num_heads"],
            d_ff=len(tensors.get("encoder/layer_0/ffn/linear_0/weight", target)),
            norm_first=found["pre_norm"],
            bias="encoder/layer_0/ffn/linear_0/bias" in tensors,
            score="dot" if found["queries_scale"] == 1.0 else "scaled_dot",
            activation=activations[found["activation"]],
            embedding_scale=bool(found["scale_embeddings"]),
            output_bias="decoder/projection/bias" in tensors,
            tied_output=output.shape == target.shape and torch.equal(output, target),
            hidden_source_id=None if words.reads_end else END_ID,
            **positions_of(tensors, d_model),
        )
    except ValidationError as error:
        told = "; ".join(one["msg"] for one in error.errors())
        raise CheckpointError(f"{where} describes no model: {told}") from None


def _said(tensors: Mapping[str, Tensor], numbers: Mapping[str, float], side: str) -> dict[str, Any]:
    """What a side says of itself, or CTranslate2 takes for granted."""
    return {
        "num_heads": int(numbers.get(f"{side}/num_heads", 8)),
        "pre_norm": bool(numbers.get(f"{side}/pre_norm", True)),
        "activation": int(numbers.get(f"{side}/activation", 0)),
        "scale_embeddings": numbers.get(f"{side}/scale_embeddings", 1),
        "layers": _n_layers(tensors, side),
        "queries_scale": _queries_scale(numbers, side),
    }


def _refuse(
    said: Mapping[str, Mapping[str, Any]],
    numbers: Mapping[str, float],
    words: Vocabularies,
    where: Path,
) -> None:
    """Whatever ours does not compute."""
    problems = [
        f"{name} is {mine} in the encoder and {said['decoder'][name]} in the decoder"
        for name, mine in said["encoder"].items()
        if mine != said["decoder"][name]
    ]
    if said["decoder"]["activation"] not in ACTIVATIONS.values():
        problems.append(f"activation number {said['decoder']['activation']}")
    for name, supported in (("scale_embeddings", (0, 1)), ("queries_scale", (None, 1.0))):
        if (value := said["decoder"][name]) not in supported:
            problems.append(f"{name}={value}")
    known = ("num_heads", "pre_norm", "activation", "scale_embeddings", "queries_scale", *IGNORED)
    problems += [
        f"{name}={value:g}"
        for name, value in numbers.items()
        if value and name.rsplit("/", 1)[-1] not in known
    ]
    problems += [
        f"{n}={v:g}" for n, v in numbers.items() if v and n.endswith("multi_query_attention")
    ]
    epsilon = words.said.get("layer_norm_epsilon")
    if epsilon not in (None, NORM_EPSILON):
        problems.append(f"layer_norm_epsilon={epsilon} (supported: {NORM_EPSILON})")
    if words.said.get("add_source_bos"):
        problems.append("add_source_bos=true")
    if problems:
        raise CheckpointError(
            f"{where} has what Regard has no counterpart of: {'; '.join(problems)}"
        )


def _n_layers(tensors: Mapping[str, Tensor], side: str) -> int:
    found = (_LAYER.match(name) for name in tensors)
    return len({match[2] for match in found if match and match[1] == side})


def _queries_scale(numbers: Mapping[str, float], side: str) -> float | None:
    """What queries are multiplied with where it is not 1/√d, in the layers that say it."""
    found = [
        value
        for name, value in numbers.items()
        if name.startswith(side) and name.endswith("/queries_scale")
    ]
    return next((value for value in found if value != 1.0), found[0] if found else None)
