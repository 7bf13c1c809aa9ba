"""A fact told long ago is lost on an RNN; an LSTM is slow to learn it, while attention looks back.

In the lecture somebody names a show, talks of weather and jackets for a while, and then wants the
tickets booked: for which show? Here a fact is told, filler follows, and the fact is asked for. Each
network is trained anew for every longest gap, with as many steps, at the learning rate that suits
it best; with three times the steps the LSTM learns the longest gap too, and the RNN does not. The
fact always comes first, so that attention may find it by its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.records import Pair
from regard.data.worlds.toys import build_toy
from regard.lab.result import Result, lines, percent, unmet
from regard.lab.small_models import KINDS, LEARNING_RATES, Kind, fit, seeded, tagger

_BATCH = 64
_KNOWS = 0.9  # the share of right answers that counts as knowing
_LEARNED, _WHILE = 0.5, 20  # a loss below this, in the mean of so many steps
_SOONER = 0.75  # of the other's steps
_SYMBOLS = "abcdefghij"
_WORDS = {word: i for i, word in enumerate(["fact", "ask", *_SYMBOLS])}

Questions = Mapping[int, tuple[Tensor, Tensor]]
"""By gap: ids (N, gap + 5), and the ids (N,) of the answers."""


class _LearnedGap(NamedTuple):
    right: float
    """Of questions whose gap is in the longer half of those trained on."""
    beyond: float
    """Of questions whose gap is up to twice as long."""
    steps: int
    """Until the loss was low; all of them where it never was."""


def recall(*, gaps: Sequence[int] = (3, 15, 75), n_steps: int = 400, seed: int = 0) -> Result:
    """Who still answers; ``gaps`` are the most symbols of filler between fact and question."""
    learned: dict[Kind, list[_LearnedGap]] = {kind: [] for kind in KINDS}
    for gap in gaps:
        sizes = {"n_train": 8000, "n_test": 1000, "max_symbols": 2 * gap}
        splits = build_toy("recall", seed=seed, n_symbols=len(_SYMBOLS), **sizes)
        train, test = _by_gap(splits["train"]), _by_gap(splits["test"])
        for kind in KINDS:
            learned[kind].append(_learn(kind, train, test, gap, n_steps, seed))
    right, beyond, steps = (
        {kind: [one[i] for one in of] for kind, of in learned.items()} for i in range(3)
    )
    last = {kind: of[-1] for kind, of in learned.items()}
    known = {
        kind: [gap for gap, share in zip(gaps, of, strict=True) if share >= _KNOWS]
        for kind, of in right.items()
    }
    farthest = {kind: max(gaps_known, default=0) for kind, gaps_known in known.items()}
    sooner = last["attention"].steps < _SOONER * last["LSTM"].steps
    parts = {
        "the RNN forgets": last["RNN"].right < _KNOWS,
        "the LSTM answers farther than the RNN": farthest["LSTM"] > farthest["RNN"],
        "attention answers at every gap": len(known["attention"]) == len(gaps),
        "attention learns it sooner than the LSTM": sooner,
    }
    shares = ", ".join(f"{kind} {percent(one.right)}" for kind, one in last.items())
    longest = "longest gap in training"
    return Result(
        name="recall",
        verdict=all(parts.values()),
        finding=(
            f"Right answers with up to {gaps[-1]} symbols in between: {shares}. The RNN still "
            f"answers at {farthest['RNN']}, the LSTM at {farthest['LSTM']}; at the longest gap "
            f"attention had learned it after {last['attention'].steps} steps, the LSTM after "
            f"{last['LSTM'].steps} or not at all, for its gradient walks the whole way back. "
            f"Asked from twice as far as ever in training, attention is right in "
            f"{percent(last['attention'].beyond)}." + unmet(parts)
        ),
        numbers={
            "gaps": list(gaps),
            **{f"{kind}: right": of for kind, of in right.items()},
            **{f"{kind}: right beyond training": of for kind, of in beyond.items()},
            **{f"{kind}: steps until learned": of for kind, of in steps.items()},
        },
        pictures=(
            lines(right, "Gaps as in training", longest, "right answers", xs=gaps),
            lines(beyond, "Gaps twice as long", longest, "right answers", xs=gaps),
            lines(steps, "Time to learn", longest, "steps", xs=gaps),
        ),
    )


def _learn(
    kind: Kind, train: Questions, test: Questions, gap: int, n_steps: int, seed: int
) -> _LearnedGap:
    def loss() -> Tensor:
        ids, answers = train[int(torch.randint(gap + 1, ()))]
        chosen = torch.randint(len(ids), (_BATCH,))
        return F.cross_entropy(network(ids[chosen])[:, -1], answers[chosen])

    with seeded(seed):
        network = tagger(kind, n_symbols=len(_WORDS), n_answers=len(_WORDS))
        losses = fit(network.parameters(), loss, steps=n_steps, lr=LEARNING_RATES[kind])
    means = torch.tensor(losses).unfold(0, min(_WHILE, n_steps), 1).mean(dim=1)
    low = (means < _LEARNED).nonzero().flatten().tolist()
    return _LearnedGap(
        right=_accuracy(network, test, range(gap // 2 + 1, gap + 1)),
        beyond=_accuracy(network, test, range(gap + 1, 2 * gap + 1)),
        steps=low[0] + _WHILE if low else n_steps,
    )


@torch.no_grad()
def _accuracy(network: nn.Module, questions: Questions, gaps: range) -> float:
    right = [
        network(ids)[:, -1].argmax(dim=-1) == answers
        for gap, (ids, answers) in questions.items()
        if gap in gaps
    ]
    return torch.cat(right).double().mean().item()


def _by_gap(pairs: Sequence[Pair]) -> Questions:
    asked: dict[int, list[list[int]]] = {}
    for pair in pairs:
        ids = [_WORDS[word] for word in (*pair.source.split(), pair.target)]
        asked.setdefault(len(ids) - 6, []).append(ids)
    tensors = {gap: torch.tensor(rows) for gap, rows in asked.items()}
    return {gap: (rows[:, :-1], rows[:, -1]) for gap, rows in tensors.items()}
