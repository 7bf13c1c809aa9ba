"""What decoding needs of a model, and all it needs.

One law holds for every model that speaks this protocol and is tested for each: stepping through a
target gives, position by position, the logits of ``forward``.

A search handles two values of the model. The *memory* is what the source was read into; it never
changes, and a language model's is empty. The *state* is what the model remembers of the target so
far: its KV cache or its hidden states. Both have one row a hypothesis and one method,
``select(rows)``: a new value of the rows (N,) by index, in that order; an index may repeat. A beam
search reorders the state at every step and the memory only when sentences leave the batch, so
whatever depends on the source alone (such as its keys and values) belongs into the memory.

What is written comes after a *prompt*, which is read and not scored: the begin token of a
translator, the text that a language model goes on from.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor
from typing_extensions import override

from regard.core.errors import ConfigError, ShapeError
from regard.kernels.steps import Best, best_tokens, log_probs
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID


class Generator(Protocol):
    """A model that writes a target, one token at a time or all at once.

    Searches neither switch it to evaluation nor back: hand over a model without dropout.
    """

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        """Teacher forced: source ids (B, S) and target ids (B, T) -> logits (B, T, V).

        The target begins with the prompt; logits at t are about token t + 1. A language model
        reads a source (B, 0), of nothing.
        """

    def encode(self, source: Tensor) -> Any:
        """Source ids (B, S) -> memory, computed once a source."""

    def start(self, memory: Any) -> Any:
        """The state before the first target token."""

    def step(self, ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        """Last target ids (B,) -> logits (B, V) for the next, and the new state.

        The old state stays as it was, or is never used again: a search keeps only the new one.
        """


@runtime_checkable
class Prefilling(Protocol):
    """A generator that reads several tokens at once."""

    def prefill(self, ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        """Next target ids (B, T), T ≥ 1 -> logits (B, V) after the last, and the new state."""


@dataclass(frozen=True, slots=True)
class ControlIds:
    """Token ids that are no words; by default those of a translator."""

    ends: frozenset[int] = frozenset({END_ID})
    """Each of them ends a text."""
    suppressed: tuple[int, ...] = (PAD_ID, BEGIN_ID)
    """Never chosen. They keep their share of the probability: what a search reports is what the
    model says of its target, and a plain forward finds it again."""

    def are_ends(self, ids: Tensor) -> Tensor:
        """Boolean, of the shape of ``ids``."""
        found = torch.zeros_like(ids, dtype=torch.bool)
        for end in self.ends:
            found |= ids == end
        return found


TRANSLATOR = ControlIds()
N_SUPPRESSED = len(TRANSLATOR.suppressed)
"""The first ids of a translator's vocabulary are those that are never chosen."""


def next_log_probs(logits: Tensor, control: ControlIds = TRANSLATOR) -> Tensor:
    """Logits (N, V) -> log-probabilities (N, V), at least in float32; -inf where suppressed."""
    found = log_probs(logits)
    return found.index_fill_(1, _indices(control.suppressed, found.device), -torch.inf)


@lru_cache(maxsize=8)
def _indices(ids: tuple[int, ...], device: torch.device) -> Tensor:
    """The ids on the device: no step waits for them."""
    return torch.tensor(ids, dtype=torch.long, device=device)


def next_best(logits: Tensor, n: int, control: ControlIds = TRANSLATOR) -> Best:
    """The n most probable tokens of each row (N, V), or all of them if there are fewer."""
    n = min(n, logits.shape[1])
    if control.suppressed == TRANSLATOR.suppressed:
        return best_tokens(logits, n, n_hidden=N_SUPPRESSED)
    return Best(*next_log_probs(logits, control).topk(n))


@dataclass(frozen=True, slots=True)
class ForcedPrefixes:
    """The ids that the rows of a batch must begin with; each row is free after its own."""

    ids: Tensor
    """(B, P); -1 where a row is free."""

    @classmethod
    def of(cls, prefixes: Sequence[Sequence[int]], source: Tensor) -> Self:
        """One for each source (B, S), perhaps of nothing; none at all leaves every row free."""
        if len(prefixes) not in (0, len(source)):
            raise ShapeError(f"expected a prefix a row, got {len(prefixes)} for {len(source)} rows")
        for t, number in (pair for prefix in prefixes for pair in enumerate(prefix)):
            if number < 0:
                raise _not_written(number, t)
        longest = max(map(len, prefixes), default=0)
        rows = [[*prefix, *[-1] * (longest - len(prefix))] for prefix in prefixes]
        ids = torch.tensor(rows, dtype=torch.long, device=source.device)
        return cls(ids.view(len(prefixes), longest))

    def are_over(self, t: int) -> bool:
        """Whether every row is free at position t and after it."""
        return t >= self.ids.shape[1]

    def ruling(self, log_probs: Tensor, rows: Tensor, t: int) -> Tensor:
        """Log-probabilities (N, V) of rows (N,) of the batch, all but the forced id ruled out."""
        if self.are_over(t):
            return log_probs
        forced = self.ids[rows, t].unsqueeze(1)  # (N, 1)
        ids = forced.clamp(0, log_probs.shape[1] - 1)
        own = log_probs.gather(1, ids)
        wrong = (forced >= 0) & ((forced != ids) | ~(own > -torch.inf))
        if wrong.any():
            raise _not_written(int(forced[wrong][0]), t)
        alone = torch.full_like(log_probs, -torch.inf).scatter(1, ids, own)
        return torch.where(forced >= 0, alone, log_probs)


def _not_written(number: int, t: int) -> ConfigError:
    return ConfigError(
        f"a prefix has ids of words, but its id {number} at position {t} is none that can be "
        "written"
    )


