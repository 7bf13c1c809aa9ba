"""Writing on from what was read, with a model that reads one text.

Prompts of one length are read together, at once, and rows leave when they end. What shares a batch
changes no choice: each prompt has random numbers of its own.

On a GPU the next step is begun before the host looks at the token that leads to it: the device
never waits, at the price of one step too many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.decoding.place import Continuer, InPlace, Place, place_for
from regard.decoding.sampling import check_sampling, distribution, draw, noise_for
from regard.decoding.static import Glance
from regard.kernels.steps import log_probs

MOST_ROWS = 256
"""Texts that are written at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to write on. Temperature 0 takes the most probable token each time."""

    max_new: int
    """Most tokens to write, the end included."""
    context: int | None = None
    """Most tokens that a model can read, prompt and all; None where any number will do."""
    end_ids: frozenset[int] = frozenset()
    """Each of them ends a text."""
    hidden_ids: tuple[int, ...] = ()
    """Never chosen. They keep their share of the probability."""
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        check_sampling(self.temperature, self.top_k, self.top_p)
        if self.max_new < 1:
            raise ConfigError(f"max_new must be at least 1: {self.max_new}")

    def room(self, n_read: int) -> int:
        """Tokens that can be written after so many: the last one is never read."""
        if n_read < 1:
            raise DataError("there is nothing to go on from: a prompt needs at least one token")
        if self.context is None:
            return self.max_new
        if n_read > self.context:
            raise DataError(f"a prompt of {n_read} tokens, but the context holds {self.context}")
        return min(self.max_new, self.context - n_read + 1)

    def choose(self, log_probs: Tensor, noise: Tensor) -> Tensor:
        """Log-probabilities (N, V) and one number in [0, 1) a row -> ids (N,)."""
        if self.temperature == 0:
            return log_probs.argmax(dim=-1)
        probs = distribution(
            log_probs, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p
        )
        return draw(probs, noise)


@dataclass(frozen=True, slots=True)
class Continuation:
    """What was written after a prompt."""

    ids: tuple[int, ...]
    """Without the end."""
    log_prob: float
    """The model's own, whatever the temperature and the cuts; of the end too, if it was reached."""
    finished: bool
    """False where the limit or the end of the context came first."""


class Step(NamedTuple):
    """One more token of one text."""

    row: int
    id: int
    log_prob: float
    ended: bool
    """Whether this token ends the text; a limit ends nothing, it only stops."""


Ended = Callable[[int, Sequence[int]], bool]
"""A row and what was written in it so far -> whether it shall end here."""
Dropped = Callable[[], bool]
"""Whether nobody waits for the texts any more; asked before each token."""


def continuations(
    model: Continuer,
    prompts: Sequence[Sequence[int]],
    manner: Manner,
    *,
    rng: torch.Generator,
    device: torch.device,
    ended: Ended | None = None,
    dropped: Dropped | None = None,
) -> list[Continuation]:
    """What follows each prompt, in the order of the prompts.

    A text ends with an id of ``manner.end_ids``, which is left out, or where ``ended`` says so.
    All stop where they are once they are ``dropped``.
    """
    written: list[list[Step]] = [[] for _ in prompts]
    coming = steps(model, prompts, manner, rng=rng, device=device, ended=ended, dropped=dropped)
    for step in coming:
        written[step.row].append(step)
    return [_continuation(of_row, manner.end_ids) for of_row in written]


def steps(
    model: Continuer,
    prompts: Sequence[Sequence[int]],
    manner: Manner,
    *,
    rng: torch.Generator,
    device: torch.device,
    ended: Ended | None = None,
    dropped: Dropped | None = None,
) -> Iterator[Step]:
    """Each token as it is written. All random numbers are drawn before, prompt by prompt.

    For each prompt as many as the shortest one could need: how long the others are changes none.
    """
    rooms, most = [manner.room(len(prompt)) for prompt in prompts], manner.room(1)
    noise = torch.zeros(len(prompts), most)
    if manner.temperature and prompts:
        noise = noise_for([most] * len(prompts), rng)
    ends = _Ends(manner.end_ids, ended or _never, dropped or _never)
    for rows in _groups(prompts, partial(_most_rows, model, manner)):
        ids = torch.tensor([prompts[row] for row in rows], dtype=torch.long, device=device)
        group = _Group(rows, ids, rooms[rows[0]], noise[rows].to(device))
        with place_for(model, len(rows), ids.shape[1], group.room) as place:
            yield from _written(place, group, manner, ends)


