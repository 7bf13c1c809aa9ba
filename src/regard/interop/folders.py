"""Folders of models on disk: what they hold, read and written whole or not at all.

The layout of Hugging Face is a config.json and tensors beside it. Tensors come from
model.safetensors, in one file or in parts that an index names, or from an old pytorch_model.bin.
Such a file is a pickle: it is read by ``torch.load(weights_only=True)``, which runs no code of it,
and must be a plain dict of tensors.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from regard.core import files
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import PARTIAL, telling, write_whole

CONFIG = "config.json"
GENERATION = "generation_config.json"
WEIGHTS = "model.safetensors"
PICKLED = "pytorch_model.bin"
INDEX = ".index.json"  # after the name of weights that lie in parts

NO_SPECIALS = {"bos_token_id": None, "eos_token_id": None, "torch_dtype": "float32"}
"""What the description of a language model says until its tokenizer is written."""

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""What descriptions call activations, and what we call them; of several the first is written."""
THEIR_ACTIVATIONS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json says about the model."""
    found: dict[str, Any] = read_json(folder / CONFIG)
    return found


def read_json(path: Path, kind: type = dict) -> Any:
    """The object, or the list, in a JSON file."""
    if not path.parent.is_dir():
        raise CheckpointError(f"there is no folder {path.parent}")
    if not path.exists():
        raise CheckpointError(f"{path.parent} has no {path.name}")
    return files.read_json(path, kind)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder by name, in the type they are kept in."""
    for name, read in ((WEIGHTS, _read_safetensors), (PICKLED, _read_pickle)):
        if (folder / name).exists():
            return read(folder / name)
        if (folder / (name + INDEX)).exists():
            parts = [read(part) for part in _parts(folder / (name + INDEX))]
            return {key: tensor for part in parts for key, tensor in part.items()}
    raise CheckpointError(
        f"{folder} has no weights: expected {WEIGHTS}, {WEIGHTS}{INDEX} or {PICKLED}"
    )


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """All tensors of one file, .safetensors or a state dict of torch."""
    return _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)


def write_hf(folder: Path, description: Mapping[str, object], tensors: dict[str, Tensor]) -> None:
    """A config.json and a model.safetensors, as ``transformers`` reads them."""
    write_json(folder / CONFIG, description)
    write_whole(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))


def write_json(path: Path, told: Mapping[str, object]) -> None:
    """An object as indented JSON."""
    write_whole(path, json.dumps(dict(told), indent=2, ensure_ascii=False) + "\n")


def _parts(index: Path) -> list[Path]:
    """The files an index names, which must lie beside it."""
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(one, str) for one in files.values()):
        raise CheckpointError(f"{index} is damaged: its 'weight_map' must name a file a tensor")
    names = sorted(set(files.values()))
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise CheckpointError(f"{index} names files that lie elsewhere: {', '.join(outside)}")
    missing = [name for name in names if not (index.parent / name).exists()]
    if missing:
        raise CheckpointError(
            f"{index.parent} is not complete, it has no {', '.join(missing)}; copy it again"
        )
    return [index.parent / name for name in names]


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); copy it again") from error


def _read_pickle(path: Path) -> dict[str, Tensor]:
    remedy = f"save its state dict alone, or better {WEIGHTS}"
    try:
        with warnings.catch_warnings(action="ignore"):  # of the pickle's protocol
            found = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise CheckpointError(
            f"{path} holds more than tensors, and reading the rest would run code from the file; "
            f"{remedy}"
        ) from None
    except Exception as error:  # a torn pickle fails in any way
        raise CheckpointError(f"{path} is damaged ({error}); copy it again") from error
    if isinstance(found, dict):
        others = [str(name) for name, one in found.items() if not _is_dense(one)]
        if not others and all(isinstance(name, str) for name in found):
            return dict(found)
        shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
        what = f"other things in it: {shown}" if others else "names of no text"
        told = f"a dict with {what}"
    else:
        told = f"a {type(found).__name__}"
    raise CheckpointError(
        f"{path} is not a plain state dict (dense tensors by name), but {told}; {remedy}"
    )


def _is_dense(one: object) -> bool:
    """Whether it is a tensor with all its numbers: not sparse, not without any, not quantised.

    Nor one number that stands for many: a file of some bytes could ask for any memory.
    """
    return (
        isinstance(one, Tensor)
        and one.layout is torch.strided
        and not (one.is_meta or one.is_quantized or one.is_nested)
        and one.nbytes <= one.untyped_storage().nbytes()
    )


def optional_package(name: str, called: str) -> Any:
    """A package that only some formats need, or how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        reason = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        raise ConfigError(
            f"{called} cannot be imported{reason}; install it with: pip install 'regard[{name}]'"
        ) from None


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to be filled inside the block; at its end it stands at ``path``, or nowhere.

    There may be nothing at ``path`` but an empty folder.
    """
    with telling(path):
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise CheckpointError(
                f"{path} exists already; name a folder that is new or empty, or delete it first"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(suffix=PARTIAL, prefix=f"{path.name}.", dir=path.parent))
        try:
            inside = partial / path.name  # mkdtemp lets nobody else in; this is for all
            inside.mkdir()
            yield inside
            for file in inside.iterdir():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
            inside.replace(path)
        except OSError as error:
            # What is wrong with a file outside the folder is wrong with what was read to fill it.
            names = [name for name in (error.filename, error.filename2) if name is not None]
            if names and not any(Path(os.fsdecode(one)).is_relative_to(partial) for one in names):
                raise CheckpointError(f"cannot read {names[0]}: {error.strerror}") from error
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
