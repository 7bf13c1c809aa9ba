"""A detector of discs and squares: pictures with boxes, its recipe, and its short training."""

import numpy as np
from PIL import Image, ImageDraw

from regard.tasks.recipe import recipe_from

SIZE = 48
MODEL = {"d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 64, "dropout": 0.0, "n_queries": 8}


def draw(path, seed, n):
    """A picture of light discs and dark squares on grey; -> lines of its boxes."""
    rng = np.random.default_rng(seed)
    picture = Image.new("RGB", (96, 64), (120, 120, 120))
    pen, lines = ImageDraw.Draw(picture), []
    for i in range(n):
        left, top = 4 + 46 * i + int(rng.integers(0, 16)), int(rng.integers(4, 34))
        box = (left, top, left + 22, top + 22)
        kind = ("disc", "square")[int(rng.integers(2))]
        if kind == "disc":
            pen.ellipse(box, fill=(240, 220, 60))
        else:
            pen.rectangle(box, fill=(20, 30, 110))
        lines.append(f"{path.name}\t96\t64\t{kind}\t{left}\t{top}\t{left + 23}\t{top + 23}")
    picture.save(path)
    return lines


def write_shapes(folder):
    """Pictures and their boxes.tsv, with the splits in it; -> the folder."""
    rows = ["image\twidth\theight\tlabel\txmin\tymin\txmax\tymax\tsplit"]
    for number, split in enumerate(["train"] * 48 + ["val"] * 8 + ["test"] * 8):
        drawn = draw(folder / f"{number}.png", number, 1 + number % 2)
        rows += [f"{line}\t{split}" for line in drawn]
    (folder / "boxes.tsv").write_text("\n".join(rows) + "\n")
    return folder


def recipe(folder, **changes):
    return recipe_from(
        {
            "task": "detection",
            "data": {"folder": str(folder), "train": "boxes.tsv", "image_size": SIZE,
                     "fit": "squash", "augment": {"flip": True}, **changes.pop("data", {})},
            "model": {"preset": "detr2020", **MODEL, "n_groups": 2, **changes.pop("model", {})},
            "train": {"max_steps": 250, "batch_size": 8, "lr": 2e-3, "warmup_steps": 20,
                      "schedule": "cosine", "eval_every": 125, "save_every": 125,
                      "criterion": "ap50", **changes.pop("train", {})},
        }
    )  # fmt: skip
