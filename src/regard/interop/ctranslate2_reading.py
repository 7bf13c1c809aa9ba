"""Translators from CTranslate2 folders: model.bin, config.json, vocabularies.

The Transformer of Vaswani et al. in the variants that ours has. Log-probabilities are those of
CTranslate2, which is not needed to read them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from regard.core.errors import CheckpointError
from regard.core.files import parse_json, read_bytes, read_text
from regard.core.numbers import told
from regard.functional.positions import sinusoid
from regard.interop.ctranslate2 import ACTIVATIONS, NORM_EPSILON, rows
from regard.interop.folders import CONFIG, read_config
from regard.interop.naming import Imported, Renumbering, fitted, renumbered, shapes, specials_first
from regard.models.settings import TransformerConfig
from regard.text.specials import BEGIN, END, END_ID, PAD, UNKNOWN

VERSIONS = range(2, 7)
TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
"""By number, from version 4 on."""
OLD_TYPES = {4: torch.float32, 2: torch.int16, 1: torch.int8}  # by size in bytes, before
SCALE = "_scale"  # ends the name of what quantised numbers were multiplied with

SHARED, SOURCE, TARGET = "shared_vocabulary", "source_vocabulary", "target_vocabulary"
PADDINGS = (PAD, "<blank>")  # what padding is called, where there is a token for it

SIDES = ("encoder", "decoder")
N_POSITIONS = 512  # rows of a table of positions that the file itself has not

_TABLE = "position_encodings/encodings"

MODEL = "model.bin"
MOST_MODEL = 2**36
"""Bytes of it."""
EMBEDDINGS = ("encoder/embeddings_0/weight", "decoder/embeddings/weight")
HEADS = {"": 8, "TransformerBase": 8, "TransformerBig": 16}
"""Heads by specification, of files that are too old to say it."""
IGNORED = ("alignment_layer", "alignment_heads", "embeddings_merge")
"""Numbers that do not change what is computed."""

_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What a model.bin holds."""

    specification: str
    revision: int
    tensors: dict[str, Tensor]


class _BinReader:
    """The parts of a file, one after the other; all numbers are little-endian."""

    def __init__(self, data: bytes) -> None:
        self.data, self.offset = data, 0

    def take(self, n: int) -> bytes:
        found = self.data[self.offset : self.offset + n]
        if len(found) < n:
            raise ValueError(f"it ends after {len(self.data)} bytes")
        self.offset += n
        return found

    def number(self, n_bytes: int) -> int:
        return int.from_bytes(self.take(n_bytes), "little")

    def text(self) -> str:
        return self.take(self.number(2))[:-1].decode("utf-8")  # a zero ends it

    def tensor(self, version: int) -> Tensor:
        shape = [self.number(4) for _ in range(self.number(1))]
        kind, length = self.number(1), self.number(4)
        dtype = TYPES[kind] if version >= 4 else OLD_TYPES[kind]
        data = bytearray(self.take(length if version >= 4 else length * kind))
        # torch refuses an empty buffer; a shape that asks for more than there is fails in both
        found = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
        return found.view(shape)


def read_file(path: Path) -> ModelFile:
    """All tensors of a model.bin by name, aliases included; quantised ones as float32."""
    try:
        reader = _BinReader(read_bytes(path, MOST_MODEL))
        version = reader.number(4)
        if version not in VERSIONS:
            raise CheckpointError(
                f"{path} is of version {version}; versions {VERSIONS[0]} to {VERSIONS[-1]} are "
                "supported"
            )
        name, revision = reader.text(), reader.number(4)
        tensors = {}
        for _ in range(reader.number(4)):
            called = reader.text()
            tensors[called] = reader.tensor(version)
        tensors = _in_full(tensors)  # before the aliases, which have no scale of their own
        for _ in range(reader.number(4) if version >= 3 else 0):
            alias = reader.text()
            tensors[alias] = tensors[reader.text()]
    except (ValueError, KeyError, IndexError, RuntimeError, OverflowError) as error:
        raise CheckpointError(
            f"{path} is damaged or no model of CTranslate2: {told(error)}"
        ) from error
    return ModelFile(name, revision, tensors)