def checked_limits(source: Tensor, limits: Tensor) -> Tensor:
    """Limits (B,) on the source's device: the most tokens a target may have, end token included.

    Each sentence has its own, so that what it gives does not depend on what shares its batch.
    """
    if limits.shape != source.shape[:1] or limits.dtype not in (torch.int32, torch.int64):
        raise ShapeError(
            f"limits must be one integer a sentence, here ({source.shape[0]},), "
            f"got {tuple(limits.shape)} of {limits.dtype}"
        )
    if (limits < 1).any():
        raise ConfigError(
            f"a target needs room for at least 1 token, got a limit of {int(limits.min())}; "
            "raise max_len"
        )
    return limits.to(source.device)


def begin_tokens(source: Tensor) -> Tensor:
    """(B, 1): the prompt of a translator, for sources (B, S)."""
    return torch.full((len(source), 1), BEGIN_ID, device=source.device)


def no_source(prompt: Tensor) -> Tensor:
    """What a language model reads before prompts (B, P): nothing, (B, 0)."""
    return prompt[:, :0]


# ---------------------------------------------------------------- where hypotheses are written


class Session(Protocol):
    """Hypotheses that are being written, one a row: a model with its memory and its cache."""

    ahead: bool
    """Whether steps are launched asynchronously: then one had better ask early."""

    def begin(self, source: Tensor, prompt: Tensor) -> Tensor:
        """Read sources (B, S) and prompts (B, P) -> logits (B, V) of the next token."""

    def step(self, ids: Tensor) -> Tensor:
        """The next ids (R,) of all rows -> logits (R, V) after them, good until the next step."""

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, by index, in this order; an index may repeat."""

    def reorder(self, rows: Tensor) -> None:
        """The same, where every row comes from one of the same source, and as many go on."""


class PlainSession(Session):
    """A session of any generator, with the state that it returns."""

    ahead = False

    def __init__(self, model: Generator) -> None:
        self.model = model
        self.memory: Any = None
        self.state: Any = None

    @override
    def begin(self, source: Tensor, prompt: Tensor) -> Tensor:
        self.memory = self.model.encode(source)
        self.state = self.model.start(self.memory)
        if prompt.shape[1] > 1 and isinstance(self.model, Prefilling):
            logits, self.state = self.model.prefill(prompt, self.memory, self.state)
            return logits
        for ids in prompt.unbind(dim=1):
            logits = self.step(ids)
        return logits

    @override
    def step(self, ids: Tensor) -> Tensor:
        logits, self.state = self.model.step(ids, self.memory, self.state)
        return logits

    @override
    def select(self, rows: Tensor) -> None:
        self.memory, self.state = self.memory.select(rows), self.state.select(rows)

    @override
    def reorder(self, rows: Tensor) -> None:
        self.state = self.state.select(rows)  # rows that share a source share its memory


@runtime_checkable
class StaticSessions(Protocol):
    """A generator with static KV caches of its own, so that a GPU needs no host between steps."""

    longest: int | None
    """The most tokens that a text may have."""

    def session(self, n_rows: int, n_read: int, n_new: int) -> AbstractContextManager[Session]:
        """One for so many rows, of so many tokens to read and to write; nobody else has it."""

    def most_rows(self, n_read: int, n_new: int) -> int:
        """Texts of so many tokens that may be written at once."""


def session_for(
    model: Generator, n_rows: int, n_read: int, n_new: int
) -> AbstractContextManager[Session]:
    """The model's own where it has one that is large enough, else one with its state."""
    n = n_read + n_new - 1  # the last token is never read
    if isinstance(model, StaticSessions) and (model.longest is None or n <= model.longest):
        return model.session(n_rows, n_read, n_new)
    return nullcontext(PlainSession(model))


# ---------------------------------------------------------------- searches that stay on the device


class StaticCache(Protocol):
    """The KV cache of a ``StaticGenerator`` for up to P hypotheses, K a sentence, rows from 0 on.

    A search sets ids, positions and owners; a step enters what it has computed.
    """

    n_rows: int
    """P"""
    n_steps: int
    """L: tokens that a hypothesis may have."""
    n_tokens: int
    """Of all sources together, padding included."""
    ids: Tensor
    """(P,) int64: the token that each row reads next."""
    positions: Tensor
    """(P,) int32: its position; the same for all rows in use."""
    owners: Tensor
    """(P,) int32: which of the sources that were read the row looks at."""

    def read(self, source: Tensor) -> None:
        """Remember the sources (B, S), padded at their ends; nothing is written yet."""

    def step(self, n_rows: int) -> Tensor:
        """The next token's logits (R, V) of the first R rows; a GPU is not waited for."""

    def best(self, n_rows: int, n: int, *, n_hidden: int) -> Best:
        """The n most probable of these, as ``kernels.steps.best_tokens`` gives them."""

    def reorder(self, parents: Tensor) -> None:
        """Hypothesis k of sentence b goes on from that at parents[b, k] of the same sentence."""

    def move(self, rows: Tensor) -> None:
        """Only these rows go on, with their ids, positions and owners, from row 0 on."""

    def changes(self) -> Sequence[Tensor]:
        """All that a step or a reordering changes and later steps depend on."""


@runtime_checkable
class StaticGenerator(Protocol):
    """A generator with a static cache, for searches that stay on the device to their end."""

    n_vocab: int
    longest: int | None
    """The most tokens a target may have."""
    lock: Lock
    """Held while somebody searches: there is one cache."""
    searches: dict[object, Any]
    """Searches with their caches and CUDA graphs, kept for the next time."""

    def cache(self, n_rows: int, n_steps: int, n_tokens: int, n_beams: int) -> StaticCache:
        """A new cache."""
