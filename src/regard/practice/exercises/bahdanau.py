"""Bahdanau's decoder step: look back, then write the next state.

The decoder has the state s (B, n). The encoder's annotations h (B, S, m) are what it looks at, and
y (B, e) is the embedding of the word that it wrote last. One step:

    energy_j = v_a · tanh(s W_a + h_j U_a)                      with the state BEFORE the step
    c = Σ_j α_j h_j,  α the softmax of the energies             padding hidden
    z = σ(y W_z + s U_z + c C_z)                                how much is written anew
    r = σ(y W_r + s U_r + c C_r)                                how much of s the proposal sees
    proposal = tanh(y W + (r ∘ s) U + c C)
    new s = (1 - z) ∘ s + z ∘ proposal

All matrices are in one dictionary p, by these names: p["W_a"], p["v_a"], p["C_z"], …
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()

Parameters = dict[str, Tensor]


@sheet.blank(
    "s @ p['W_a'] is (B, a) and h @ p['U_a'] is (B, S, a): give the first an axis to add them.",
    "torch.tanh((s @ p['W_a']).unsqueeze(1) + h @ p['U_a']) @ p['v_a'] is (B, S).",
)
def energies(s: Tensor, h: Tensor, p: Parameters) -> Tensor:
    """s (B, n), h (B, S, m) -> (B, S): how well each annotation fits the state."""
    return torch.tanh((s @ p["W_a"]).unsqueeze(1) + h @ p["U_a"]) @ p["v_a"]


@sheet.blank(
    "Hide padding with -inf before the softmax over the S annotations.",
    "The weighted sum is (weights.unsqueeze(1) @ h).squeeze(1).",
)
def context(s: Tensor, h: Tensor, mask: Tensor, p: Parameters) -> tuple[Tensor, Tensor]:
    """mask (B, S), True at words -> the context c (B, m), and the weights (B, S)."""
    weights = energies(s, h, p).masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return (weights.unsqueeze(1) @ h).squeeze(1), weights


@sheet.blank(
    "Compute z and r with torch.sigmoid, then the proposal, in which r multiplies s before U.",
    "The new state keeps 1 - z of the old one.",
)
def gru(y: Tensor, s: Tensor, c: Tensor, p: Parameters) -> Tensor:
    """y (B, e), s (B, n), c (B, m) -> the new state (B, n)."""
    z = torch.sigmoid(y @ p["W_z"] + s @ p["U_z"] + c @ p["C_z"])
    r = torch.sigmoid(y @ p["W_r"] + s @ p["U_r"] + c @ p["C_r"])
    proposal = torch.tanh(y @ p["W"] + (r * s) @ p["U"] + c @ p["C"])
    return (1 - z) * s + z * proposal


@sheet.blank(
    "First the context, for the state before the step; then the new state, with this context.",
)
def decoder_step(
    y: Tensor, s: Tensor, h: Tensor, mask: Tensor, p: Parameters
) -> tuple[Tensor, Tensor]:
    """-> the new state (B, n), and the weights of the look (B, S)."""
    c, weights = context(s, h, mask, p)
    return gru(y, s, c, p), weights


# ------------------------------------------------------------------ examples


def _drawn(sizes: tuple[int, ...]) -> dict[str, object]:
    B, S, n, m, e, a = sizes
    rng = torch.Generator().manual_seed(B + S)
    shapes = {"W_a": (n, a), "U_a": (m, a), "v_a": (a,)}
    for gate in ("", "_z", "_r"):
        shapes |= {f"W{gate}": (e, n), f"U{gate}": (n, n), f"C{gate}": (m, n)}
    p = {name: torch.randn(*shape, generator=rng) for name, shape in shapes.items()}
    lengths = torch.arange(S, S - B, -1)
    return {
        "y": torch.randn(B, e, generator=rng),
        "s": torch.randn(B, n, generator=rng),
        "h": torch.randn(B, S, m, generator=rng),
        "c": torch.randn(B, m, generator=rng),
        "mask": torch.arange(S) < lengths.unsqueeze(1),
        "p": p,
    }


def _examples(names: tuple[str, ...]) -> Iterator[Arguments]:
    for sizes in ((1, 2, 1, 1, 1, 1), (2, 3, 2, 2, 2, 2), (3, 4, 3, 5, 2, 6)):
        drawn = _drawn(sizes)
        yield {name: drawn[name] for name in names}


@sheet.cases(energies)
def _for_energies() -> Iterator[Arguments]:
    return _examples(("s", "h", "p"))


@sheet.cases(context)
def _for_context() -> Iterator[Arguments]:
    return _examples(("s", "h", "mask", "p"))


@sheet.cases(gru)
def _for_gru() -> Iterator[Arguments]:
    return _examples(("y", "s", "c", "p"))


@sheet.cases(decoder_step)
def _for_steps() -> Iterator[Arguments]:
    return _examples(("y", "s", "h", "mask", "p"))


# ------------------------------------------------------------------ mistakes


@sheet.mistake(
    energies, "the tanh is missing: without it the state is the same for every annotation"
)
def _linear(s: Tensor, h: Tensor, p: Parameters) -> Tensor:
    return ((s @ p["W_a"]).unsqueeze(1) + h @ p["U_a"]) @ p["v_a"]


@sheet.mistake(energies, "the state is missing: every step would look at the same place")
def _without_state(s: Tensor, h: Tensor, p: Parameters) -> Tensor:
    return torch.tanh(h @ p["U_a"]) @ p["v_a"]


@sheet.mistake(energies, "you return weights: the softmax comes later, in context")
def _softmaxed(s: Tensor, h: Tensor, p: Parameters) -> Tensor:
    return energies(s, h, p).softmax(dim=-1)


@sheet.mistake(energies, "you take a sigmoid where the tanh stands")
def _sigmoid(s: Tensor, h: Tensor, p: Parameters) -> Tensor:
    return torch.sigmoid((s @ p["W_a"]).unsqueeze(1) + h @ p["U_a"]) @ p["v_a"]


def _looked(weights: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    return (weights.unsqueeze(1) @ h).squeeze(1), weights


@sheet.mistake(context, "padding is attended: hide it with -inf before the softmax")
def _padding_attended(s: Tensor, h: Tensor, mask: Tensor, p: Parameters) -> tuple[Tensor, Tensor]:
    return context(s, h, torch.ones_like(mask), p)


@sheet.mistake(context, "your mask is inverted: True means a word, which may be looked at")
def _inverted(s: Tensor, h: Tensor, mask: Tensor, p: Parameters) -> tuple[Tensor, Tensor]:
    return context(s, h, ~mask, p)


@sheet.mistake(
    context, "you mask after the softmax: padding took its share, so the weights sum to less than 1"
)
def _masked_after(s: Tensor, h: Tensor, mask: Tensor, p: Parameters) -> tuple[Tensor, Tensor]:
    return _looked(energies(s, h, p).softmax(dim=-1) * mask, h)


@sheet.mistake(
    context, "your weights sum to 1 over the batch: each sentence has its own, along the last axis"
)
def _over_batch(s: Tensor, h: Tensor, mask: Tensor, p: Parameters) -> tuple[Tensor, Tensor]:
    return _looked(energies(s, h, p).masked_fill(~mask, float("-inf")).softmax(dim=0), h)


@sheet.mistake(context, "you return the weights before the context: it is (c, weights)")
def _other_order(s: Tensor, h: Tensor, mask: Tensor, p: Parameters) -> tuple[Tensor, Tensor]:
    return context(s, h, mask, p)[::-1]


@sheet.mistake(context, "the context is the plain mean of the annotations: weigh them")
def _plain_mean(s: Tensor, h: Tensor, mask: Tensor, p: Parameters) -> tuple[Tensor, Tensor]:
    return h.mean(dim=1), context(s, h, mask, p)[1]


def _gates(y: Tensor, s: Tensor, c: Tensor, p: Parameters) -> tuple[Tensor, Tensor, Tensor]:
    z, r = (torch.sigmoid(y @ p[f"W_{g}"] + s @ p[f"U_{g}"] + c @ p[f"C_{g}"]) for g in "zr")
    return z, r, torch.tanh(y @ p["W"] + (r * s) @ p["U"] + c @ p["C"])


@sheet.mistake(gru, "z and 1 - z are swapped: z is how much is written anew")
def _swapped_gate(y: Tensor, s: Tensor, c: Tensor, p: Parameters) -> Tensor:
    z, _, proposal = _gates(y, s, c, p)
    return z * s + (1 - z) * proposal


@sheet.mistake(gru, "r multiplies s U: it multiplies s before U, (r ∘ s) U")
def _reset_after(y: Tensor, s: Tensor, c: Tensor, p: Parameters) -> Tensor:
    z, r, _ = _gates(y, s, c, p)
    return (1 - z) * s + z * torch.tanh(y @ p["W"] + r * (s @ p["U"]) + c @ p["C"])


@sheet.mistake(gru, "r is not used: the proposal sees r ∘ s, not all of s")
def _no_reset(y: Tensor, s: Tensor, c: Tensor, p: Parameters) -> Tensor:
    z, _, _ = _gates(y, s, c, p)
    return (1 - z) * s + z * torch.tanh(y @ p["W"] + s @ p["U"] + c @ p["C"])


@sheet.mistake(gru, "the context is missing: c goes into both gates and the proposal")
def _no_context(y: Tensor, s: Tensor, c: Tensor, p: Parameters) -> Tensor:
    return gru(y, s, torch.zeros_like(c), p)


@sheet.mistake(gru, "you return the proposal: the new state keeps 1 - z of the old one")
def _only_proposal(y: Tensor, s: Tensor, c: Tensor, p: Parameters) -> Tensor:
    return _gates(y, s, c, p)[2]


@sheet.mistake(gru, "z and r are swapped: their matrices are W_z, U_z, C_z and W_r, U_r, C_r")
def _swapped_names(y: Tensor, s: Tensor, c: Tensor, p: Parameters) -> Tensor:
    other = {"z": "r", "r": "z"}
    names = {name: name[:-1] + other[name[-1]] if name[-1] in other else name for name in p}
    return gru(y, s, c, {name: p[names[name]] for name in p})


@sheet.mistake(
    decoder_step,
    "you look with the new state: Bahdanau's query is the state before the step, so the look comes "
    "first",
)
def _looks_afterwards(
    y: Tensor, s: Tensor, h: Tensor, mask: Tensor, p: Parameters
) -> tuple[Tensor, Tensor]:
    new, _ = decoder_step(y, s, h, mask, p)
    return new, context(new, h, mask, p)[1]


@sheet.mistake(decoder_step, "the mask is not used: padding is attended")
def _step_without_mask(
    y: Tensor, s: Tensor, h: Tensor, mask: Tensor, p: Parameters
) -> tuple[Tensor, Tensor]:
    return decoder_step(y, s, h, torch.ones_like(mask), p)


@sheet.mistake(decoder_step, "you return the weights before the state: it is (new s, weights)")
def _step_in_other_order(
    y: Tensor, s: Tensor, h: Tensor, mask: Tensor, p: Parameters
) -> tuple[Tensor, Tensor]:
    return decoder_step(y, s, h, mask, p)[::-1]


@sheet.mistake(decoder_step, "you return the context: the weights of the look are asked for")
def _step_with_context(
    y: Tensor, s: Tensor, h: Tensor, mask: Tensor, p: Parameters
) -> tuple[Tensor, Tensor]:
    return decoder_step(y, s, h, mask, p)[0], context(s, h, mask, p)[0]
