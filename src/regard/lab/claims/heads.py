"""One head can split its weight over two words, but cannot keep two different weightings apart.

A reader must tell the subject and the object of a sentence. Which two words they are, one head can
tell: it gives each half of its weight. Which is the subject and which the object, it cannot: it
brings home one mixture. Heads are swept at equal width; of a few trainings the best counts, since
the claim is about what can be done. A feed-forward network behind one head is tried as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.inspection.capture import watch
from regard.lab.result import Result, lines, listed, percent
from regard.lab.small_models import fit, seeded
from regard.layers.attention import MultiHeadAttention
from regard.layers.feed_forward import FeedForward
from regard.layers.key_values import KeyValues
from regard.visual.matrix import matrix

_NETWORK = {
    True: "a nonlinear reading can tell a large part of a mixture from a small one",
    False: "the network has not learned to tell a large part of the mixture from a small one",
}
ROLES = ("other", "subject", "object")
WIDTH = 32
_WORDS, _LENGTH = 16, 8


def heads(
    *,
    ordered: bool = True,
    counts: Sequence[int] = (2, 4, 8, 16),
    steps: int = 300,
    n_models: int = 2,
    seed: int = 0,
) -> Result:
    """One head and more; unless ``ordered``, which word is which is not asked of them."""
    seeds = range(seed, seed + n_models)
    one = best_reader(1, ordered=ordered, steps=steps, seeds=seeds)
    split = best_reader(1, ordered=False, steps=steps, seeds=seeds)
    more = [best_reader(n, ordered=ordered, steps=steps, seeds=seeds) for n in counts]
    network = best_reader(1, ordered=True, network=True, steps=steps, seeds=seeds)
    swept = {n: reader.accuracy for n, reader in zip((1, *counts), (one, *more), strict=True)}
    weights = _weights(network.model)[0]
    parts = _weights(more[0].model)
    rows = {
        "1 head, which two": _weights(split.model)[0],
        **{f"head {i} of {len(parts)}, order": row for i, row in enumerate(parts, 1)},
        "1 head + network, order": weights,
    }
    columns = ["other", "subject", "object", *["other"] * 5]
    found, x_label = "Subject and object found", f"heads, {WIDTH} wide together"
    return Result(
        name="heads",
        verdict=one.accuracy < 0.75 and min(x.accuracy for x in (split, *more)) > 0.95,
        finding=(
            f"Which two words they are, one head tells in {percent(split.accuracy)} of new "
            f"sentences. {'Which is which' if ordered else 'No more than that'} is told in "
            f"{listed(map(percent, swept.values()))} of them by {listed(swept)} heads, all of one "
            "total width. With a feed-forward network behind it, one head tells which is which in "
            f"{percent(network.accuracy)}, its weights on them {weights[1]:.2f} and "
            f"{weights[2]:.2f}: {_NETWORK[network.accuracy > 0.95]}."
        ),
        numbers={
            "heads": list(swept),
            "share right by heads": list(swept.values()),
            "one head, order not asked": split.accuracy,
            "one head and a feed-forward network": network.accuracy,
            "its weight on the subject": weights[1],
            "its weight on the object": weights[2],
        },
        pictures=(
            lines({"best of the trainings": swept}, found, x_label, "share right"),
            matrix(list(rows.values()), list(rows), columns, title="Where the heads look"),
        ),
    )


def _weights(model: Reader) -> list[list[float]]:
    """Of each head on the words of one sentence: first another one, then subject and object."""
    words, roles = torch.zeros(1, 8, dtype=torch.long), torch.tensor([[0, 1, 2, 0, 0, 0, 0, 0]])
    with watch(model) as views, torch.no_grad():
        model(words, roles)
    weights: list[list[float]] = views["attention", 0].weights()[0, :, 0].tolist()
    return weights


class Reader(nn.Module):
    """Asks one question of a sentence and tells two words, or the set of them, by linear steps.

    ``network`` puts a feed-forward network behind the heads, and then not all is linear.
    """

    def __init__(self, n_heads: int, *, ordered: bool, network: bool) -> None:
        super().__init__()
        self.roles = nn.Embedding(len(ROLES), WIDTH)
        self.words = nn.Embedding(_WORDS, WIDTH)
        # At first it looks at all words alike: no head is stuck with one role from the start.
        self.question = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.attention = MultiHeadAttention(WIDTH, n_heads)
        self.network = FeedForward(WIDTH, 4 * WIDTH) if network else None
        self.to_logits = nn.Linear(WIDTH, (2 if ordered else 1) * _WORDS)

    def forward(self, words: Tensor, roles: Tensor) -> Tensor:
        """words and roles (B, S) -> logits of each word (B, 2, V), or (B, 1, V) of both."""
        keys, values = (self.attention.project(x) for x in (self.roles(roles), self.words(words)))
        asked = self.question.expand(len(words), -1, -1)
        found = self.attention.look(asked, KeyValues(keys.k, values.v))[:, 0]
        if self.network:
            found = found + self.network(found)
        return self.to_logits(found).unflatten(-1, (-1, _WORDS))


class TrainedReader(NamedTuple):
    """A reader, and the share of new sentences in which it is right."""

    accuracy: float
    model: Reader


def best_reader(
    n_heads: int, *, ordered: bool, steps: int, seeds: Sequence[int], network: bool = False
) -> TrainedReader:
    """The best of the readers trained from each seed: it shows what can be done."""
    trained = [_trained(n_heads, ordered, network, steps, seed) for seed in seeds]
    return max(trained, key=lambda one: one.accuracy)


def _trained(n_heads: int, ordered: bool, network: bool, steps: int, seed: int) -> TrainedReader:
    rng = torch.Generator().manual_seed(seed)
    with seeded(seed):
        model = Reader(n_heads, ordered=ordered, network=network)

    def loss() -> Tensor:
        words, roles, answer = sentences(64, rng)
        logits = model(words, roles)
        if ordered:
            return F.cross_entropy(logits.transpose(1, 2), answer)
        return F.binary_cross_entropy_with_logits(logits, _set(answer))

    fit(model.parameters(), loss, steps=steps, lr=1e-2)
    words, roles, answer = sentences(2000, rng)
    with torch.no_grad():
        return TrainedReader(right(model(words, roles), answer).double().mean().item(), model)


def right(logits: Tensor, answer: Tensor) -> Tensor:
    """(B,): both words in their order, or the set of them and nothing else."""
    if logits.shape[1] == 2:
        return (logits.argmax(dim=-1) == answer).all(dim=-1)
    return ((logits > 0) == (_set(answer) > 0)).flatten(1).all(dim=-1)


def _set(answer: Tensor) -> Tensor:
    return F.one_hot(answer, _WORDS).amax(dim=1, keepdim=True).float()  # (B, 2) -> (B, 1, V)


def sentences(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Words and roles (B, S); the subject and the object (B, 2)."""
    words = torch.randint(_WORDS, (n, _LENGTH), generator=rng)
    places = torch.rand(n, _LENGTH, generator=rng).argsort(dim=1)[:, :2]
    roles = torch.zeros_like(words).scatter(1, places, torch.tensor([[1, 2]]).expand(n, -1))
    return words, roles, words.gather(1, places)