def _in_full(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Quantised tensors times their scales, as float32; the scales are left out."""
    found = {}
    for name, tensor in tensors.items():
        scale = tensors.get(name + SCALE)
        if name.endswith(SCALE) and name.removesuffix(SCALE) in tensors:
            continue
        if scale is not None and not tensor.is_floating_point():
            if scale.numel() not in (1, *tensor.shape[:1]):  # else a product of both would be made
                raise ValueError(f"{name} has {tensor.shape[:1]} rows and {scale.numel()} scales")
            rows = scale.float().reshape(-1, *[1] * (tensor.dim() - 1))  # one a row, or one for all
            found[name] = tensor.float() / rows
        else:
            found[name] = tensor
    return found


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """Their tokens by their ids, and what their description says of them."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    shared: bool
    said: Mapping[str, Any]

    @property
    def reads_end(self) -> bool:
        """Whether the end token of a source is read."""
        return bool(self.said.get("add_source_eos", False))

    def numbering(self) -> tuple[Renumbering, Renumbering]:
        """How ids of source and target become ours."""
        return self._side(self.source), self._side(self.target)

    def _side(self, tokens: Sequence[str]) -> Renumbering:
        ids = {token: number for number, token in enumerate(tokens)}
        pad = next((ids[name] for name in PADDINGS if name in ids), None)
        begin = self.said.get("decoder_start_token") or self.said.get("bos_token") or BEGIN
        end, unknown = self.said.get("eos_token") or END, self.said.get("unk_token") or UNKNOWN
        for token in {end, begin} if tokens is self.target else {end}:
            if token not in ids:
                raise CheckpointError(f"the vocabulary has no {token!r}, which its model needs")
        first = ids.get(begin, ids[end])
        return specials_first(
            len(tokens), pad=pad, begin=first, end=ids[end], unknown=ids.get(unknown)
        )


def read_vocabularies(folder: Path, n_source: int, n_target: int) -> Vocabularies:
    """One for both sides, or one each; as many tokens as the model has rows."""
    said = read_config(folder) if (folder / CONFIG).exists() else {}
    unknown = said.get("unk_token") or UNKNOWN
    shared = _tokens(folder, SHARED, n_source, unknown)
    source = shared or _tokens(folder, SOURCE, n_source, unknown)
    target = shared or _tokens(folder, TARGET, n_target, unknown)
    if source is None or target is None:
        raise CheckpointError(
            f"{folder} has no vocabulary: expected {SHARED}, or {SOURCE} and {TARGET}, "
            "as .json or .txt"
        )
    return Vocabularies(source, target, shared is not None, said)


def _tokens(folder: Path, name: str, n: int, unknown: str) -> tuple[str, ...] | None:
    paths = (folder / (name + ending) for ending in (".json", ".txt"))
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        return None
    try:
        text = read_text(path)
        as_json = path.suffix == ".json"
        found = parse_json(text) if as_json else text.removesuffix("\n").split("\n")
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if not isinstance(found, list) or not all(isinstance(token, str) for token in found):
        raise CheckpointError(f"{path} must hold a list of tokens")
    if unknown not in found and len(found) == n - 1:
        found = [*found, unknown]  # old vocabularies leave the last one out
    if len(found) != n:
        raise CheckpointError(f"{path} has {len(found)} tokens, but its model has {n} rows")
    return tuple(found)


def positions_of(tensors: Mapping[str, Tensor], d_model: int) -> dict[str, Any]:
    """Our setting: sinusoidal or none where the table is that, else learned."""
    table = tensors.get(f"decoder/{_TABLE}")
    if table is None:
        return {"positions": "learned", "max_len": N_POSITIONS}
    found, ours = "learned", sinusoid(torch.arange(len(table)), d_model)
    if torch.equal(table, tensors.get(f"encoder/{_TABLE}", table)):
        if not table.any():
            found = "none"
        elif table.shape == ours.shape and torch.allclose(table.float(), ours, atol=1e-6, rtol=0):
            found = "sinusoidal"
    return {"positions": found, "max_len": len(table)}


def with_tables(tensors: Mapping[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """The tensors with the output and the tables of positions that ``rows`` asks for, no others."""
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
    """(n, d): all sines, then all cosines, from position 1 on."""
    step = math.log(10_000.0) / (d // 2 - 1)
    rates = torch.exp(torch.arange(d // 2, dtype=torch.float32) * -step)
    angles = torch.arange(1, n + 1, dtype=torch.float32).unsqueeze(1) * rates
    return torch.cat((angles.sin(), angles.cos()), dim=1)


def read_ctranslate2(folder: Path) -> tuple[Imported, list[str], list[str]]:
    """The translator of a folder with our special ids, its source tokens and its target tokens."""
    path = folder / MODEL
    kept = read_file(path)
    if kept.specification not in (*HEADS, "TransformerSpec"):
        raise CheckpointError(
            f"{path} is a {kept.specification}; encoder-decoders of the Transformer "
            "kind (TransformerSpec) are supported"
        )
    tensors, numbers = _named(kept)
    for name in EMBEDDINGS:
        if name not in tensors:
            raise CheckpointError(f"{path} has no {name}")
    n_source, n_target = len(tensors[EMBEDDINGS[0]]), len(tensors[EMBEDDINGS[1]])
    words = read_vocabularies(folder, n_source, n_target)
    config = _config(tensors, numbers, words, path)
    notes = []
    if config.positions == "learned" and f"decoder/{_TABLE}" not in tensors:
        notes.append(
            f"the sinusoids of CTranslate2 became learned positions: texts of up to "
            f"{config.max_len} tokens can be read and written"
        )
    weights = fitted(config, rows(config), with_tables(tensors, config), str(path))
    weights = {name: weights[name].clone() for name in shapes(config)}  # no aliases any more
    source, target = words.numbering()
    config, weights = renumbered(config, weights, source, target)
    if words.shared and not config.shared_vocab:
        notes.append("both sides share their tokens, but not their embeddings")
    imported = Imported(config, weights, tuple(notes))
    return imported, source.tokens(words.source), target.tokens(words.target)


def _named(kept: ModelFile) -> tuple[dict[str, Tensor], dict[str, float]]:
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
    if problems := _problems(said, numbers, words):
        told = "; ".join(problems)
        raise CheckpointError(f"{where} has what Regard has no counterpart of: {told}")
    found = said["decoder"]
    source, target = (tensors[name] for name in EMBEDDINGS)
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
    layers = {match[2] for name in tensors if (match := _LAYER.match(name)) and match[1] == side}
    # What queries are multiplied with where it is not 1/√d, in the layers that say it.
    scales = [x for name, x in numbers.items() if re.match(f"{side}.*/queries_scale$", name)]
    return {
        "num_heads": int(numbers.get(f"{side}/num_heads", 8)),
        "pre_norm": bool(numbers.get(f"{side}/pre_norm", True)),
        "activation": int(numbers.get(f"{side}/activation", 0)),
        "scale_embeddings": numbers.get(f"{side}/scale_embeddings", 1),
        "layers": len(layers),
        "queries_scale": next((x for x in scales if x != 1.0), scales[0] if scales else None),
    }


def _problems(
    said: Mapping[str, Mapping[str, Any]], numbers: Mapping[str, float], words: Vocabularies
) -> list[str]:
    """Settings that we have no counterpart of."""
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
    epsilon = words.said.get("layer_norm_epsilon")
    if epsilon not in (None, NORM_EPSILON):
        problems.append(f"layer_norm_epsilon={epsilon} (supported: {NORM_EPSILON})")
    if words.said.get("add_source_bos"):
        problems.append("add_source_bos=true")
    return problems
