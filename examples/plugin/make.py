"""Motions in the plane, up, down or round: training and test files for the recipe beside this."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

LABELS = ("up", "down", "round")


def motion(label: str, rng: np.random.Generator) -> list[list[float]]:
    """5 to 9 points of a motion, with a little noise."""
    t = np.linspace(0, 1, int(rng.integers(5, 10)))
    paths = {
        "up": np.stack([0 * t, t], axis=1),
        "down": np.stack([0 * t, -t], axis=1),
        "round": np.stack([np.cos(6 * t), np.sin(6 * t)], axis=1),
    }
    noisy = paths[label] + rng.normal(scale=0.05, size=(len(t), 2))
    return [[round(float(x), 3) for x in point] for point in noisy]


def write(folder: Path, *, n_train: int = 200, n_test: int = 50, seed: int = 0) -> None:
    """Write train.jsonl and test.jsonl."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, n in (("train", n_train), ("test", n_test)):
        labels = [LABELS[i % len(LABELS)] for i in range(n)]
        rows = [json.dumps({"frames": motion(one, rng), "label": one}) for one in labels]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
