"""Sinusoidal positions: a place in the sentence as a row of sines and cosines.

Position pos, from 0, becomes a vector of d numbers, in pairs i = 0 … d/2 - 1:

    PE(pos, 2i)     = sin(pos / 10000^(2i/d))
    PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))

    wavelengths(d)     10000^(2i/d) for each pair         (d/2,)
    sinusoids(n, d)    the vectors of n positions         (n, d)
    add_positions(x)   embeddings with their positions    (B, T, D)
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()


@sheet.blank(
    "The exponents 2i/d are 0, 2/d, 4/d, …: torch.arange(0, d, 2) / d.",
    "10000 ** exponents, of a float tensor.",
)
def wavelengths(d: int) -> Tensor:
    """d, an even number -> (d/2,): 10000^(2i/d) for i = 0 … d/2 - 1, growing from 1."""
    return 10000.0 ** (torch.arange(0, d, 2) / d)


@sheet.blank(
    "Divide a column of positions (n, 1) by the row of wavelengths: all angles at once, (n, d/2).",
    "Make an empty (n, d) table; its even columns [:, 0::2] are sines, its odd ones cosines.",
)
def sinusoids(n: int, d: int) -> Tensor:
    """(n, d): row pos is the code of position pos; even columns are sines, odd ones cosines."""
    angles = torch.arange(n).unsqueeze(1) / wavelengths(d)  # (n, d/2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


@sheet.blank(
    "The code of position t is added to the vector at t, the same for every sentence.",
    "sinusoids(T, D) is (T, D); added to (B, T, D) it broadcasts over the batch.",
)
def add_positions(x: Tensor) -> Tensor:
    """x (B, T, D) -> (B, T, D): x_t + PE(t)."""
    return x + sinusoids(x.shape[1], x.shape[2])


# ------------------------------------------------------------------ examples


@sheet.cases(wavelengths)
def _widths() -> Iterator[Arguments]:
    for d in (2, 4, 8, 6):
        yield {"d": d}


@sheet.cases(sinusoids)
def _tables() -> Iterator[Arguments]:
    for n, d in ((1, 2), (2, 4), (3, 6), (20, 16)):
        yield {"n": n, "d": d}


@sheet.cases(add_positions)
def _embeddings() -> Iterator[Arguments]:
    yield {"x": torch.tensor([[[1.0, 2.0]]])}
    yield {"x": torch.ones(1, 2, 4)}
    yield {"x": torch.arange(24.0).view(3, 2, 4)}
    yield {"x": torch.arange(36.0).view(3, 3, 4)}


# ------------------------------------------------------------------ mistakes


@sheet.mistake(wavelengths, "your exponent is i/d: it is 2i/d, so that it runs to almost 1")
def _half_exponent(d: int) -> Tensor:
    return 10000.0 ** (torch.arange(d // 2) / d)


@sheet.mistake(wavelengths, "your exponent is 4i/d: i counts pairs, and 2i is the column")
def _double_exponent(d: int) -> Tensor:
    return 10000.0 ** (2 * torch.arange(0, d, 2) / d)


@sheet.mistake(
    wavelengths, "one wavelength for each pair of columns: you return one for each column"
)
def _each_column(d: int) -> Tensor:
    return 10000.0 ** (torch.arange(d) / d)


@sheet.mistake(wavelengths, "these are the frequencies: wavelengths are 1 over them")
def _frequencies(d: int) -> Tensor:
    return 1 / wavelengths(d)


@sheet.mistake(wavelengths, "i runs from 0: the first wavelength is 10000⁰ = 1")
def _from_one(d: int) -> Tensor:
    return 10000.0 ** (torch.arange(2, d + 1, 2) / d)


def _joined(first: Tensor, second: Tensor) -> Tensor:
    """Two (n, d/2) in turns of columns: (n, d)."""
    return torch.stack((first, second), dim=-1).flatten(1)


def _angles(n: int, d: int, start: int = 0) -> Tensor:
    return torch.arange(start, n + start).unsqueeze(1) / wavelengths(d)


@sheet.mistake(sinusoids, "sine and cosine are swapped: even columns are sines, odd ones cosines")
def _swapped(n: int, d: int) -> Tensor:
    return _joined(_angles(n, d).cos(), _angles(n, d).sin())


@sheet.mistake(
    sinusoids,
    "all sines stand before all cosines: they take turns, sines in the even columns (0::2)",
)
def _halves(n: int, d: int) -> Tensor:
    return torch.cat((_angles(n, d).sin(), _angles(n, d).cos()), dim=-1)


@sheet.mistake(
    sinusoids, "your positions start from 1: the first is position 0, sin 0 = 0, cos 0 = 1"
)
def _positions_from_one(n: int, d: int) -> Tensor:
    return _joined(_angles(n, d, 1).sin(), _angles(n, d, 1).cos())


@sheet.mistake(sinusoids, "you multiply by the wavelengths: divide by them")
def _multiplied(n: int, d: int) -> Tensor:
    angles = torch.arange(n).unsqueeze(1) * wavelengths(d)
    return _joined(angles.sin(), angles.cos())


@sheet.mistake(sinusoids, "one frequency for all columns: divide each pair by its own wavelength")
def _one_frequency(n: int, d: int) -> Tensor:
    angles = torch.arange(n).unsqueeze(1).expand(n, d // 2)
    return _joined(angles.sin(), angles.cos())


@sheet.mistake(
    sinusoids,
    "sine and cosine of a pair have two wavelengths: both take that of the pair, 10000^(2i/d)",
)
def _own_wavelengths(n: int, d: int) -> Tensor:
    angles = torch.arange(n).unsqueeze(1) / 10000.0 ** (torch.arange(d) / d)
    return _joined(angles[:, 0::2].sin(), angles[:, 1::2].cos())


@sheet.mistake(sinusoids, "all columns are sines: odd ones are cosines")
def _only_sines(n: int, d: int) -> Tensor:
    return _joined(_angles(n, d).sin(), _angles(n, d).sin())


@sheet.mistake(add_positions, "you return the positions alone: add them to x")
def _only_positions(x: Tensor) -> Tensor:
    return sinusoids(x.shape[1], x.shape[2]).expand_as(x)


@sheet.mistake(add_positions, "you multiply by the positions: add them")
def _times(x: Tensor) -> Tensor:
    return x * sinusoids(x.shape[1], x.shape[2])


@sheet.mistake(add_positions, "you append the positions: add them, so that the width stays D")
def _appended(x: Tensor) -> Tensor:
    return torch.cat((x, sinusoids(x.shape[1], x.shape[2]).expand_as(x)), dim=-1)


@sheet.mistake(
    add_positions,
    "you count sentences, not positions: the code belongs to axis 1, the same for each sentence",
)
def _along_the_batch(x: Tensor) -> Tensor:
    return x + sinusoids(x.shape[0], x.shape[2]).unsqueeze(1)
