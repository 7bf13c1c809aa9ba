"""Runs of encoders that are trained in a second: letters, with labels that follow from them."""

import random

SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2, "dropout": 0.0, "max_len": 16}
TRAIN = {
    "max_steps": 30,
    "batch_tokens": 200,
    "lr": 5e-3,
    "warmup_steps": 5,
    "save_every": 10,
    "eval_every": 15,
    "log_every": 5,
}


def texts(n, seed):
    rng = random.Random(seed)
    return [" ".join(rng.choices("abcdefgh", k=rng.randint(2, 7))) for _ in range(n)]


def label(text):
    """Which of two letters is more frequent."""
    return "many a" if text.count("a") > text.count("b") else "few a"


def labelled(n, seed):
    return "".join(f"{text}\t{label(text)}\n" for text in texts(n, seed))


def labelled_pairs(n, seed):
    """Two texts: whether they begin alike."""
    rows = zip(texts(n, seed), texts(n, seed + 1000), strict=True)
    return "".join(f"{a}\t{b}\t{'same' if a[0] < 'd' else 'other'}\n" for a, b in rows)


def scored(n, seed):
    """Two texts, and how many of their letters are the same, from 0 to 5."""
    rows = zip(texts(n, seed), texts(n, seed + 1000), strict=True)
    return "".join(f"{a}\t{b}\t{5 * len({*a} & {*b}) / len({*a} | {*b}):.2f}\n" for a, b in rows)


def settings(task, folder, write, n=120, **changes):
    """A complete recipe with files of its own."""
    for name, seed, size in (("train", 1, n), ("valid", 2, 30), ("test", 3, 30)):
        (folder / f"{name}.tsv").write_text(write(size, seed))
    files = {name: f"{name}.tsv" for name in ("train", "valid", "test")}
    return {
        "task": task,
        "data": {"folder": str(folder), **files, **changes.pop("data", {})},
        "text": {"kind": "word"},
        "model": {"preset": "bert", **SMALL, **changes.pop("model", {})},
        "train": {**TRAIN, **changes.pop("train", {})},
    }
