"""Models as ONNX files, with the names that Optimum gives files, inputs, outputs and axes.

==========================  ====================================================================
``encoder_model``           ``input_ids`` and ``attention_mask`` (B, S) -> ``last_hidden_state``
                            (B, S, D)
``decoder_model``           ``input_ids`` (B, T) from the begin token on, ``encoder_hidden_states``
                            and ``encoder_attention_mask`` -> ``logits`` (B, T, V) and
                            ``present.I.decoder.key``, ``.decoder.value``, ``.encoder.key``,
                            ``.encoder.value`` (B, H, length, D / H) of each layer I
``decoder_with_past_model`` one more token (B, 1) after ``past_key_values.I.…``, by the same names
                            -> ``logits`` (B, 1, V) and ``present.I.decoder.…``
``model``                   of a decoder alone: ``input_ids``, ``attention_mask`` of the past and
                            them, ``position_ids`` and ``past_key_values.I.key``, ``.value``, which
                            may be empty -> ``logits`` and ``present.I.key``, ``.value``
``model``                   of an encoder alone: ``input_ids``, ``attention_mask`` and, where it
                            tells texts apart, ``token_type_ids`` -> ``last_hidden_state`` or what
                            its head gives
``model``                   of pictures: ``pixel_values`` (B, 3, S, S), prepared as
                            preprocessor_config.json says -> ``logits`` (B, labels)
==========================  ====================================================================

Lengths are free, up to the model's ``max_len``. A mask is 0 where nobody may look.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.core.errors import ConfigError
from regard.layers.blocks import DecoderBlock
from regard.layers.key_values import DecoderState, KeyValues, SourceMemory
from regard.models.decoder import LanguageModel
from regard.models.encoder import Encoder
from regard.models.settings import BlocksConfig
from regard.models.transformer import Transformer
from regard.models.vision import VisionTransformer

NAME = "ONNX"
MODEL = "model.onnx"
ENCODER, DECODER = "encoder_model.onnx", "decoder_model.onnx"
DECODER_WITH_PAST = "decoder_with_past_model.onnx"
SOURCE, TARGET, PAST = (
    "encoder_sequence_length",
    "decoder_sequence_length",
    "past_decoder_sequence_length",
)
BATCH, LENGTH, PAST_LENGTH = "batch_size", "sequence_length", "past_sequence_length"
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "none": ("last_hidden_state",),
    "classify": ("logits",),
    "masked": ("logits",),
    "spans": ("start_logits", "end_logits"),
}
"""What an encoder gives, by its head."""


class GrowingKeyValues(KeyValues):
    """Keys and values of a past that is handed over anew at each step: nothing is kept ready."""

    __slots__ = ()

    @override
    def extended(self, other: KeyValues) -> KeyValues:
        return KeyValues(torch.cat((self.k, other.k), dim=-2), torch.cat((self.v, other.v), dim=-2))


class Given(NamedTuple):
    """An input: a tensor to trace with, and the names of its axes that are free."""

    example: Tensor
    axes: dict[int, str]


# ------------------------------------------------------------------ graphs


class SourceGraph(nn.Module):
    """The encoder of a translator."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(B, S), (B, S) -> (B, S, D)"""
        source = ids.masked_fill(mask == 0, self.model.config.pad_id)
        return self.model.encoder(source, self.model.source_mask(source))


