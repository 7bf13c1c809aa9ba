"""Differential attention beside its plain model: accuracy, where it looks, and whether that counts.

python benchmarks/differential_attention.py runs/differential san2016 dan2018,triplet_weight=0.3
    dcn2018,combine=add --seeds 1 2 3 --set n_layers=2

Trains the recipe scenes-questions with every system and seed (what is finished is read back)
and scores `test` and `combinations`. The first system is the plain one. Differences are of the same
questions, all seeds together; intervals are of 10,000 bootstrap draws of scenes, as questions about
one scene are no independent ones. They say nothing of other seeds: differences by seed do.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import regard
from regard.data.picture_records import PictureQuestion
from regard.data.worlds.scene_records import mask_of
from regard.evaluation.saliency import pointing_accuracy, rank_correlation
from regard.recipes.recipe import load_recipe
from regard.runs.train import train
from regard.tasks.base import TASKS
from regard.tasks.picture_answerer import PictureAnswerer

Values = NDArray[np.float64]
"""(questions,): of each question, nan where its objects are not known."""
MEASURES = ("accuracy", "rank correlation", "pointing")
N_DRAWS = 10_000


def main() -> None:
    """Train, score, compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("systems", nargs="+", help="PRESET,key=value,…")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--set", action="append", default=[], help="of all systems")
    asked = parser.parse_args()
    found: dict[str, dict[str, list[dict[str, Values]]]] = {}
    scenes: dict[str, list[str]] = {}
    for system in asked.systems:
        preset, *own = system.split(",")
        for seed in asked.seeds:
            settings = [f"preset={preset}", *own, *asked.set, f"seed={seed}"]
            run = trained(asked.out / f"{system.replace(',', '_')}-{seed}", settings)
            data = TASKS[run.task].load_data(run.recipe)  # type: ignore[attr-defined]
            for split in data.test_sets:
                examples = data.split(split)
                scenes[split] = [one.where for one in examples]
                values = kept(
                    asked.out / f"{system}-{seed}-{split}.npz", partial(measured, run, examples)
                )
                found.setdefault(split, {}).setdefault(system, []).append(values)
                told = {name: round(float(np.nanmean(x)), 4) for name, x in values.items()}
                print(json.dumps({"split": split, "system": system, "seed": seed, **told}))
    for split, systems in found.items():
        plain, *others = systems
        for name in MEASURES:
            for system, runs in systems.items():
                means = [float(np.nanmean(one[name])) for one in runs]
                print(f"{split} {name}: {system} {np.mean(means):.4f} ± {np.std(means):.4f}")
            for other in others:
                apart = [
                    a[name] - b[name] for a, b in zip(systems[other], systems[plain], strict=True)
                ]
                lead, low, high, p = bootstrap(np.mean(apart, axis=0), scenes[split])
                each = " ".join(f"{np.nanmean(one):+.4f}" for one in apart)
                print(
                    f"  {other} - {plain}: {lead:+.4f} [{low:+.4f}, {high:+.4f}], p = {p:.4f}; "
                    f"by seed {each}"
                )


def trained(out: Path, settings: list[str]) -> PictureAnswerer:
    """The run in a folder, which is trained if it is not there."""
    if not (out / "scores.json").exists():
        train(load_recipe("scenes-questions", settings), out, resume=out.exists())
    run: PictureAnswerer = regard.load(out)
    return run


def kept(path: Path, measure: Callable[[], dict[str, Values]]) -> dict[str, Values]:
    """What was measured, read back where it was measured before."""
    if not path.exists():
        np.savez(path, allow_pickle=False, **measure())
    with np.load(path) as found:
        return {name: found[name] for name in MEASURES}


def measured(run: PictureAnswerer, examples: list[PictureQuestion]) -> dict[str, Values]:
    """Every measure of every question."""
    given, _ = run.answered(examples)
    right = [answer == one.answer for answer, one in zip(given, examples, strict=True)]
    masks = [mask_of(one) for one in examples]
    known = [i for i, mask in enumerate(masks) if mask is not None and mask.any()]
    maps = run.maps([(examples[i].picture, examples[i].question) for i in known])
    last = maps[max(maps, key=lambda place: place[1])].mean(axis=1)
    ranks, points = (np.full(len(examples), np.nan) for _ in range(2))
    for i, one in zip(known, last, strict=True):
        ranks[i] = rank_correlation(one[None], np.array([masks[i]]))
        points[i] = pointing_accuracy(one[None], np.array([masks[i]]))
    return dict(zip(MEASURES, (np.array(right, float), ranks, points), strict=True))


def bootstrap(values: Values, groups: list[str]) -> tuple[float, float, float, float]:
    """The mean, the middle 95 % of it over draws of whole groups, and a two-sided p."""
    known = ~np.isnan(values)
    _, which = np.unique(np.array(groups)[known], return_inverse=True)
    sums, counts = np.bincount(which, values[known]), np.bincount(which)
    rng, draws = np.random.default_rng(0), np.empty(N_DRAWS)
    for i in range(N_DRAWS):
        times = np.bincount(rng.integers(len(sums), size=len(sums)), minlength=len(sums))
        draws[i] = times @ sums / (times @ counts)
    lead = float(sums.sum() / counts.sum())
    denied = int(np.sum(draws <= 0 if lead >= 0 else draws >= 0))
    low, high = np.quantile(draws, (0.025, 0.975)).tolist()
    return lead, low, high, min(1.0, 2 * (denied + 1) / (N_DRAWS + 1))


if __name__ == "__main__":
    main()
