"""Skip-gram with negative samples (Mikolov et al. 2013): vectors of words by the company they keep.

Each word of a text is to be told from its neighbours: its vector shall have a large product with
the context vectors of words that stood near it, and a small one with those of words that did not,
which are drawn by their frequency to the power of 3/4. Frequent words are left out at random, and
near is up to ``window`` words away, a width that is drawn anew for each word, so that the nearest
count most. What is kept are the word vectors; those of contexts were the scaffold.

    words, vectors = train_vectors([["john", "loves", "mary"], …], d_model=64)
    write_vectors(Path("vectors.txt"), words, vectors)     # and then train.vectors=vectors.txt
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import ConfigError, DataError

POWER = 0.75
"""Of the frequencies by which negative samples are drawn."""
Ids = NDArray[np.int64]
Shares = NDArray[np.float64]


class WordVectors(NamedTuple):
    """Words, the most frequent first, and their vectors (V, D)."""

    words: tuple[str, ...]
    vectors: NDArray[np.float32]


def train_vectors(
    texts: Iterable[Sequence[str]],
    *,
    d_model: int = 64,
    window: int = 4,
    n_negatives: int = 5,
    threshold: float = 1e-3,
    n_epochs: int = 3,
    batch: int = 512,
    lr: float = 1e-2,
    seed: int = 0,
) -> WordVectors:
    """Vectors of all words of some texts, each a list of words; the same on every call.

    A word whose share of all words is f is read with a chance of √(threshold / f), at most 1.
    ``batch`` is in pairs of neighbours. Adam, whose rate ``lr`` falls to zero.
    """
    _check(d_model=d_model, window=window, n_negatives=n_negatives, n_epochs=n_epochs, batch=batch)
    _check_positive(threshold=threshold, lr=lr)
    several = [text for text in texts if len(text) > 1]
    counted = Counter(word for text in several for word in text).most_common()
    if len(counted) < 2:
        raise DataError("vectors are learned from neighbours: give texts of two different words")
    numbers = {word: i for i, (word, _) in enumerate(counted)}
    ids = [np.array([numbers[word] for word in text]) for text in several]
    counts = np.array([n for _, n in counted], dtype=np.float64)
    kept, noise = kept_shares(counts, threshold), torch.from_numpy(noise_shares(counts))
    rng, drawn = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    # As word2vec begins: small vectors of words, contexts of zeros.
    start = (torch.rand(len(counts), d_model, generator=drawn) - 0.5) / d_model
    words, contexts = start.requires_grad_(), torch.zeros(len(counts), d_model, requires_grad=True)
    optimiser = torch.optim.Adam([words, contexts], lr=lr)
    for epoch in range(n_epochs):
        pairs = torch.from_numpy(neighbours(ids, kept, window, rng))
        batches = [some for some in pairs.split(batch) if len(some)]
        for i, some in enumerate(batches):
            optimiser.param_groups[0]["lr"] = lr * (1 - (epoch + i / len(batches)) / n_epochs)
            others = torch.multinomial(
                noise, len(some) * n_negatives, replacement=True, generator=drawn
            ).view(len(some), n_negatives)
            here, near = some.unbind(1)
            loss = skip_gram_loss(words[here], contexts[near], contexts[others])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return WordVectors(tuple(word for word, _ in counted), words.detach().numpy())


def skip_gram_loss(words: Tensor, near: Tensor, others: Tensor) -> Tensor:
    """-log σ(w·c) - Σ log σ(-w·n), the mean over pairs.

    Vectors of words (B, D), of a context near each (B, D), and of K negative samples (B, K, D).
    """
    right = F.logsigmoid((words * near).sum(dim=-1))  # (B,)
    wrong = F.logsigmoid(-(others @ words.unsqueeze(-1)).squeeze(-1)).sum(dim=-1)  # (B, K) -> (B,)
    return -(right + wrong).mean()


def noise_shares(counts: Shares) -> Shares:
    """How often each word (V,) is drawn as a negative sample: its frequency to the power of 3/4."""
    raised = counts**POWER
    return raised / raised.sum()


def kept_shares(counts: Shares, threshold: float) -> Shares:
    """The chance (V,) that a word is read at all, where it stands."""
    return np.minimum(1.0, np.sqrt(threshold * counts.sum() / counts))


def neighbours(texts: Sequence[Ids], kept: Shares, window: int, rng: np.random.Generator) -> Ids:
    """Pairs (N, 2) of a word and one near it, shuffled; words that are not kept leave no gap."""
    found: list[Ids] = []
    for ids in texts:
        read = ids[rng.random(len(ids)) < kept[ids]]
        reach = rng.integers(1, window + 1, len(read))
        for distance in range(1, min(window, len(read) - 1) + 1):
            left, right = read[:-distance], read[distance:]
            found.append(np.stack((left, right), axis=1)[reach[:-distance] >= distance])
            found.append(np.stack((right, left), axis=1)[reach[distance:] >= distance])
    pairs = np.concatenate(found) if found else np.empty((0, 2), dtype=np.int64)
    return rng.permutation(pairs)


def _check(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, got {value}")


def _check_positive(**rates: float) -> None:
    for name, value in rates.items():
        if not value > 0:  # nan is none, too
            raise ConfigError(f"{name} must be above 0, got {value}")
