"""The run folder: where each thing of a run lies, how models and snapshots are written and read.

A snapshot is what resuming needs. One safetensors file holds all of it, tensors and, in its header,
facts: so it is there whole or not at all, and nothing in it can execute code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import PARTIAL, write_whole
from regard.models.presets import build, config_from
from regard.models.settings import ModelConfig

FORMAT = 2
"""Of config.json and model.safetensors. 1, which is not written down in them, had no buffers."""
SNAPSHOT_FORMAT = 2
"""1, which is not written down in a snapshot, had no buffers and knew Adam alone."""
_SNAPSHOT = re.compile(r"step-(\d+)\.safetensors")


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
        self.scores = path / "scores.json"
        """What the finished model was measured to do, and what it cost."""
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
        settings = yaml.safe_load(_text(folder.settings))
    except yaml.YAMLError as error:
        raise CheckpointError(f"{folder.settings} is no YAML: {error}") from error
    if not isinstance(settings, dict):
        raise CheckpointError(f"{folder.settings} holds no settings")
    return settings


def load_scores(folder: RunFolder) -> dict[str, Any]:
    """Read scores.json, the mark of a finished run."""
    try:
        scores = json.loads(_text(folder.scores))
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{folder.scores} is damaged: {error}") from error
    if not isinstance(scores, dict):
        raise CheckpointError(f"{folder.scores} holds no scores")
    return scores


def save_config(folder: RunFolder, config: ModelConfig) -> None:
    """Write config.json, the architecture."""
    facts = {"format": FORMAT, **config.model_dump(mode="json")}
    write_whole(folder.model_config, json.dumps(facts, indent=2) + "\n")


def load_config(folder: RunFolder) -> ModelConfig:
    """Read config.json, the architecture."""
    try:
        raw = json.loads(_text(folder.model_config))
        if isinstance(raw, dict):
            check_format(raw.pop("format", 1), FORMAT, folder.model_config)
        return config_from(raw)
    except (json.JSONDecodeError, ConfigError) as error:
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
    config = load_config(folder)
    with torch.random.fork_rng(devices=[]):  # the fresh weights are thrown away
        model = build(config)
    fill(model, read_weights(folder), str(folder.weights))
    return model


def read_weights(folder: RunFolder) -> dict[str, Tensor]:
    """The tensors of model.safetensors by name."""
    if not folder.weights.exists():
        stopped = "weights yet: its training was stopped; go on with --resume"
        missing = folder.weights.name if folder.finished() else stopped
        raise CheckpointError(f"{folder.path} has no {missing}")
    try:
        return load_file(folder.weights)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{folder.weights} is damaged ({error}); train again, or resume from its checkpoints"
        ) from error


def fill(model: nn.Module, weights: dict[str, Tensor], where: str) -> None:
    """Copy weights into a model; what is missing, left over or of another shape is refused."""
    wanted = model_tensors(model)
    problems = [f"missing {name}" for name in wanted if name not in weights]
    problems += [f"unknown {name}" for name in weights if name not in wanted]
    problems += [
        f"{name} is {tuple(weights[name].shape)}, the model wants {tuple(p.shape)}"
        for name, p in wanted.items()
        if name in weights and weights[name].shape != p.shape
    ]
    if problems:
        shown = "; ".join(problems[:5]) + ("; …" if len(problems) > 5 else "")
        raise CheckpointError(f"{where} does not belong to this model: {shown}")
    for name, tensor in wanted.items():
        tensor.copy_(weights[name])


def _text(path: Path) -> str:
    if not path.parent.is_dir():
        raise CheckpointError(f"there is no run folder {path.parent}")
    if not path.exists():
        raise CheckpointError(f"{path.parent} is no run folder: it has no {path.name}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A training at the end of a step."""

    step: int
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]
    """All that is no tensor; JSON."""

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with a prefix, without it."""
        found = {name: x for name, x in self.tensors.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): x for name, x in found.items()}


class SnapshotStore:
    """A folder of snapshots: the last ``keep`` and the best are kept."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def save(self, snapshot: Snapshot, *, best_step: int | None) -> Path:
        """Write a snapshot, then delete what is no longer needed."""
        path = self.path(snapshot.step)
        tensors = {name: tensor.contiguous() for name, tensor in snapshot.tensors.items()}
        facts = {"format": SNAPSHOT_FORMAT, "step": snapshot.step, **snapshot.facts}
        write_whole(path, save(tensors, metadata={"facts": json.dumps(facts)}))
        for step in self.steps()[: -self.keep]:
            if step != best_step:
                self.path(step).unlink()
        for leftover in self.folder.glob(f"*{PARTIAL}"):
            leftover.unlink()
        return path

    def wait(self) -> None:
        """Until all is written, as it always is here."""

    def latest(self) -> Snapshot | None:
        """The newest complete snapshot, or None where there is none."""
        steps = self.steps()
        return load_snapshot(self.path(steps[-1])) if steps else None

    def steps(self) -> list[int]:
        """The steps of all complete snapshots, in order."""
        if not self.folder.is_dir():
            return []
        matches = (_SNAPSHOT.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def path(self, step: int) -> Path:
        """Where the snapshot of a step lies."""
        return self.folder / f"step-{step:08d}.safetensors"


def load_snapshot(path: Path) -> Snapshot:
    """Read a snapshot, or say which file is broken and what to do."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, KeyError, ValueError) as error:
        raise CheckpointError(
            f"checkpoint {path} cannot be read ({error}); delete it to resume from the one before"
        ) from error
    found = facts.pop("format", 1)
    check_format(found, SNAPSHOT_FORMAT, path)
    if found == 1:
        tensors = {re.sub("^adam/", "optimiser/", name): x for name, x in tensors.items()}
    return Snapshot(facts.pop("step"), tensors, facts)
