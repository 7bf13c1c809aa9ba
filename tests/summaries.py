"""A short run that summarizes letters: good for little, but whole."""

import json
import random

from regard.runs.train import train
from regard.tasks.recipe import recipe_from

MAX_LEN = 24


def documents(n, seed, longest=20):
    """Letters, and the first and the last of them."""
    rng = random.Random(seed)
    for _ in range(n):
        letters = [rng.choice("abcdefgh") for _ in range(rng.randint(4, longest))]
        yield " ".join(letters), f"{letters[0]} {letters[-1]}"


def lines(pairs):
    """As JSON, a document a line."""
    rows = ({"document": document, "summary": summary} for document, summary in pairs)
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def settings(folder, **changes):
    """A recipe for files in a folder, which are written; sections may be changed."""
    for name, n in {"train": 60, "valid": 7, "test": 9}.items():
        (folder / f"{name}.jsonl").write_text(lines(documents(n, seed=n)))
    small = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 1, "max_len": MAX_LEN}
    steps = {"max_steps": 20, "batch_tokens": 200, "warmup_steps": 2, "save_every": 20}
    sections = {
        "data": {"folder": str(folder), **{x: f"{x}.jsonl" for x in ("train", "valid", "test")}},
        "text": {"kind": "word"},
        "model": {"preset": "transformer", **small},
        "train": {**steps, "lr": 1e-3, "eval_every": 10},
        "decode": {"max_len": 9},
    }
    changed = {name: {**one, **changes.get(name, {})} for name, one in sections.items()}
    return {"task": "summarization", **changed}


def short_run(folder, **changes):
    """Train a run on the letters -> its folder."""
    train(recipe_from(settings(folder, **changes)), folder / "run")
    return folder / "run"
