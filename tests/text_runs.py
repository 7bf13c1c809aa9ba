"""Short runs of all tasks that read one text: good for little, but whole."""

import random

from encoders import TRAIN, labelled, labelled_pairs, scored, settings, texts

from regard.runs.train import train
from regard.tasks.recipe import recipe_from


def questions(n, seed):
    """Which letter comes, asked about letters among which it is."""
    rng = random.Random(seed)
    rows = []
    for text in texts(n, seed):
        answer = rng.choice(text.split())
        rows.append(f"what {answer}\t{text} x\t{answer}\n")
    return "".join(rows)


WRITE = {
    "classification": labelled,
    "pairs": labelled_pairs,
    "similarity": scored,
    "answers": questions,
    "masked": lambda n, seed: "".join(f"{text}\n" for text in texts(n, seed)),
}
KINDS = (*WRITE, "language")


def short_run(kind, folder):
    """Train a run of this kind -> its folder."""
    if kind == "language":
        raw = language(folder)
    else:
        task = "classification" if kind == "pairs" else kind
        raw = settings(task, folder, WRITE[kind])
    train(recipe_from(raw), folder / "run")
    return folder / "run"


def language(folder):
    """Lines of letters, of which each is followed by the next but one."""
    rng = random.Random(0)
    lines = []
    for _ in range(120):
        first = rng.randrange(8)
        lines.append(" ".join("abcdefgh"[(first + 2 * i) % 8] for i in range(rng.randint(3, 7))))
    (folder / "train.jsonl").write_text("".join(f'{{"text": "{line}"}}\n' for line in lines))
    return {
        "task": "language",
        "data": {"folder": str(folder), "train": "train.jsonl"},
        "text": {"kind": "word"},
        "model": {
            "preset": "gpt",
            "d_model": 16,
            "n_layers": 2,
            "n_heads": 2,
            "d_ff": 32,
            "max_len": 24,
            "dropout": 0.0,
        },
        "train": {**TRAIN, "max_steps": 60, "label_smoothing": 0.0},
    }
