"""One hypothesis a row, token after token: greedy search, and the loop that sampling shares.

Rows leave the batch when they end, so the work shrinks with it; what shares a batch changes no
choice. On a GPU the next step is launched before the host looks at the token that leads to it: the
device never waits, at the price of one step too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.cuda_graphs import HostCopy
from regard.decoding.hypothesis import Hypothesis, finite
from regard.decoding.protocol import (
    TRANSLATOR,
    ControlIds,
    ForcedPrefixes,
    Generator,
    begin_tokens,
    checked_limits,
    next_log_probs,
    session_for,
)
from regard.decoding.settings import LENGTH_PENALTY
from regard.decoding.static_search import can_stay, static_greedy
from regard.decoding.wanted import check_wanted
from regard.kernels.steps import top

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""Log-probabilities (N, V), each row's number in the batch (N,), position t from 0 -> ids (N,)."""
Ended = Callable[[int, Sequence[int]], bool]
"""A row and what was written in it so far -> whether it shall end here, as stop words want it."""
Dropped = Callable[[], bool]
"""Whether nobody waits for the texts any more; asked before each token."""


class TokenStep(NamedTuple):
    """One more token of every row that is still being written."""

    rows: list[int]
    ids: list[int]
    log_probs: list[float]
    ended: list[bool]
    """Whether this token ends the text; a limit ends nothing, it only stops."""


def greedy(
    model: Generator,
    source: Tensor,
    *,
    limits: Tensor,
    length_penalty: float = LENGTH_PENALTY,
    prompt: Tensor | None = None,
    control: ControlIds = TRANSLATOR,
) -> list[Hypothesis]:
    """One hypothesis for each source (B, S), of at most ``limits`` (B,) tokens, end included.

    It is written after its ``prompt`` (B, P); None: after the begin token. The length penalty
    changes no choice, only the ``score`` that is reported.
    """
    limits = checked_limits(source, limits)
    if prompt is None and control == TRANSLATOR and can_stay(model, limits, n_beams=1):
        return static_greedy(model, source, limits, length_penalty=length_penalty)
    steps = token_steps(
        model, source, limits=limits, choose=most_probable, prompt=prompt, control=control
    )
    return collected(steps, len(source), control, length_penalty)


def most_probable(log_probs: Tensor, _rows: Tensor, _t: int) -> Tensor:
    """The greedy choice."""
    return top(log_probs, 1)[1].squeeze(1)


@torch.inference_mode()
def token_steps(
    model: Generator,
    source: Tensor,
    *,
    limits: Tensor,
    choose: Choose,
    prompt: Tensor | None = None,
    control: ControlIds = TRANSLATOR,
    prefixes: Sequence[Sequence[int]] = (),
    ended: Ended | None = None,
    dropped: Dropped | None = None,
) -> Iterator[TokenStep]:
    """Let ``choose`` pick each next token until every row has ended; tell of each as it comes.

    Each text begins with the ids of its prefix, where ``prefixes`` has one a row. Texts end with an
    id of ``control.ends``, where ``ended`` says so, or at their limit, and stop where they are once
    they are ``dropped``.
    """
    most: list[int] = checked_limits(source, limits).tolist()
    prompt = begin_tokens(source) if prompt is None else prompt
    forced = ForcedPrefixes.of(prefixes, source)
    if dropped is not None and dropped():
        return
    with session_for(model, len(source), prompt.shape[1], max(most)) as session:
        logits = session.begin(source, prompt)
        rows, texts = list(range(len(source))), [list[int]() for _ in most]
        numbers, copies = torch.arange(len(rows), device=source.device), None
        for t in range(max(most)):
            check_wanted()
            log_probs = forced.ruling(next_log_probs(logits, control), numbers, t)
            chosen = choose(log_probs, numbers, t)
            scores = log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1)
            copies = copies or (HostCopy(chosen), HostCopy(scores))
            for copy, tensor in zip(copies, (chosen, scores), strict=True):
                copy.post(tensor)
            if session.ahead and t + 1 < max(most):
                logits = session.step(chosen)
            ids, token_log_probs = copies[0].read(), list(map(finite, copies[1].read()))
            over = [number in control.ends for number in ids]
            if ended is not None:
                for i, row in enumerate(rows):
                    texts[row].append(ids[i])
                    over[i] = over[i] or ended(row, texts[row])
            yield TokenStep(rows, ids, token_log_probs, over)
            stay = [i for i, row in enumerate(rows) if not over[i] and t + 1 < most[row]]
            if not stay or (dropped is not None and dropped()):
                return
            if len(stay) < len(rows):
                kept = torch.tensor(stay, device=chosen.device)
                chosen, numbers, logits = chosen[kept], numbers[kept], logits[kept]
                session.select(kept)
                rows = [rows[i] for i in stay]
            if not session.ahead:
                logits = session.step(chosen)


def collected(
    steps: Iterator[TokenStep], n_rows: int, control: ControlIds, length_penalty: float
) -> list[Hypothesis]:
    """All that is written, one hypothesis a row."""
    ids, totals = [list[int]() for _ in range(n_rows)], [0.0] * n_rows
    finished = [False] * n_rows
    for step in steps:
        for row, number, log_prob, over in zip(*step, strict=True):
            ids[row].append(number)
            totals[row] += log_prob
            finished[row] = over
    return [
        Hypothesis.read(text, total, length_penalty, ends=control.ends, stopped=stopped)
        for text, total, stopped in zip(ids, totals, finished, strict=True)
    ]
