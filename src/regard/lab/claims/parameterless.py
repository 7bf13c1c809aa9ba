"""Plain self-attention has nothing to learn: the embedding below it drives all that it does.

A sentence holds one good or bad word, and perhaps *not*, which turns its sense around. The model is
an embedding, softmax(x xᵀ) x, the mean over the words, and of that the first number: is it
positive? Only the embedding can learn. Frozen, nothing is learned; its rows for good and bad words
exchanged, the model says the opposite; without the attention, it cannot know what *not* turns.
"""

from __future__ import annotations

from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.attention import attention
from regard.lab.result import Result, percent, share_bars
from regard.lab.small_models import fit
from regard.layers.score import Score
from regard.visual.matrix import matrix

_GOOD = ("good", "great", "lovely", "clever", "warm", "funny")
_BAD = ("bad", "awful", "dull", "silly", "cold", "sad")
_OTHERS = ("the", "film", "was", "a", "story", "and", "plot", "it", "scene", "music", "so", "this")
_WORDS = (*_GOOD, *_BAD, "not", *_OTHERS)
_NOT = _WORDS.index("not")
_LENGTH, _D = 8, 16


def parameterless(
    *, frozen: bool = False, steps: int = 1000, n_models: int = 3, seed: int = 0
) -> Result:
    """Learn what sentences mean through plain self-attention, unless the embedding is ``frozen``.

    Shares are means over ``n_models`` models and new sentences.
    """
    seeds = range(seed, seed + n_models)
    untrained = [_embedding(s) for s in seeds]
    trained = [_trained(s, 0 if frozen else steps) for s in seeds]
    bare = [_trained(s, steps, attentive=False) for s in seeds]
    shares = {
        "before training": fmean(map(_accuracy, untrained)),
        "after training": fmean(map(_accuracy, trained)),
        "rows exchanged": fmean(_accuracy(_exchanged(rows)) for rows in trained),
        "no attention": fmean(_accuracy(rows, attentive=False) for rows in bare),
    }
    learned, turned = shares["after training"], shares["rows exchanged"]
    weights = sum(p.numel() for p in Score("dot", d_query=_D, d_key=_D).parameters())
    return Result(
        name="parameterless",
        verdict=weights == 0 and learned > 0.9 and turned < 0.1,
        finding=(
            f"With {weights} parameters in the attention and a {'frozen' if frozen else 'free'} "
            f"embedding, training takes the share of new sentences understood from "
            f"{percent(shares['before training'])} to {percent(learned)}; exchanging the rows of "
            f"good and bad words takes it to {percent(turned)}, so all that is known lies there. "
            "The attention is not idle, though: the mean of the embeddings alone learns "
            f"{percent(shares['no attention'])}, for a “not” must meet its word."
        ),
        numbers={
            "parameters of the embedding": trained[0].numel(),
            "parameters of the attention": weights,
            **{f"share right: {name}": share for name, share in shares.items()},
        },
        pictures=(share_bars(shares, title="New sentences understood"), _picture(trained[0])),
    )


def _model(rows: Tensor, ids: Tensor, *, attentive: bool = True) -> Tensor:
    """rows (V, D) of an embedding, ids (B, T) -> logits (B,): above 0 is good."""
    x = rows[ids]
    y = attention(x, x, x, score="dot") if attentive else x
    return y.mean(dim=1)[:, 0] * 4  # a fixed factor, so that words need not grow long


def _embedding(seed: int) -> Tensor:
    return 0.3 * torch.randn(len(_WORDS), _D, generator=torch.Generator().manual_seed(seed))


def _trained(seed: int, steps: int, *, attentive: bool = True) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    rows = nn.Parameter(_embedding(seed))

    def loss() -> Tensor:
        ids, good = _sentences(64, rng)
        logits = _model(rows, ids, attentive=attentive)
        return F.binary_cross_entropy_with_logits(logits, good.float())

    if steps:
        fit([rows], loss, steps=steps, lr=0.1)
    return rows.detach()


def _accuracy(rows: Tensor, *, attentive: bool = True) -> float:
    ids, good = _sentences(2000, torch.Generator().manual_seed(1000))
    return ((_model(rows, ids, attentive=attentive) > 0) == good).double().mean().item()


def _exchanged(rows: Tensor) -> Tensor:
    """The good words' rows where the bad words' were, and the other way round."""
    n = len(_GOOD)
    return torch.cat((rows[n : 2 * n], rows[:n], rows[2 * n :]))


def _sentences(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """ids (B, T), in an order that does not matter to the model, and whether they mean well."""
    ids = torch.randint(_NOT + 1, len(_WORDS), (n, _LENGTH), generator=rng)
    ids[:, 0] = torch.randint(2 * len(_GOOD), (n,), generator=rng)
    negated = torch.rand(n, generator=rng) < 0.5
    ids[negated, 1] = _NOT
    return ids, (ids[:, 0] < len(_GOOD)) ^ negated


def _picture(rows: Tensor) -> str:
    words = ["the", "film", "was", "not", "good", "and", "the", "story"]
    x = rows[[_WORDS.index(word) for word in words]]
    _, weights = attention(x, x, x, score="dot", need_weights=True)
    return matrix(weights.tolist(), words, words, title="Where the words look")
