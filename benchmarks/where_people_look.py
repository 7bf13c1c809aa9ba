"""Where models look in photographs, beside where people looked: NSS of their attention.

python benchmarks/where_people_look.py PATH RUN…

PATH is the folder scene-saliency (images.dev.tar.xz, fixations.{train,dev}.tsv.gz). Of a captioner
the map is the mean of all words of its caption, of a Vision Transformer what the class token, or
else the mean patch, looks at in the last layer and, by rollout, in the end; heads are averaged.
Nothing is learned from fixations but the centre prior, the mean map of those of `train`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import regard
from regard.evaluation.saliency import nss
from regard.inspection.heads import rollout

Map = NDArray[np.float64]
GRID = 64
"""Cells of a side of the centre prior."""
SIDE = 256
BLUR = 2.5
"""Deviation by which its counts are smoothed, in cells."""


def main() -> None:
    """One line a map: whose it is, and its NSS on `dev`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    asked = parser.parse_args()
    pictures = dict(opened(asked.folder / "images.dev.tar.xz"))
    points = fixations(asked.folder / "fixations.dev.tsv.gz", pictures)
    names = sorted(points)
    where = [points[name] for name in names]
    train = dict(opened(asked.folder / "images.train.tar.xz"))
    seen = fixations(asked.folder / "fixations.train.tsv.gz", train)
    prior = centre_prior(np.concatenate([*seen.values()]))
    print(f"centre prior: NSS {nss(np.stack([prior] * len(names)), where):.2f}")
    for folder in asked.runs:
        run = regard.load(str(folder))
        found: dict[str, list[Map]] = {}
        for name in names:
            for kind, one in maps(run, pictures[name]):
                found.setdefault(kind, []).append(one)
        for kind, some in found.items():
            print(f"{folder} {kind}: NSS {nss(np.stack(some), where):.2f}")


def opened(path: Path) -> Iterator[tuple[str, Image.Image]]:
    """The pictures of an archive by file name."""
    with tarfile.open(path) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                yield Path(member.name).name, Image.open(io.BytesIO(file.read())).convert("RGB")


def fixations(path: Path, pictures: dict[str, Image.Image]) -> dict[str, Map]:
    """Picture -> (m, 2): x and y of where anybody looked, as shares of the sides."""
    found: dict[str, list[tuple[float, float]]] = {}
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            width, height = pictures[row["image"]].size
            at = float(row["x"]) / width, float(row["y"]) / height
            found.setdefault(row["image"], []).append(at)
    return {name: np.array(points) for name, points in found.items()}


def centre_prior(points: Map) -> Map:
    """(GRID, GRID): how often people look where, whatever the picture shows."""
    from scipy.ndimage import gaussian_filter

    x, y = (points.clip(0, 1 - 1e-9) * GRID).astype(int).T
    counts = np.zeros((GRID, GRID))
    np.add.at(counts, (y, x), 1)
    return gaussian_filter(counts, BLUR)


def maps(run: Any, picture: Image.Image) -> Iterator[tuple[str, Map]]:
    """Maps of one picture (R, C) by what they are; made square, so that nothing is cut off."""
    look = run.explain(picture.resize((SIDE, SIDE)))
    rows, columns = run.config.grid
    if "decoder.cross" in look.attentions:
        layers = np.stack([np.asarray(x, np.float64) for x in look.attentions["decoder.cross"]])
        yield "all words", layers.mean(axis=(0, 1, 2)).reshape(rows, columns)
        return
    of_patches = [np.asarray(x, np.float64) for x in look.attentions["encoder.self"]]
    last = of_patches[-1].mean(axis=0)
    for kind, among in (("last layer", last), ("rollout", rollout(of_patches))):
        n_before = len(among) - rows * columns  # the class token, if there is one
        row = among[0] if n_before else among.mean(axis=0)
        yield kind, row[n_before:].reshape(rows, columns)


if __name__ == "__main__":
    main()
