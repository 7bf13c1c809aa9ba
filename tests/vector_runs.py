"""A run of word vectors that is trained in a second: two companies, and two words in each."""

from regard.runs.train import train
from regard.tasks.recipe import recipe_from

LINES = [f"a {word} b" for word in ("dog", "cat")] + [f"c {word} d" for word in ("red", "big")]
TRAIN = {
    "max_steps": 150,
    "batch_tokens": 40,
    "lr": 0.05,
    "warmup_steps": 1,
    "save_every": 40,
    "eval_every": 75,
    "log_every": 5,
}


def vectors_recipe(folder, **changes):
    """A complete recipe with a file of its own."""
    (folder / "texts.txt").write_text("\n".join(LINES * 30) + "\n")
    texts = str(folder / "texts.txt")
    return {
        "task": "vectors",
        "data": {"train": texts, "valid": texts, **changes.pop("data", {})},
        "text": {"kind": "word", **changes.pop("text", {})},
        "model": {
            "preset": "word2vec2013",
            "d_model": 16,
            "threshold": 1.0,
            "n_negatives": 2,
            **changes.pop("model", {}),
        },
        "train": {**TRAIN, **changes.pop("train", {})},
    }


def vectors_run(folder, **changes):
    """Train it -> its folder."""
    train(recipe_from(vectors_recipe(folder, **changes)), folder / "run")
    return folder / "run"
