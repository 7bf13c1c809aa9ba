"""Encoders, and the two halves of a Transformer, as ONNX files.

``encoder.onnx`` takes ``source`` (B, S) ids and gives ``encoded`` (B, S, D). ``decoder.onnx`` takes
``target`` (B, T) ids from the begin token on, ``encoded`` and ``source``, whose padding is hidden,
and gives ``logits`` (B, T, V). All three lengths are free, up to the model's ``max_len``.

Of an encoder alone, ``encoder.onnx`` takes ``ids`` (B, S), and ``segments`` (B, S) where it tells
texts apart, and gives ``output``: what its head makes of them, or the vectors of all tokens where
it has none. Of a model of pictures it takes ``pixels`` (B, 3, S, S) of bytes, and gives ``logits``
(B, labels).
"""

from __future__ import annotations

import logging
import warnings
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.core.errors import ConfigError
from regard.layers.key_values import SourceMemory
from regard.models.encoder import Encoder
from regard.models.settings import BlocksConfig
from regard.models.transformer import Transformer
from regard.models.vision import VisionTransformer

NAME = "ONNX"
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"


class EncoderHalf(nn.Module):
    """Source ids to vectors."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> Tensor:
        """(B, S) -> (B, S, D)"""
        return self.model.encoder(source, self.model.source_mask(source))


class DecoderHalf(nn.Module):
    """Target ids and what the encoder gave to logits, all positions at once."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, target: Tensor, encoded: Tensor, source: Tensor) -> Tensor:
        """(B, T), (B, S, D), (B, S) -> (B, T, V)"""
        seen = self.model.source_mask(source)
        memory = SourceMemory(self.model.decoder.project(encoded), seen)
        return self.model.logits(self.model.decoder(target, memory, self.model.start(memory))[0])


def write_onnx_encoder(model: Encoder, folder: Path) -> None:
    """Write encoder.onnx with its weights into a folder that exists."""
    if model.config.cell is not None:
        raise ConfigError(
            f"this model cannot be exported: {NAME} export is for encoders that attend, and this "
            f"one reads with cell={model.config.cell}"
        )
    _check_experts(model.config)
    ids = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]).remainder(model.config.n_vocab)
    inputs = model.inputs(ids, torch.zeros_like(ids))
    given = dict(zip(("ids", "segments")[: len(inputs)], inputs, strict=True))
    _write(model.eval(), given, "output", folder / ENCODER)


def write_onnx_vision(model: VisionTransformer, folder: Path) -> None:
    """Write encoder.onnx with its weights into a folder that exists."""
    _check_experts(model.config)
    size = model.config.image_size
    pixels = torch.arange(2 * 3 * size * size).remainder(256).to(torch.uint8)
    given = {"pixels": pixels.view(2, 3, size, size)}
    _write(model.eval(), given, "logits", folder / ENCODER, free=(0,))


def write_onnx(model: Transformer, folder: Path) -> None:
    """Write encoder.onnx and decoder.onnx, with their weights, into a folder that exists."""
    _check_experts(model.config)
    source = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]).remainder(model.config.n_source_vocab)
    target = torch.tensor([[1, 4, 3], [1, 3, 0]]).remainder(model.config.n_target_vocab)
    encoder, decoder = EncoderHalf(model).eval(), DecoderHalf(model).eval()
    _write(encoder, {"source": source}, "encoded", folder / ENCODER)
    with torch.no_grad():
        given = {"target": target, "encoded": encoder(source), "source": source}
    _write(decoder, given, "logits", folder / DECODER)


def _check_experts(config: BlocksConfig) -> None:
    if config.experts is not None:
        raise ConfigError(
            f"this model cannot be exported: {NAME} cannot express experts={config.experts}, whose "
            "products depend on where tokens are sent"
        )


def _write(
    half: nn.Module,
    given: dict[str, Tensor],
    gives: str,
    path: Path,
    *,
    free: tuple[int, ...] = (0, 1),
) -> None:
    """One file whose inputs have some ``free`` axes, without what the exporter says of packages."""
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"{NAME} export needs {' and '.join(missing)}; install it with: "
            f"pip install {' '.join(missing)}"
        )
    any_size, level = torch.export.Dim.AUTO, logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            torch.onnx.export(
                half,
                tuple(given.values()),
                path,
                input_names=list(given),
                output_names=[gives],
                dynamic_shapes=tuple(dict.fromkeys(free, any_size) for _ in given),
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