class _Ends(NamedTuple):
    """What may end texts before their limit."""

    ids: frozenset[int]
    ended: Ended
    dropped: Dropped


@dataclass(frozen=True, slots=True)
class _Group:
    """Prompts of one length."""

    rows: list[int]
    ids: Tensor
    """(B, T)"""
    room: int
    noise: Tensor
    """(B, at least ``room``)"""


def _groups(
    prompts: Sequence[Sequence[int]], most_rows: Callable[[int], int]
) -> Iterator[list[int]]:
    """Numbers of prompts of one length, not too many at once."""
    by_length: dict[int, list[int]] = {}
    for row, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(row)
    for length, rows in by_length.items():
        most = most_rows(length)
        for begin in range(0, len(rows), most):
            yield rows[begin : begin + most]


def _most_rows(model: Continuer, manner: Manner, n_read: int) -> int:
    """Prompts of a length that are read at once."""
    if not isinstance(model, InPlace):
        return MOST_ROWS
    return min(MOST_ROWS, model.most_rows(n_read, manner.room(n_read)))


@torch.inference_mode()
def _written(place: Place, group: _Group, manner: Manner, ends: _Ends) -> Iterator[Step]:
    """Write on after all prompts of a group."""
    hidden = torch.tensor(manner.hidden_ids, dtype=torch.long, device=group.ids.device)
    written: list[tuple[int, list[int]]] = [(row, []) for row in group.rows]  # those that go on
    if ends.dropped():
        return
    logits, noise, glances = place.read(group.ids), group.noise, None
    for t in range(group.room):
        allowed = log_probs(logits).index_fill_(1, hidden, -torch.inf)
        chosen = manner.choose(allowed, noise[:, t])
        scores = allowed.gather(1, chosen.unsqueeze(1)).squeeze(1)
        glances = glances or (Glance(chosen), Glance(scores))
        for glance, tensor in zip(glances, (chosen, scores), strict=True):
            glance.post(tensor)
        more = t + 1 < group.room
        if more and place.ahead:
            logits = place.step(chosen)
        told = _told(written, glances[0].read(), glances[1].read(), ends)
        stay = yield from told
        if not stay or not more or ends.dropped():
            return
        if len(stay) < len(written):
            kept = torch.tensor(stay, device=chosen.device)
            chosen, noise, logits = chosen[kept], noise[kept], logits[kept]
            place.move(kept)
            written = [written[row] for row in stay]
        if not place.ahead:
            logits = place.step(chosen)


def _told(
    written: list[tuple[int, list[int]]],
    chosen: Sequence[int],
    scores: Sequence[float],
    ends: _Ends,
) -> Generator[Step, None, list[int]]:
    """Tell of one more token of each text -> who goes on, by their places in ``written``."""
    stay = []
    for at, ((row, before), number) in enumerate(zip(written, chosen, strict=True)):
        before.append(number)
        over = number in ends.ids or ends.ended(row, before)
        yield Step(row, number, _finite(scores[at]), over)
        if not over:
            stay.append(at)
    return stay


def _continuation(steps: Sequence[Step], end_ids: frozenset[int]) -> Continuation:
    ids = tuple(step.id for step in steps if step.id not in end_ids)
    finished = bool(steps) and steps[-1].ended
    return Continuation(ids, sum(step.log_prob for step in steps), finished)


def _finite(log_prob: float) -> float:
    if math.isfinite(log_prob):
        return log_prob
    raise CheckpointError(
        f"every token must have a log-probability, but the model gave {log_prob}: its logits are "
        "not numbers; its weights are damaged, load an earlier checkpoint"
    )


def _never(*_: object) -> bool:
    return False
