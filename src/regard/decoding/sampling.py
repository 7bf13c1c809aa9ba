"""Sampling: each token is drawn from the model's distribution, perhaps sharpened or cut.

All randomness is drawn before the first step: one number in [0, 1) a token, sentence by sentence.
So a sentence's draws depend on the generator and on the limits of the sentences before it, and
neither on what comes after it in the batch nor on when the others end.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.core.errors import ConfigError
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.protocol import Generator
from regard.decoding.settings import LENGTH_PENALTY
from regard.decoding.single import follow
from regard.decoding.steps import checked_limits


def sample(
    model: Generator,
    source: Tensor,
    *,
    limits: Tensor,
    rng: torch.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    length_penalty: float = LENGTH_PENALTY,
) -> list[Hypothesis]:
    """One drawn hypothesis for each sentence (B, S), of at most ``limits`` (B,) tokens.

    ``log_prob`` is the model's own, whatever the temperature and the cuts. Temperature 0 is greedy
    search and leaves ``rng`` untouched. ``rng`` may live on another device than the model.
    """
    check_sampling(temperature, top_k, top_p)
    if temperature == 0:
        return greedy(model, source, limits=limits, length_penalty=length_penalty)
    limits = checked_limits(source, limits)
    noise = noise_for(limits.tolist(), rng).to(source.device)  # (B, T)

    def choose(log_probs: Tensor, sentences: Tensor, t: int) -> Tensor:
        probs = distribution(log_probs, temperature=temperature, top_k=top_k, top_p=top_p)
        return draw(probs, noise[sentences, t])

    return follow(model, source, limits=limits, choose=choose, length_penalty=length_penalty)


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


def noise_for(limits: list[int], rng: torch.Generator) -> Tensor:
    """(B, T) in [0, 1): row b was drawn for sentence b alone."""
    rows = [torch.rand(limit, generator=rng, device=rng.device) for limit in limits]
    return pad_sequence(rows, batch_first=True)


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
