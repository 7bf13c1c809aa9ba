"""Sampling: each token is drawn from the model's distribution, perhaps sharpened or cut.

All randomness is drawn before the first step: one number in [0, 1) a token, row by row. So what a
row draws depends neither on what comes after it in the batch nor on when the others end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.core.errors import ConfigError
from regard.decoding.greedy import collected, most_probable, token_steps
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.protocol import TRANSLATOR, ControlIds, Generator
from regard.decoding.settings import LENGTH_PENALTY


@dataclass(frozen=True, slots=True)
class Sampler:
    """A choice of tokens for ``token_steps``: temperature 0 takes the most probable one."""

    noise: Tensor
    """(B, T) in [0, 1): what each row draws by at each position; ``noise_for`` makes it."""
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        check_sampling(self.temperature, self.top_k, self.top_p)

    def __call__(self, log_probs: Tensor, rows: Tensor, t: int) -> Tensor:
        """Log-probabilities (N, V) of rows (N,) of the batch at position t -> ids (N,)."""
        if self.temperature == 0:
            return most_probable(log_probs, rows, t)
        probs = distribution(
            log_probs, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p
        )
        return draw(probs, self.noise[rows, t])


def sample(
    model: Generator,
    source: Tensor,
    *,
    limits: Tensor,
    sampler: Sampler,
    length_penalty: float = LENGTH_PENALTY,
    control: ControlIds = TRANSLATOR,
    **how: Any,
) -> list[Hypothesis]:
    """One drawn hypothesis for each source (B, S), of at most ``limits`` (B,) tokens.

    ``how`` is the rest of what ``token_steps`` takes: prompt, prefixes, ended, dropped.
    """
    steps = token_steps(model, source, limits=limits, choose=sampler, control=control, **how)
    return collected(steps, len(source), control, length_penalty)


def seeded(seed: int | None) -> torch.Generator:
    """Random numbers from a seed; others each time without one."""
    rng = torch.Generator()
    if seed is None:
        rng.seed()
    elif not 0 <= seed < 2**63:
        raise ConfigError(f"a seed must be from 0 to 2**63 - 1: {seed}")
    else:
        rng.manual_seed(seed)
    return rng


def noise_for(lengths: Sequence[int], rng: torch.Generator) -> Tensor:
    """(B, T) in [0, 1): row b has numbers for so many tokens, drawn for it alone."""
    rows = [torch.rand(length, generator=rng, device=rng.device) for length in lengths]
    return pad_sequence(rows, batch_first=True) if rows else torch.zeros(0, 0)


def distribution(
    log_probs: Tensor, *, temperature: float, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Log-probabilities (N, V) -> the probabilities (N, V) that a token is drawn with.

    First the temperature, then the ``top_k`` most probable tokens, then of these the fewest that
    together reach ``top_p``; what is left sums to 1.

    >>> log_probs = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log()
    >>> distribution(log_probs, temperature=1.0, top_k=3, top_p=0.7).mul(7).round().tolist()
    [[0.0, 0.0, 3.0, 4.0]]
    """
    best = log_probs.max(dim=-1, keepdim=True).values
    # One that rounds to 0 would make the best NaN, and one that rounds to ∞ what is hidden.
    limits = torch.finfo(log_probs.dtype)
    logits = (log_probs - best) / min(max(temperature, limits.tiny), limits.max)
    if top_k is not None:
        kept, where = logits.topk(min(top_k, logits.shape[-1]))
        logits = torch.full_like(logits, -torch.inf).scatter(-1, where, kept)
    probs = logits.softmax(dim=-1)
    return probs if top_p is None or top_p == 1 else _nucleus(probs, top_p)


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    """The fewest tokens that together have at least ``top_p`` (Holtzman et al. 2020).

    >>> _nucleus(torch.tensor([[0.125, 0.5, 0.25, 0.125]]), 0.75).mul(3).tolist()
    [[0.0, 2.0, 1.0, 0.0]]
    """
    sorted_probs, where = probs.sort(dim=-1, descending=True, stable=True)
    before = sorted_probs.cumsum(dim=-1) - sorted_probs
    beyond = before >= top_p
    beyond[..., 0] = False  # the best stays, even where top_p rounds to 0
    kept = sorted_probs.masked_fill(beyond, 0.0)
    kept = kept / kept.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probs).scatter(-1, where, kept)


def draw(probs: Tensor, noise: Tensor) -> Tensor:
    """Ids (N,): where the cumulated probabilities (N, V) first exceed the noise (N,)."""
    cumulated = probs.cumsum(dim=-1)
    total = cumulated[:, -1]
    # Rounding may lift a product onto the total, which no token exceeds.
    value = torch.minimum(noise.to(probs.dtype) * total, total.nextafter(torch.zeros_like(total)))
    ids = torch.searchsorted(cumulated, value.unsqueeze(1), right=True).squeeze(1)
    return ids.clamp(max=probs.shape[-1] - 1)  # NaN exceeds nothing; its log-probability tells


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Refuse what no token can be drawn by; all problems at once."""
    problems = []
    if not 0 <= temperature < math.inf:
        problems.append(f"temperature must be at least 0 (0 is greedy) and finite: {temperature}")
    if top_k is not None and top_k < 1:
        problems.append(f"top_k must be at least 1, or None for every token: {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        problems.append(f"top_p must be above 0 and at most 1: {top_p}")
    if problems:
        raise ConfigError("; ".join(problems))
