"""An output layer is attention over a vocabulary, and a mean of like words stands in for a word.

The state at a place is the query, the rows of the output layer are the keys, its biases are added
to the scores, and the weights are the chances of the next word. With the words' vectors as values,
attention brings home the vector that is expected next. Asked by a word that may not see itself, it
brings home the mean of the words most like it. Put in the word's place, that mean serves a trained
model far better than the mean of another word's neighbours. (That it lies near the word says
little: among random vectors, too, the nearest are near.)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.attention import attention
from regard.lab.language import START, Language, OneAttention, language, language_model
from regard.lab.result import Result, unmet
from regard.visual.charts import bars
from regard.visual.matrix import matrix
from regard.visual.tables import Table

BEGINNINGS = ("two uncles do", "the animal", "the dog did not", "she")
CHOSEN = ("dog", "street", "tired", "wide", "she", "because", "does")
SHARPNESS = 12.0
"""Of a word's look at the others: cosines are multiplied by it."""
_SPECIAL = 3  # padding, start and end come first and are no words


def vocabulary(*, trained: bool = True, steps: int = 400, seed: int = 0) -> Result:
    """A language model of one self-attention, ``trained`` or as it begins, read as attention."""
    known = language()
    model, _ = language_model(known, masked=True, steps=steps if trained else 0, seed=seed)
    states, chances = _asked(model, known)
    rows, bias = model.to_logits.weight.detach(), model.to_logits.bias.detach()
    expected, weights = attention(states, rows, rows, score="dot", bias=bias, need_weights=True)
    error = (weights - chances).abs().max().item()
    means, neighbours = neighbour_means(rows[_SPECIAL:])
    losses = {
        "the word": _loss(model, known, rows[_SPECIAL:]),
        "its neighbours": _loss(model, known, means),
        "another's neighbours": _loss(model, known, means.roll(1, dims=0)),
    }
    plain, own, other = losses.values()
    parts = {
        "an output layer is attention": error < 1e-5,
        "a word can be told by its neighbours": own - plain < (other - plain) / 2 and other > plain,
    }
    return Result(
        name="vocabulary",
        verdict=all(parts.values()),
        finding=(
            f"Weights of the attention and chances of the output layer differ by {error:.1g} over "
            f"{len(known.words)} words. With each word read as the mean of its neighbours, the "
            f"loss on new sentences goes from {plain:.2f} to {own:.2f}; with that of another "
            f"word's neighbours to {other:.2f}.{unmet(parts)}"
        ),
        numbers={
            "words": len(known.words),
            "largest difference of a weight": error,
            **{f"loss, words read as {name}": loss for name, loss in losses.items()},
            "cosine of the expected vector with the likeliest word": F.cosine_similarity(
                expected, rows[chances.argmax(dim=-1)], dim=-1
            ).tolist(),
        },
        pictures=(
            _likeliest(known, weights),
            bars(losses, title="Loss where words are read as …", unit=" nats"),
        ),
        tables=(_neighbours(known, neighbours),),
    )


@torch.no_grad()
def _asked(model: OneAttention, known: Language) -> tuple[Tensor, Tensor]:
    """States (N, D) after the beginnings, and the model's chances (N, V) of the next word."""
    rows = [known.ids([START, *text.split()])[None] for text in BEGINNINGS]
    states = torch.cat([model.states(ids, masked=True)[:, -1] for ids in rows])
    chances = torch.cat([model(ids)[:, -1].softmax(dim=-1) for ids in rows])
    return states, chances


@torch.no_grad()
def _loss(model: OneAttention, known: Language, words: Tensor) -> float:
    """On new sentences, words being read as these vectors (V, D) and written as before."""
    table = torch.cat((model.to_logits.weight[:_SPECIAL], words))
    handle = model.embedding.tokens.register_forward_hook(
        lambda _module, given, _out: F.embedding(given[0], table)
    )
    loss = model.loss(known.test, masked=True).item()
    handle.remove()
    return loss


def neighbour_means(words: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (V, D) -> what each sees of the others (V, D), and its weights (V, V).

    Means of vectors are shorter than they are; these are as long as the words that ask.
    """
    directions = F.normalize(words, dim=-1)
    others = ~torch.eye(len(words), dtype=torch.bool)
    means, weights = attention(
        SHARPNESS * directions, directions, words, score="dot", mask=others, need_weights=True
    )
    return F.normalize(means, dim=-1) * words.norm(dim=-1, keepdim=True), weights


def _likeliest(known: Language, weights: Tensor) -> str:
    """Where the beginnings look in the vocabulary: at the three that each looks at most."""
    columns = list(dict.fromkeys(weights.topk(3).indices.flatten().tolist()))
    return matrix(
        weights[:, columns].tolist(),
        [f"{text} …" for text in BEGINNINGS],
        [known.words[i] for i in columns],
        title="Where a state looks in the vocabulary",
    )


def _neighbours(known: Language, weights: Tensor) -> Table:
    names = known.words[_SPECIAL:]
    rows = []
    for word in CHOSEN:
        most = weights[names.index(word)].topk(5)
        found = zip(most.indices.tolist(), most.values.tolist(), strict=True)
        rows.append([word, ", ".join(f"{names[i]} {weight:.2f}" for i, weight in found)])
    return Table("Words and what they look at most", ["Word", "Neighbours, with weights"], rows)
