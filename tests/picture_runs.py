"""Short runs of pictures, one that counts squares and one that tells of them: small, but whole."""

import base64
import io
import json

import numpy as np
from PIL import Image

from regard.runs.train import train
from regard.tasks.recipe import recipe_from

LABELS = ("one", "two")
SIDE = 32


def scene(seed=0, n=2):
    """Pixels (32, 32, 3): bright squares on noise."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(60, 100, (SIDE, SIDE, 3), np.uint8)
    for colour in ((250, 40, 40), (40, 90, 250))[:n]:
        top, left = rng.integers(0, SIDE - 8, 2)
        pixels[top : top + 8, left : left + 8] = colour
    return pixels


def png(pixels):
    """The bytes of a file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def data_url(data, kind="png"):
    """What a browser sends."""
    return f"data:image/{kind};base64," + base64.b64encode(data).decode()


def counting_run(folder, **model):
    """Train it -> its folder."""
    for split, n in (("train", 12), ("valid", 6)):
        for i, label in enumerate(LABELS):
            (folder / "data" / split / label).mkdir(parents=True)
            for k in range(n):
                seed = 1000 * len(split) + 2 * k + i
                (folder / "data" / split / label / f"{k}.png").write_bytes(png(scene(seed, 1 + i)))
    recipe = {
        "task": "image_classification",
        "data": {"folder": str(folder / "data"), "train": "train", "valid": "valid"},
        "model": {
            "preset": "vit2021",
            "patch_size": 8,
            "n_layers": 2,
            "n_heads": 2,
            "d_model": 16,
            "d_ff": 32,
            "dropout": 0.0,
            **model,
        },
        "train": {
            "max_steps": 20,
            "warmup_steps": 2,
            "batch_size": 12,
            "eval_every": 20,
            "lr": 1e-2,
        },
    }
    train(recipe_from(recipe), folder / "run")
    return folder / "run"


SAID = {1: ("a red square", "there is one square"), 2: ("two squares", "a square and a square")}


def captioned_files(folder):
    """Pictures with two captions each, train.jsonl and valid.jsonl -> the settings of the data."""
    folder.mkdir(parents=True)
    for split, n in (("train", 24), ("valid", 8)):
        lines = []
        for k in range(n):
            (folder / f"{split}{k}.png").write_bytes(png(scene(100 * len(split) + k, 1 + k % 2)))
            told = {"image": f"{split}{k}.png", "caption": list(SAID[1 + k % 2])}
            lines.append(json.dumps(told) + "\n")
        (folder / f"{split}.jsonl").write_text("".join(lines))
    return {"folder": str(folder), "train": "train.jsonl", "valid": "valid.jsonl"}


def captioning_recipe(folder, preset="show-attend-tell2015", train=(), **model):
    """A recipe for a small captioner of these pictures."""
    return recipe_from(
        {
            "task": "captioning",
            "data": captioned_files(folder),
            "text": {"kind": "word"},
            "model": {"preset": preset, "d_model": 32, "dropout": 0.0, "max_len": 16, **model},
            "train": {
                "max_steps": 240,
                "warmup_steps": 2,
                "batch_size": 12,
                "eval_every": 60,
                "lr": 1e-2,
                "label_smoothing": 0.0,
                **dict(train),
            },
            "decode": {"max_len": 12},
        }
    )


def captioning_run(folder, **how):
    """Train it -> its folder."""
    train(captioning_recipe(folder / "data", **how), folder / "run", device="cpu")
    return folder / "run"
