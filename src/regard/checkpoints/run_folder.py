"""The run folder: where each thing of a run lies, how models and snapshots are written and read.

A snapshot is what resuming needs. One safetensors file holds all of it, tensors and, in its header,
facts: so it is there whole or not at all, and nothing in it can execute code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from regard.checkpoints.digests import check_digest, write_digested
from regard.core.errors import CheckpointError, ConfigError, RegardError
from regard.core.files import (
    MOST_BYTES,
    PARTIAL,
    check_regular,
    parse_json,
    read_json,
    read_text,
    write_whole,
)
from regard.core.numbers import told
from regard.core.yaml_text import MOST_BYTES as MOST_YAML
from regard.core.yaml_text import parse_yaml
from regard.models.bounds import build_within
from regard.models.presets import config_from
from regard.models.settings import ModelConfig

FORMAT = 2
"""Of config.json and model.safetensors. 1, which is not written down in them, had no buffers."""
_TIED = 64
"""Tensors that a model may make and then replace by others, beyond twice those it keeps."""
SNAPSHOT_FORMAT = 2
"""1, which is not written down in a snapshot, had no buffers and knew Adam alone."""
_NUMBERS = (int, float, NoneType)
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
        settings = parse_yaml(_text(folder.settings, MOST_YAML))
    except ConfigError as error:
        raise CheckpointError(f"{folder.settings} is no YAML: {error}") from error
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
        raise CheckpointError(f"{path.parent} is no run folder: it has no {path.name}")


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
        write_digested(path, tensors, {"facts": json.dumps(facts)})
        for step in self.steps()[: -self.keep]:
            if step != best_step:
                self.path(step).unlink()
        for leftover in self.folder.glob(f"*{PARTIAL}"):
            leftover.unlink()
        return path

    def wait(self) -> None:
        """Until all is written, as it always is here."""

    def latest(self, say: Callable[[str], None] = lambda _text: None) -> Snapshot | None:
        """The newest whole snapshot, or None where there is none; ``say`` is told of damaged ones.

        Where all are damaged, that is an error: to begin anew would be to lose them.
        """
        damaged: list[DamagedSnapshotError] = []
        for step in reversed(self.steps()):
            try:
                snapshot = load_snapshot(self.path(step))
            except DamagedSnapshotError as error:
                damaged.append(error)
                continue
            for one in damaged:
                say(f"{one}; going on from step {step}, the newest that is whole")
            return snapshot
        if damaged:
            raise damaged[0]
        return None

    def whole_steps(self, say: Callable[[str], None]) -> list[int]:
        """The steps of all snapshots that are not damaged, in order; ``say`` is told of others."""
        whole = []
        for step in self.steps():
            try:
                check_digest(self.path(step))
                whole.append(step)
            except CheckpointError as error:
                say(f"left out: {error}")
        return whole

    def steps(self) -> list[int]:
        """The steps of all complete snapshots, in order."""
        if not self.folder.is_dir():
            return []
        matches = (_SNAPSHOT.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def path(self, step: int) -> Path:
        """Where the snapshot of a step lies."""
        return self.folder / f"step-{step:08d}.safetensors"


class DamagedSnapshotError(CheckpointError):
    """A snapshot is not what was written; an older one may be whole."""


def load_snapshot(path: Path) -> Snapshot:
    """Read a snapshot, or say which file is broken and what to do."""
    check_regular(path)
    try:
        check_digest(path)
        with safe_open(path, framework="pt") as file:
            facts = parse_json(file.metadata()["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, KeyError, ValueError, CheckpointError) as error:
        raise DamagedSnapshotError(
            f"checkpoint {path} cannot be read ({told(error)}); delete it to resume from the one "
            "before"
        ) from error
    step = facts.pop("step", None) if isinstance(facts, dict) else None
    if type(step) is not int or step < 0:
        raise DamagedSnapshotError(
            f"checkpoint {path} does not say its step; delete it to resume from the one before"
        )
    found = facts.pop("format", 1)
    check_format(found, SNAPSHOT_FORMAT, path)
    if found == 1:
        tensors = {re.sub("^adam/", "optimiser/", name): x for name, x in tensors.items()}
    return Snapshot(step, tensors, facts)


@contextmanager
def taking_up(snapshot: Snapshot) -> Iterator[None]:
    """Inside the block a training becomes what a snapshot says; what it lacks is one error.

    A snapshot that is not damaged may still be another program's, or of another training.
    """
    try:
        yield
    except RegardError:
        raise
    except Exception as error:  # facts of any kind may be missing, or be of another kind
        reason = f"it has no {error}" if isinstance(error, KeyError) else told(error)
        raise CheckpointError(
            f"the checkpoint of step {snapshot.step} does not fit this training ({reason}); delete "
            "it to resume from the one before, or start a new run"
        ) from error


def check_facts(found: Any, like: Any, name: str = "what it says") -> None:
    """A ValueError where facts of a snapshot are of another kind than those of a training.

    A number that is nothing yet may be one later. Keys that are missing are told by who needs them.
    """
    if isinstance(like, Mapping) and isinstance(found, Mapping):
        for key in (key for key in like if key in found):
            check_facts(found[key], like[key], key)
        return
    kind = type(like)
    fits = type(found) in _NUMBERS if kind in (float, NoneType) else type(found) is kind
    if isinstance(like, Mapping) or not fits or (kind is int and found < 0):
        raise ValueError(f"{name} is {found!r:.60}")


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
