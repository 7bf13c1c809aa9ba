"""The run folder: where each thing of a run lies, and how models are written and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from regard.checkpoints.lock import check_has_begun
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import (
    MOST_BYTES,
    check_regular,
    parse_json,
    read_json,
    read_text,
    write_whole,
)
from regard.core.yaml_text import MOST_BYTES as MOST_YAML
from regard.core.yaml_text import parse_yaml
from regard.models.bounds import build_within
from regard.models.presets import config_from
from regard.models.settings import ModelConfig

FORMAT = 2
"""Of config.json and model.safetensors. 1, which is not written down in them, had no buffers."""
_TIED = 64
"""Tensors that a model may make and then replace by others, beyond twice those it keeps."""


class RunFolder:
    """Names of the files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "config.yaml"
        """All that was asked for, complete: enough to repeat the run."""
        self.model_config = path / "config.json"
        """The architecture."""
        self.weights = path / "model.safetensors"
        """The best weights so far."""
        self.metrics = path / "metrics.jsonl"
        """A line a report."""
        self.film = path / "film.jsonl"
        """One held-out example as the model saw it at every validation, where that was filmed."""
        self.scores = path / "scores.json"
        """What the finished model was measured to do, and what it cost."""
        self.environment = path / "environment.json"
        """Versions, threads and plug-ins that it was trained with (``environment``)."""
        self.checkpoints = path / "checkpoints"
        """What resuming needs."""
        self.report = path / "report.html"
        """A page for people."""

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.settings.exists() or self.model_config.exists()

    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.scores.exists()


def save_settings(folder: RunFolder, settings: dict[str, Any]) -> None:
    """Write config.yaml."""
    write_whole(folder.settings, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))


def load_settings(folder: RunFolder) -> dict[str, Any]:
    """Read config.yaml."""
    try:
        settings = parse_yaml(_text(folder.settings, MOST_YAML))
    except ConfigError as error:
        raise CheckpointError(f"{folder.settings} is not YAML: {error}") from error
    if not isinstance(settings, dict):
        raise CheckpointError(f"{folder.settings} holds no settings")
    return settings


def load_scores(folder: RunFolder) -> dict[str, Any]:
    """Read scores.json, the mark of a finished run."""
    _check_there(folder.scores)
    scores: dict[str, Any] = read_json(folder.scores)
    return scores


def save_config(folder: RunFolder, config: ModelConfig) -> None:
    """Write config.json, the architecture."""
    facts = {"format": FORMAT, **config.model_dump(mode="json")}
    write_whole(folder.model_config, json.dumps(facts, indent=2) + "\n")


def load_config(folder: RunFolder) -> ModelConfig:
    """Read config.json, the architecture."""
    try:
        raw = parse_json(_text(folder.model_config))
        if isinstance(raw, dict):
            check_format(raw.pop("format", 1), FORMAT, folder.model_config)
        return config_from(raw)
    except ValueError as error:  # a ConfigError is one too
        raise CheckpointError(f"{folder.model_config} describes no model: {error}") from error


def check_format(found: object, newest: int, path: Path) -> None:
    """Refuse a file that a newer version of the program has written."""
    if not isinstance(found, int) or found > newest:
        raise CheckpointError(
            f"{path} has format {found}, and this version of regard reads {newest} and older; "
            "update regard"
        )


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters, and the buffers that are not computed anew, by name; tied ones once."""
    tensors = dict(model.named_parameters())
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(prefix, recurse=False):
            if name.rpartition(".")[2] not in module._non_persistent_buffers_set:
                tensors[name] = buffer
    return {name: tensor.detach() for name, tensor in tensors.items()}


def save_model(folder: RunFolder, config: ModelConfig, weights: dict[str, Tensor]) -> None:
    """Write the architecture, then the weights and buffers (``model_tensors``)."""
    save_config(folder, config)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_whole(folder.weights, save(tensors, metadata={"format": "pt"}))


def load_model(folder: RunFolder) -> nn.Module:
    """Rebuild the model of a run; every tensor must be there and fit."""
    config, weights = load_config(folder), read_weights(folder)
    try:
        with torch.random.fork_rng(devices=[]):  # the fresh weights are thrown away
            model = build_within(
                config,
                most_tensors=2 * len(weights) + _TIED,
                most_numbers=2 * sum(one.numel() for one in weights.values()),
            )
    except ConfigError as error:
        raise CheckpointError(
            f"{folder.weights} does not belong to the model that {folder.model_config.name} "
            f"describes: {error}; copy both from where they were made"
        ) from error
    fill(model, weights, str(folder.weights))
    return model


def read_weights(folder: RunFolder) -> dict[str, Tensor]:
    """The tensors of model.safetensors by name."""
    if not folder.weights.exists():
        check_has_begun(folder.path)
        stopped = "weights yet: its training was stopped; go on with --resume"
        missing = folder.weights.name if folder.finished() else stopped
        raise CheckpointError(f"{folder.path} has no {missing}")
    check_regular(folder.weights)
    try:
        return load_file(folder.weights)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{folder.weights} is damaged ({error}); train again, or resume from its checkpoints"
        ) from error


def fill(model: nn.Module, weights: Mapping[str, Tensor], where: str) -> None:
    """Copy weights into a model; what is missing, left over or of another shape is refused."""
    copy_all(model_tensors(model), weights, where)


def copy_all(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], where: str) -> None:
    """Copy tensors into others of the same names, shapes and kinds; all must be there and fit."""
    problems = [f"missing {name}" for name in wanted if name not in found]
    problems += [f"unknown {name}" for name in found if name not in wanted]
    for name, own in ((name, own) for name, own in wanted.items() if name in found):
        one = found[name]
        if one.shape != own.shape:
            problems.append(f"{name} is {tuple(one.shape)}, the model wants {tuple(own.shape)}")
        elif one.is_floating_point() != own.is_floating_point():
            problems.append(f"{name} is of {one.dtype}, the model wants {own.dtype}")
    if problems:
        shown = "; ".join(problems[:5]) + ("; …" if len(problems) > 5 else "")
        raise CheckpointError(f"{where} does not belong to this model: {shown}")
    for name, tensor in wanted.items():
        tensor.copy_(found[name])


def _text(path: Path, most: int = MOST_BYTES) -> str:
    _check_there(path)
    return read_text(path, most)


def _check_there(path: Path) -> None:
    if not path.parent.is_dir():
        raise CheckpointError(f"there is no run folder {path.parent}")
    if not path.exists():
        if not RunFolder(path.parent).weights.exists():
            check_has_begun(path.parent)
        raise CheckpointError(f"{path.parent} is not a run folder: it has no {path.name}")


def check_links(folder: RunFolder) -> None:
    """Refuse a run folder in which a link leads elsewhere: training would write there.

    The folder itself may be a link.
    """
    home = folder.path.resolve()
    inside = [folder.path, *(path for path in folder.path.glob("*") if path.is_dir())]
    for link in (path for one in inside for path in one.glob("*") if path.is_symlink()):
        if not link.resolve().is_relative_to(home):
            raise CheckpointError(
                f"{link} is a link to {link.resolve()}, outside the run folder, and training would "
                "write there; delete it, or keep the whole run there and link to that"
            )
