"""Translators from CTranslate2 folders: model.bin, config.json, vocabularies.

The Transformer of Vaswani et al. in the variants that ours has. Where the file holds no table of
positions, CTranslate2 computes sinusoids of its own: all sines, then all cosines, wavelengths
spread over one step less than ours, places counted from 1. They become learned positions here,
with these numbers. Log-probabilities are those of CTranslate2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.checkpoints.interop.ctranslate2_file import Kept, read_file
from regard.checkpoints.interop.ctranslate2_model import ACTIVATIONS, NORM_EPSILON
from regard.checkpoints.interop.ctranslate2_names import rows
from regard.checkpoints.interop.ctranslate2_vocabularies import Vocabularies, read_vocabularies
from regard.checkpoints.interop.imported import Imported
from regard.checkpoints.interop.naming import taken
from regard.checkpoints.interop.renumbering import renumbered
from regard.core.errors import CheckpointError
from regard.functional.positions import sinusoid
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.specials import END_ID

MODEL = "model.bin"
N_PLACES = 512
"""Rows of a table of positions that the file itself has not."""
HEADS = {"": 8, "TransformerBase": 8, "TransformerBig": 16}
"""Of specifications that were too old to say it."""
SIDES = ("encoder", "decoder")
IGNORED = ("alignment_layer", "alignment_heads", "embeddings_merge", "multi_query_attention")
"""Numbers about other things than what is computed here; the last is False or refused."""

_TABLE = "position_encodings/encodings"
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
    notes = _tell_positions(tensors, config)
    shapes, own = _shapes(config)
    weights = taken(rows(config), _of_table(tensors, config), shapes, str(folder / MODEL))
    weights = {name: weights[name].clone() for name in own}  # what was an alias stands alone
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
    said = {
        side: {
            "num_heads": int(numbers.get(f"{side}/num_heads", 8)),
            "pre_norm": bool(numbers.get(f"{side}/pre_norm", True)),
            "activation": int(numbers.get(f"{side}/activation", 0)),
            "scale_embeddings": bool(numbers.get(f"{side}/scale_embeddings", True)),
            "layers": _n_layers(tensors, side),
            "queries_scale": _queries_scale(numbers, side),
        }
        for side in SIDES
    }
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
            activation=activations[found["activation"]],  # type: ignore[arg-type]
            embedding_scale=found["scale_embeddings"],
            output_bias="decoder/projection/bias" in tensors,
            tied_output=output.shape == target.shape and torch.equal(output, target),
            hidden_source_id=None if words.reads_end else END_ID,
            **_positions(tensors, d_model),
        )
    except ValidationError as error:
        told = "; ".join(one["msg"] for one in error.errors())
        raise CheckpointError(f"{where} describes no model: {told}") from None


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
    """What queries are multiplied with where it is not 1/√d; one number for all layers."""
    found = {
        value
        for name, value in numbers.items()
        if name.startswith(side) and name.endswith("/queries_scale")
    }
    return found.pop() if found == {1.0} else None


def _positions(tensors: Mapping[str, Tensor], d_model: int) -> dict[str, Any]:
    """Ours, where the table says so; else a table."""
    table = tensors.get(f"decoder/{_TABLE}")
    if table is None:
        return {"positions": "learned", "max_len": N_PLACES}
    n = len(table)
    same = torch.equal(table, tensors.get(f"encoder/{_TABLE}", table))
    if same and not table.any():
        return {"positions": "none", "max_len": n}
    ours = sinusoid(torch.arange(n), d_model)
    if (
        same
        and table.shape == ours.shape
        and torch.allclose(table.float(), ours, atol=1e-6, rtol=0)
    ):
        return {"positions": "sinusoidal", "max_len": n}
    return {"positions": "learned", "max_len": n}


def _tell_positions(tensors: Mapping[str, Tensor], config: TransformerConfig) -> tuple[str, ...]:
    if config.positions != "learned" or f"decoder/{_TABLE}" in tensors:
        return ()
    return (
        f"the sinusoids of CTranslate2 became learned positions: texts of up to {config.max_len} "
        "tokens can be read and written",
    )


def _of_table(tensors: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """With exactly the tensors that the table of names wants, if nothing is strange."""
    found = dict(tensors)
    for side in SIDES:
        name = f"{side}/{_TABLE}"
        if config.positions != "learned":
            found.pop(name, None)
        elif name not in found:
            found[name] = _their_sinusoid(config.max_len, config.d_model)
    found.setdefault("decoder/projection/weight", found["decoder/embeddings/weight"])
    return found


def _their_sinusoid(n: int, d: int) -> Tensor:
    """(n, d): all sines, then all cosines, from place 1 on."""
    step = math.log(10_000.0) / (d // 2 - 1)
    rates = torch.exp(torch.arange(d // 2, dtype=torch.float32) * -step)
    angles = torch.arange(1, n + 1, dtype=torch.float32).unsqueeze(1) * rates
    return torch.cat((angles.sin(), angles.cos()), dim=1)


def _shapes(config: TransformerConfig) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Of all names, those of tied tensors included; and the names without the copies."""
    with torch.device("meta"):
        skeleton = Transformer(config)
    every = skeleton.named_parameters(remove_duplicate=False)
    own = [name for name, _ in skeleton.named_parameters()]
    return {name: tuple(one.shape) for name, one in every}, own
