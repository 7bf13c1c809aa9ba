"""A translator with few pairs learns more if its embedding begins as vectors of word2vec.

The notes feed a Transformer with vectors that word2vec made; the paper learned its embeddings with
all the rest. Where pairs are few but texts many, vectors know beforehand which words are alike.
Here skip-gram with negative samples reads many sentences of each language without translations;
then the same small Transformer learns from a few hundred pairs, its embedding begun as those
vectors or drawn at random, from several seeds. The difference on held-out pairs is put to a
bootstrap over sentences. The vectors live on the company that words keep: without ``company`` all
words are shuffled over all texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from regard.data.word_vectors import write_vectors
from regard.data.worlds.sentences import build_sentences
from regard.lab.result import Result, listed
from regard.lab.translators import sentence_losses, translator, word_vectors
from regard.tasks.vectors import WordVectors
from regard.text import words
from regard.visual.charts import bars
from regard.visual.matrix import matrix
from regard.visual.tables import Table

SURE = 0.05
"""Below this probability of the opposite, a difference is no luck."""
SHOWN = ("dog", "red", "sees", "chien", "rouge")
"""Words whose nearest are told."""
COMPARED = ("dog", "cat", "horse", "red", "black", "big", "sees", "loves", "chien", "chat", "rouge")
"""Words whose cosines are drawn."""
_WIDTH = 64
_QUICK_VECTORS = ("max_steps=600", "batch_tokens=512")
Array = NDArray[np.float64]


def word2vec(
    *,
    company: bool = True,
    n_texts: int = 6000,
    n_pairs: int = 600,
    steps: int = 150,
    n_seeds: int = 3,
    seed: int = 1,
) -> Result:
    """Losses with vectors and without; unless ``company`` holds, texts are words in any order."""
    world = build_sentences(n_train=n_texts)
    texts = [words.split(text) for pair in world["train"] for text in (pair.source, pair.target)]
    seeds = range(seed, seed + n_seeds)
    with TemporaryDirectory() as folder:
        read, file = (Path(folder) / name for name in ("texts.txt", "vectors.txt"))
        lines = map(" ".join, texts if company else scattered(texts, seed))
        read.write_text("\n".join(lines), encoding="utf-8")
        vectors = word_vectors(read, f"d_model={_WIDTH}", f"train.seed={seed}", *_QUICK_VECTORS)
        write_vectors(file, vectors.words, vectors.vectors)
        begun = [_losses(n_pairs, steps, one, f"vectors={file}") for one in seeds]
    drawn = [_losses(n_pairs, steps, one) for one in seeds]
    saved = np.mean(drawn, axis=0) - np.mean(begun, axis=0)  # (sentences,)
    chance = opposite(saved)
    means = {
        "begun as word2vec": [float(one.mean()) for one in begun],
        "drawn at random": [float(one.mean()) for one in drawn],
    }
    by_seed = {
        f"{name}, seed {one}": loss
        for name, some in means.items()
        for one, loss in zip(seeds, some, strict=True)
    }
    near = {
        word: [one.text for one in vectors.neighbours(word, 3)]
        for word in SHOWN
        if word in vectors.words
    }
    gained = float(saved.mean())
    in_every_seed = all(a < b for a, b in zip(*means.values(), strict=True))
    return Result(
        name="word2vec",
        verdict=in_every_seed and chance < SURE,
        finding=(
            f"After {steps} steps on {n_pairs} pairs, the loss of a held-out token is "
            f"{np.mean(means['begun as word2vec']):.2f} with embeddings that begin as vectors of "
            f"{len(texts):,} texts, and {np.mean(means['drawn at random']):.2f} with drawn ones "
            f"({n_seeds} seeds each; {gained:.2f} are saved, "
            f"{'in every seed' if in_every_seed else 'but not in every seed'}; a bootstrap over "
            f"sentences says the opposite with a probability of {chance:.3f}). "
            + " ".join(f"Nearest to “{word}”: {listed(some)}." for word, some in near.items())
        ),
        numbers={
            **{f"loss by seed: {name}": some for name, some in means.items()},
            "loss saved": gained,
            "saved in every seed": in_every_seed,
            "probability of the opposite": chance,
            **{f"nearest to {word}": ", ".join(some) for word, some in near.items()},
        },
        pictures=(
            bars(by_seed, title="Loss per token on held-out pairs"),
            _cosines(vectors),
        ),
        tables=(
            Table(
                "Nearest words", ["Word", "Nearest"], [(w, ", ".join(x)) for w, x in near.items()]
            ),
        ),
    )


def scattered(texts: Sequence[Sequence[str]], seed: int) -> list[list[str]]:
    """Texts of the same lengths and the same words in all, which keep no company."""
    every = [word for text in texts for word in text]
    mixed = [every[i] for i in np.random.default_rng(seed).permutation(len(every))]
    ends = np.cumsum([len(text) for text in texts]).tolist()
    return [mixed[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _losses(n_pairs: int, steps: int, seed: int, *more: str) -> Array:
    """-log p of a token of each held-out target, the mean over its tokens: (sentences,)."""
    small = (f"d_model={_WIDTH}", f"d_ff={2 * _WIDTH}", "n_layers=1", f"n_train={n_pairs}")
    quick = ("lr=3e-3", "warmup_steps=30", "average=0.0", "batch_tokens=512")
    told = (f"max_steps={steps}", f"train.seed={seed}")
    run, data = translator("transformer", *small, *quick, *told, *more)
    return sentence_losses(run, data.splits["test"][:300])


def opposite(saved: Array, n_draws: int = 1000) -> float:
    """The probability that sentences (N,) have a mean not above zero, by a bootstrap.

    (k + 1) / (n + 1), where k of n draws say so: what was never drawn is not impossible.
    """
    draws = np.random.default_rng(0).integers(len(saved), size=(n_draws, len(saved)))
    n_opposite = int((saved[draws].mean(axis=1) <= 0).sum())
    return (n_opposite + 1) / (n_draws + 1)


def _cosines(vectors: WordVectors) -> str:
    known = [word for word in COMPARED if word in vectors.words]
    rows = vectors.vectors[[vectors.words.index(word) for word in known]]
    unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return matrix((unit @ unit.T).clip(0).tolist(), known, known, title="Cosines of word vectors")