class TargetGraph(nn.Module):
    """The decoder of a translator at the beginning of a target."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, mask: Tensor, ids: Tensor, encoded: Tensor) -> tuple[Tensor, ...]:
        """(B, S), (B, T), (B, S, D) -> logits (B, T, V), and keys and values of each layer."""
        memory = SourceMemory(self.model.decoder.project(encoded), _seen(mask))
        states, now = self.model.decoder(ids, memory, self.model.start(memory))
        kept = zip(now.layers, memory.layers, strict=True)
        tensors = [x for own, source in kept for x in (own.k, own.v, source.k, source.v)]
        return self.model.logits(states), *tensors


class NextTargetGraph(nn.Module):
    """The decoder of a translator after a past."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, mask: Tensor, ids: Tensor, past: list[Tensor]) -> tuple[Tensor, ...]:
        """(B, S), (B, 1), four a layer -> logits (B, 1, V), and the target's keys and values."""
        own = DecoderState(tuple(map(GrowingKeyValues, past[::4], past[1::4])))
        memory = SourceMemory(tuple(map(KeyValues, past[2::4], past[3::4])), _seen(mask))
        states, now = self.model.decoder(ids, memory, own)
        return self.model.logits(states), *[x for layer in now.layers for x in (layer.k, layer.v)]


class LanguageGraph(nn.Module):
    """A language model after a past, which may be empty; texts may begin with padding."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Tensor, mask: Tensor, positions: Tensor, past: list[Tensor]
    ) -> tuple[Tensor, ...]:
        """(B, T), (B, P + T), (B, T), two a layer -> logits (B, T, V), and keys and values."""
        x, kept = self.model.embedding(ids, positions), []
        pasts = map(GrowingKeyValues, past[::2], past[1::2])
        layers = cast("Iterable[DecoderBlock]", self.model.layers)
        for layer, before in zip(layers, pasts, strict=True):
            x, now = layer(x, before, mask=_seen(mask))
            kept += [now.k, now.v]
        return self.model.logits(self.model.norm(x)), *kept


class TextGraph(nn.Module):
    """An encoder alone with its head."""

    def __init__(self, model: Encoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Tensor, mask: Tensor, segments: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """(B, S) each -> what the head gives; starts (B, S) and ends (B, S) apart."""
        found = self.model(ids.masked_fill(mask == 0, self.model.config.pad_id), segments)
        return found.unbind(dim=-1) if self.model.config.head == "spans" else (found,)


class PictureGraph(nn.Module):
    """A model of pictures whose pixels were prepared outside."""

    def __init__(self, model: VisionTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, S, S), around 0 -> (B, labels)"""
        prepared = self.model.encoder.pixel_norm
        return self.model(pixels * prepared.std + prepared.mean)


def _seen(mask: Tensor) -> Tensor:
    """(B, S) of numbers -> (B, 1, 1, S): what may be looked at."""
    return (mask != 0)[:, None, None, :]


# ------------------------------------------------------------------ files


def write_onnx(model: Transformer, folder: Path) -> None:
    """Write the three files of a translator into a folder that exists."""
    config = model.eval().config
    _check_blocks(config)
    source = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]).remainder(config.n_source_vocab)
    target = torch.tensor([[1, 4, 3], [1, 3, 5]]).remainder(config.n_target_vocab)
    read = Given((source != 0).long(), {0: BATCH, 1: SOURCE})
    first, then = TargetGraph(model), NextTargetGraph(model)
    _write(
        SourceGraph(model),
        {"input_ids": Given(source, read.axes), "attention_mask": read},
        ["last_hidden_state"],
        folder / ENCODER,
    )
    with torch.no_grad():
        encoded = SourceGraph(model)(source, read.example)
        _, *kept = first(read.example, target, encoded)
    given = {
        "encoder_attention_mask": read,
        "input_ids": Given(target, {0: BATCH, 1: TARGET}),
        "encoder_hidden_states": Given(encoded, read.axes),
    }
    names = [
        f"{layer}.{side}.{part}"
        for layer in range(config.n_layers)
        for side in ("decoder", "encoder")
        for part in ("key", "value")
    ]
    _write(first, given, ["logits", *_present(names)], folder / DECODER)
    past = {
        f"past_key_values.{name}": Given(x, {0: BATCH, 2: PAST if "decoder" in name else SOURCE})
        for name, x in zip(names, kept, strict=True)
    }
    given = {"encoder_attention_mask": read, "input_ids": Given(target[:, :1], {0: BATCH})}
    own = [name for name in names if "decoder" in name]
    _write(then, given, ["logits", *_present(own)], folder / DECODER_WITH_PAST, past)


