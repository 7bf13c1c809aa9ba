"""Snapshots of a training whose model lies in parts in several processes.

Each process writes its own parts, while training goes on, by torch.distributed.checkpoint as
safetensors: nothing is pickled. A snapshot is a folder of its own, and whole only with its last
file, ``COMPLETE``. It is read as whole tensors, so that any number of processes, and one that
shards nothing, can go on from it.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from concurrent.futures import Future
from hashlib import file_digest
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save
from typing_extensions import override

from regard.checkpoints.snapshots import BackgroundStore, DamagedSnapshotError, Snapshot
from regard.core.errors import CheckpointError
from regard.core.files import read_json, telling, write_whole

COMPLETE, FACTS = "COMPLETE", "facts.json"
_FOLDER = re.compile(r"step-(\d+)")


class ShardedStore(BackgroundStore):
    """Such snapshots: the last ``keep`` and the best are kept."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        super().__init__(folder, keep=keep)
        self._group = dist.new_group(backend="gloo")  # its messages must not meet training's

    def save(self, snapshot: Snapshot, *, best_step: int | None) -> None:
        """Begin to write a snapshot; the one before must be whole first. All processes call it."""
        self.wait()
        path = self.folder / f"step-{snapshot.step:08d}"
        if dist.get_rank() == 0:
            with telling(path):
                _delete(path)  # what a killed training left
                path.mkdir(parents=True)
            write_whole(path / FACTS, json.dumps({"step": snapshot.step, **snapshot.facts}))
        dist.barrier()
        writer = HuggingFaceStorageWriter(str(path), save_distributed=True)
        tensors = {name: tensor.detach() for name, tensor in snapshot.tensors.items()}
        written: Any = async_save(tensors, storage_writer=writer, process_group=self._group)
        written = getattr(written, "upload_completion", written)
        self.begin(lambda: self._complete(written, path, best_step))

    @override
    def wait(self) -> None:
        try:
            super().wait()
        except (CheckpointException, OSError) as error:
            reason = str(error).strip().rpartition("\n")[2]
            raise CheckpointError(
                f"cannot write a checkpoint into {self.folder}: {reason}; what was saved before is "
                "still there"
            ) from error

    def _complete(self, written: Future[Any], path: Path, best_step: int | None) -> None:
        """When all have written their parts, mark the snapshot and delete older ones."""
        written.result()
        if dist.get_rank() == 0:
            write_whole(path / COMPLETE, json.dumps(_digests(path)))
            for step in complete_steps(self.folder)[: -self.keep]:
                if step != best_step:
                    _delete(self.folder / f"step-{step:08d}")


def _delete(path: Path) -> None:
    """A snapshot that is cut short in this is no longer taken for whole."""
    (path / COMPLETE).unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def complete_steps(folder: Path) -> list[int]:
    """The steps of all whole snapshots in parts, in order."""
    if not folder.is_dir():
        return []
    found = [(_FOLDER.fullmatch(one.name), one) for one in folder.iterdir()]
    return sorted(int(match[1]) for match, one in found if match and (one / COMPLETE).is_file())


def read_snapshot(folder: Path, step: int) -> Snapshot:
    """The whole tensors of a snapshot, on the CPU."""
    path = folder / f"step-{step:08d}"
    try:
        if read_json(path / COMPLETE) != _digests(path):
            raise CheckpointError("its files are not those that were written")
        facts = read_json(path / FACTS)
        step = int(facts.pop("step"))
        reader = HuggingFaceStorageReader(str(path))
        stored: Any = reader.read_metadata().state_dict_metadata
        tensors = {
            name: torch.empty(one.size, dtype=one.properties.dtype) for name, one in stored.items()
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that one process reads, as it was told to
            load(dict(tensors), storage_reader=reader, no_dist=True)
    except (OSError, ValueError, KeyError, TypeError, CheckpointError) as error:
        raise DamagedSnapshotError(
            f"checkpoint {path} cannot be read ({error}); delete it to resume from the one before"
        ) from error
    return Snapshot(step, tensors, facts)


def _digests(path: Path) -> dict[str, str]:
    """A fingerprint of every file of a snapshot, by name."""
    files = sorted(one for one in path.iterdir() if one.name != COMPLETE)
    found = {}
    for one in files:
        with one.open("rb") as file:
            found[one.name] = file_digest(file, "sha256").hexdigest()
    return found
