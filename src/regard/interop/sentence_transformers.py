"""What folders of sentence encoders say beside their BERT: how its vectors become one.

Such a folder has modules.json, a folder for the pooling, and how much of a text is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.interop.folders import CONFIG, read_json

MODULES = "modules.json"
POOLING = "1_Pooling"
READING = "sentence_bert_config.json"
MEAN = "pooling_mode_mean_tokens"
KNOWN = ("Transformer", "Pooling", "Normalize")
"""Steps that we take as well: vectors of length 1 are what ``embed`` gives anyway."""


def check_pooling(folder: Path) -> None:
    """Our vectors are means of tokens: whatever was trained to be used otherwise is refused."""
    problems = _other_steps(folder)
    path = folder / POOLING / CONFIG
    if path.exists():
        problems += _other_pooling(read_json(path))
    if problems:
        raise CheckpointError(
            f"{folder} makes the vector of a text in a way that Regard has no counterpart of: "
            f"{'; '.join(problems)} (supported: the mean of its tokens, {MEAN}=true alone)"
        )


def reads(folder: Path) -> int | None:
    """How many tokens of a text such a folder reads, where it says so."""
    path = folder / READING
    found = read_json(path).get("max_seq_length") if path.exists() else None
    if found is not None and (type(found) is not int or found < 1):
        raise CheckpointError(f"{path} must say max_seq_length as a number from 1, found {found!r}")
    return found


def _other_steps(folder: Path) -> list[str]:
    path = folder / MODULES
    if not path.exists():
        return []
    kinds = [str(one.get("type")).rpartition(".")[2] for one in _listed(path)]
    return [f"{MODULES} has a {kind}" for kind in kinds if kind not in KNOWN]


def _listed(path: Path) -> list[dict[str, Any]]:
    found = read_json(path, list)
    if not all(isinstance(one, dict) for one in found):
        raise CheckpointError(f"{path} must hold a list of objects")
    return found


def _other_pooling(said: dict[str, Any]) -> list[str]:
    modes = {name: on for name, on in said.items() if name.startswith("pooling_mode_")}
    problems = [f"{name}=true" for name, on in modes.items() if on and name != MEAN]
    if not problems and not modes.get(MEAN, True):
        problems.append(f"{MEAN}=false")
    if said.get("pooling_mode", "mean") != "mean":
        problems.append(f"pooling_mode={said['pooling_mode']!r}")
    return problems
