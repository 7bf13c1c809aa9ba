"""Without a mask a decoder sees the words it has yet to write, and with a causal mask it does not.

Trained on whole sentences at once, step t could simply look at word t + 1, which it is to predict
and which is not there when it writes by itself. Seen by gradients: how much the prediction at t
changes with the word at s. The mask must hide what lies ahead, and must not hide what lies behind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor

from regard.lab.result import Result
from regard.lab.small_models import seeded, small_config
from regard.layers.blocks import DecoderBlock
from regard.models.transformer import Transformer
from regard.visual.matrix import matrix

SOURCE = ("i", "am", "a", "student")
GIVEN = ("<s>", "je", "suis", "étudiant")
ASKED = ("je", "suis", "étudiant", "</s>")
_VOCABULARY = ("<pad>", *SOURCE, *GIVEN, "</s>")


def future(*, masked: bool = True, n_layers: int = 2, seed: int = 0) -> Result:
    """A Transformer's decoder, ``masked`` or not, beside the same decoder without its mask."""
    model = _transformer(n_layers, seed)
    first, second = _sensitivity(model, masked=masked), _sensitivity(model, masked=False)
    ahead = torch.ones_like(first).triu(diagonal=1).bool()
    leak, least = first[ahead].max().item(), first[~ahead].min().item()
    seen = second[ahead].min().item()
    verdict = leak == 0 and least > 1e-6 and seen > 1e-6
    return Result(
        name="future",
        verdict=verdict,
        finding=_finding(verdict, leak, least, second[ahead].mean().item()),
        numbers={
            "decoder: largest gradient from a word ahead": leak,
            "decoder: smallest gradient from a word behind": least,
            "mask taken away: smallest gradient from a word ahead": seen,
            "mask taken away: mean gradient from a word ahead": second[ahead].mean().item(),
        },
        pictures=(
            _picture(first, "With the mask" if masked else "Without a mask, as asked"),
            _picture(second, "Without a mask"),
        ),
    )


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


def _finding(verdict: bool, leak: float, least: float, mean: float) -> str:
    if verdict:
        return (
            "With the mask the gradient from every word ahead is exactly 0, and from every word "
            f"behind at least {least:.2g}. Without it words ahead count {mean:.2g} on average: the "
            "decoder could learn to copy the answer, and would have nothing to copy when it writes."
        )
    if leak == 0:
        return (
            f"No word ahead moves a prediction, but some word behind moves it by {least:.2g} only, "
            "or taking the mask away changes nothing: this decoder hardly reads."
        )
    return (
        f"A word ahead moves a prediction by up to {leak:.2g}: nothing keeps the decoder from "
        "reading what it is to write."
    )


def _picture(sensitivity: Tensor, title: str) -> str:
    shares = (sensitivity / sensitivity.max()).tolist()
    return matrix(shares, [f"to write {word}" for word in ASKED], GIVEN, title=title)
