"""Without a mask a decoder sees the words it has yet to write, and with a causal mask it does not.

Trained on whole sentences at once, step t could simply look at word t + 1, which it is to predict
and which is not there when it writes by itself. Seen by gradients: how much the prediction at t
changes with the word at s. The mask must hide what lies ahead, and must not hide what lies behind.

What comes of it is seen by training: a language model of one self-attention learns the same
sentences with the mask and without, and then both write. With one attention the last word is all
that writes, so a mask at the time of writing changes nothing: what a model knows when the next
word is not there yet is its loss under the mask.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple, cast

import torch
from torch import Tensor

from regard.lab.language import END, Language, language, language_model, written
from regard.lab.result import Result, lines, percent, unmet
from regard.lab.small_models import seeded, small_config
from regard.layers.blocks import DecoderBlock
from regard.models.transformer import Transformer
from regard.visual.matrix import matrix
from regard.visual.tables import Table

SOURCE = ("i", "am", "a", "student")
GIVEN = ("<s>", "je", "suis", "étudiant")
ASKED = ("je", "suis", "étudiant", "</s>")
_VOCABULARY = ("<pad>", *SOURCE, *GIVEN, "</s>")


def future(
    *, masked: bool = True, n_layers: int = 2, steps: int = 400, n_train: int = 2000, seed: int = 0
) -> Result:
    """A Transformer's decoder, ``masked`` or not, beside the same decoder without its mask.

    Then two language models, trained for ``steps``: one ``masked`` or not, one without a mask.
    """
    model = _transformer(n_layers, seed)
    first, second = _sensitivity(model, masked=masked), _sensitivity(model, masked=False)
    ahead = torch.ones_like(first).triu(diagonal=1).bool()
    leak, least = first[ahead].max().item(), first[~ahead].min().item()
    seen = second[ahead].min().item()
    known = language(n_train)
    honest, cheat = (_taught(known, steps, seed, masked=one) for one in (masked, False))
    parts = {
        "the mask hides what lies ahead": leak == 0,
        "it does not hide what lies behind": least > 1e-6,
        "without it words ahead are seen": seen > 1e-6,
        "without it the training loss is far lower": cheat.loss < honest.loss / 2,
        "without it the next word is not known when it is not there": (
            cheat.alone > honest.alone + 1
        ),
        "without it the pairs of words written are stranger": cheat.pairs < honest.pairs - 0.1,
    }
    with_mask, without = "With the mask" if masked else "Without a mask, as asked", "Without a mask"
    return Result(
        name="future",
        verdict=all(parts.values()),
        finding=(
            f"{_gradients(leak, least, second[ahead].mean().item())} A language model of one "
            f"self-attention trains to a loss of {honest.loss:.2f} "
            f"{'with' if masked else 'without'} the mask and of {cheat.loss:.2f} without; where "
            f"the next word is not there yet, as when it writes, to {honest.alone:.2f} and "
            f"{cheat.alone:.2f}. Of the pairs of words that they write, {percent(honest.pairs)} "
            f"and {percent(cheat.pairs)} were ever seen.{unmet(parts)}"
        ),
        numbers={
            "decoder: largest gradient from a word ahead": leak,
            "decoder: smallest gradient from a word behind": least,
            "mask taken away: smallest gradient from a word ahead": seen,
            "mask taken away: mean gradient from a word ahead": second[ahead].mean().item(),
            **{
                f"language model, {name}: {what}": value
                for name, one in (("asked", honest), ("no mask", cheat))
                for what, value in one.told().items()
            },
        },
        pictures=(
            _picture(first, with_mask),
            _picture(second, without),
            lines(
                {
                    with_mask.lower(): honest.curve,
                    without.lower(): cheat.curve,
                },
                "Training a language model of one self-attention",
                "step",
                "loss (nats)",
            ),
        ),
        tables=(
            Table(
                "What they write",
                [with_mask, without],
                list(zip(honest.texts, cheat.texts, strict=True)),
            ),
        ),
    )


class _Taught(NamedTuple):
    """A language model after its training."""

    loss: float
    """At the end of training, as training sees it."""
    alone: float
    """On other sentences, where the next word is not there yet."""
    pairs: float
    """The share of neighbouring words in what it writes that training ever showed."""
    texts: list[str]
    curve: dict[float, float]

    def told(self) -> dict[str, float]:
        return {
            "training loss": self.loss,
            "loss when the next word is not there": self.alone,
            "pairs written that were ever seen": self.pairs,
        }


def _taught(known: Language, steps: int, seed: int, *, masked: bool) -> _Taught:
    model, losses = language_model(known, masked=masked, steps=steps, seed=seed)
    with torch.no_grad():
        alone = model.loss(known.test, masked=True).item()
    rows = written(model, known, 40, masked=masked, seed=seed)
    curve = {float(i + 5): fmean(losses[i : i + 10]) for i in range(0, steps, 10)}
    texts = [known.text(row) for row in rows[:6]]
    return _Taught(fmean(losses[-20:]), alone, _seen_pairs(known, rows), texts, curve)


def _seen_pairs(known: Language, rows: list[list[int]]) -> float:
    """Up to the end of a sentence, the share of neighbouring words that stand so in training."""
    train: list[list[int]] = known.train.tolist()
    ever = {pair for row in train for pair in pairwise(row)}
    end = known.words.index(END)
    pairs = []
    for row in rows:
        stop = row.index(end) if end in row else len(row) - 1
        pairs += list(pairwise(row[: stop + 1]))
    return sum(pair in ever for pair in pairs) / len(pairs)


def _transformer(n_layers: int, seed: int) -> Transformer:
    config = small_config(len(_VOCABULARY), 32, n_layers, n_heads=4)
    with seeded(seed):
        return Transformer(config).double()


def _sensitivity(model: Transformer, *, masked: bool) -> Tensor:
    """(T, T): the norm of the gradient of log p(word asked for at t) by the word given at s."""
    words: list[Tensor] = []
    watched = model.decoder.embedding.register_forward_hook(
        lambda _module, _given, embedded: words.append(embedded)
    )
    layers = cast("Iterable[DecoderBlock]", () if masked else model.decoder.layers)
    opened = [
        layer.self_attention.view.register_forward_hook(
            lambda _module, _given, seen: dataclasses.replace(seen, causal=False)
        )
        for layer in layers
    ]
    with torch.enable_grad():
        chances = model(_ids(SOURCE), _ids(GIVEN)).log_softmax(dim=-1)
    for handle in (watched, *opened):
        handle.remove()
    rows = [
        torch.autograd.grad(chances[0, t, word], words[0], retain_graph=True)[0][0].norm(dim=-1)
        for t, word in enumerate(_ids(ASKED)[0])
    ]
    return torch.stack(rows)


def _ids(words: tuple[str, ...]) -> Tensor:
    return torch.tensor([[_VOCABULARY.index(word) for word in words]])


def _gradients(leak: float, least: float, mean: float) -> str:
    if leak == 0:
        return (
            "With the mask the gradient from every word ahead is exactly 0, and from every word "
            f"behind at least {least:.2g}. Without it words ahead count {mean:.2g} on average."
        )
    return (
        f"A word ahead moves a prediction by up to {leak:.2g}: nothing keeps the decoder from "
        "reading what it is to write."
    )


def _picture(sensitivity: Tensor, title: str) -> str:
    shares = (sensitivity / sensitivity.max()).tolist()
    return matrix(shares, [f"to write {word}" for word in ASKED], GIVEN, title=title)
