"""An output layer is attention over the words of a vocabulary, and a word is near its neighbours.

The state at a place is the query, the rows of the output layer are the keys, its biases are added
to the scores, and the weights are the chances of the next word. With the words' vectors as values,
attention brings home the vector that is expected next. Asked by a word that may not see itself, it
brings home the mean of the words most like it; in a trained vocabulary that is close to the word,
in an untrained one it says nothing of it.
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

BEGINNINGS = ("the", "the animal", "the animal is too", "two uncles do not")
CHOSEN = ("dog", "street", "tired", "wide", "she", "because", "does")
SHARPNESS = 12.0
"""Of a word's look at the others: cosines are multiplied by it."""
_SHOWN = 10


def vocabulary(*, trained: bool = True, steps: int = 400, seed: int = 0) -> Result:
    """A language model of one self-attention, ``trained`` or as it begins, read as attention."""
    known = language()
    model, _ = language_model(known, masked=True, steps=steps if trained else 0, seed=seed)
    states, chances = _asked(model, known)
    rows, bias = model.to_logits.weight.detach(), model.to_logits.bias.detach()
    expected, weights = attention(states, rows, rows, score="dot", bias=bias, need_weights=True)
    error = (weights - chances).abs().max().item()
    words = rows[3:]  # without padding, start and end
    means, neighbours = neighbour_means(words)
    near = F.cosine_similarity(words, means, dim=-1).mean().item()
    far = F.cosine_similarity(words, means.roll(1, dims=0), dim=-1).mean().item()
    parts = {
        "an output layer is attention": error < 1e-5,
        "a word is near the mean of its neighbours": near > 0.5 and near > far + 0.3,
    }
    return Result(
        name="vocabulary",
        verdict=all(parts.values()),
        finding=(
            f"Weights of the attention and chances of the output layer differ by {error:.1g} over "
            f"{len(known.words)} words. The mean of a word's neighbours, itself not seen, has a "
            f"cosine of {near:.2f} with it, and of {far:.2f} with another word.{unmet(parts)}"
        ),
        numbers={
            "words": len(known.words),
            "largest difference of a weight": error,
            "cosine with the mean of the neighbours": near,
            "cosine with that of another word": far,
            "cosine of the expected vector with the likeliest word": F.cosine_similarity(
                expected, rows[chances.argmax(dim=-1)], dim=-1
            ).tolist(),
        },
        pictures=(
            _likeliest(known, weights),
            bars(
                {"its own neighbours": max(near, 0.0), "another's neighbours": max(far, 0.0)},
                title="Cosine of a word with a mean of neighbours",
            ),
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


def neighbour_means(words: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (V, D) -> means (V, D) of what each sees of the others, and its weights (V, V)."""
    directions = F.normalize(words, dim=-1)
    others = ~torch.eye(len(words), dtype=torch.bool)
    means, weights = attention(
        SHARPNESS * directions, directions, words, score="dot", mask=others, need_weights=True
    )
    return means, weights


def _likeliest(known: Language, weights: Tensor) -> str:
    """Where the beginnings look in the vocabulary; words that none of them looks at are left out."""
    columns = weights.amax(dim=0).topk(_SHOWN).indices
    return matrix(
        weights[:, columns].tolist(),
        [f"{text} …" for text in BEGINNINGS],
        [known.words[i] for i in columns.tolist()],
        title="Where a state looks in the vocabulary",
    )


def _neighbours(known: Language, weights: Tensor) -> Table:
    names = known.words[3:]
    rows = []
    for word in CHOSEN:
        most = weights[names.index(word)].topk(5)
        found = zip(most.indices.tolist(), most.values.tolist(), strict=True)
        rows.append([word, ", ".join(f"{names[i]} {weight:.2f}" for i, weight in found)])
    return Table("Words and what they look at most", ["Word", "Neighbours, with weights"], rows)