def write_onnx_decoder(model: LanguageModel, folder: Path) -> None:
    """Write model.onnx of a language model into a folder that exists."""
    config = model.eval().config
    _check_blocks(config)
    n_past, axes = 2, {0: BATCH, 1: LENGTH}
    ids = torch.tensor([[5, 6, 7], [8, 9, 4]]).remainder(config.n_vocab)
    given = {
        "input_ids": Given(ids, axes),
        "attention_mask": Given(torch.ones(2, n_past + 3).long(), {0: BATCH, 1: "total_length"}),
        "position_ids": Given(torch.arange(n_past, n_past + 3).repeat(2, 1), axes),
    }
    names = [f"{layer}.{part}" for layer in range(config.n_layers) for part in ("key", "value")]
    empty = torch.zeros(2, config.kv_heads, n_past, config.head_width)
    past = {
        f"past_key_values.{name}": Given(empty.clone(), {0: BATCH, 2: PAST_LENGTH})
        for name in names
    }
    _write(LanguageGraph(model), given, ["logits", *_present(names)], folder / MODEL, past)


def write_onnx_encoder(model: Encoder, folder: Path) -> None:
    """Write model.onnx of an encoder into a folder that exists."""
    config = model.eval().config
    if config.cell is not None:
        raise ConfigError(
            f"this model cannot be exported: {NAME} export is for encoders that attend, and this "
            f"one reads with cell={config.cell}"
        )
    _check_blocks(config)
    ids = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]).remainder(config.n_vocab)
    inputs = {"input_ids": ids, "attention_mask": (ids != config.pad_id).long()}
    if config.n_segments > 1:
        inputs["token_type_ids"] = torch.zeros_like(ids)
    given = {name: Given(x, {0: BATCH, 1: LENGTH}) for name, x in inputs.items()}
    _write(TextGraph(model), given, OUTPUTS[config.head], folder / MODEL)


def write_onnx_vision(model: VisionTransformer, folder: Path) -> None:
    """Write model.onnx of a model of pictures into a folder that exists."""
    config = model.eval().config
    _check_blocks(config)
    pixels = torch.linspace(-1, 1, 2 * 3 * config.image_size**2)
    shaped = pixels.view(2, 3, config.image_size, config.image_size)
    given = {"pixel_values": Given(shaped, {0: BATCH})}
    _write(PictureGraph(model), given, ["logits"], folder / MODEL)


def _present(names: Iterable[str]) -> list[str]:
    return [f"present.{name}" for name in names]


def _check_blocks(config: BlocksConfig) -> None:
    problem = None
    if config.experts is not None:
        problem = f"experts={config.experts}, whose products depend on where tokens are sent"
    if "compressed" in map(config.window_of, range(config.n_layers)):
        problem = "window='compressed', whose slots depend on how many tokens were read"
    if problem is not None:
        raise ConfigError(f"this model cannot be exported: {NAME} cannot express {problem}")


def _write(
    graph: nn.Module,
    given: Mapping[str, Given],
    gives: Sequence[str],
    path: Path,
    past: Mapping[str, Given] | None = None,
) -> None:
    """One file, without what the exporter says of packages; a ``past`` is handed over as a list."""
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"{NAME} export needs {' and '.join(missing)}; install it with: "
            "pip install 'regard[onnx]'"
        )
    examples: list[object] = [one.example for one in given.values()]
    axes: list[object] = [one.axes for one in given.values()]
    if past is not None:
        examples.append([one.example for one in past.values()])
        axes.append([one.axes for one in past.values()])
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            torch.onnx.export(
                graph.eval(),
                tuple(examples),
                path,
                input_names=[*given, *(past or ())],
                output_names=list(gives),
                dynamic_shapes=tuple(axes),
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        why = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"this model cannot be exported: {NAME} cannot express it ({why})"
        ) from None
    finally:
        logging.disable(level)
