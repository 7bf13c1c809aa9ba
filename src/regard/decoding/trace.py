"""A beam search as a tree: every hypothesis it looked at, and what became of each.

A node is a target so far. At each step a search looks at the most probable continuations; what is
less probable than those never becomes a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from regard.core.errors import ShapeError
from regard.decoding.beam import BeamStep, beam_search
from regard.decoding.hypothesis import Hypothesis, penalty
from regard.decoding.protocol import TRANSLATOR, ControlIds, Generator
from regard.decoding.search import BeamSettings
from regard.decoding.settings import LENGTH_PENALTY, StopRule
from regard.text.specials import BEGIN_ID

Fate = Literal["open", "pruned", "finished", "best"]


@dataclass(frozen=True, slots=True)
class Node:
    """A hypothesis: the parent's tokens and one more."""

    id: int
    parent: int | None
    step: int
    token_id: int
    log_prob: float
    """Of the token."""
    total: float
    """Of all tokens up to here: what hypotheses of one step are compared by."""
    score: float
    """What it was compared by: the total, and once it has ended the total over its penalty."""
    state: Fate
    """``open``: it was continued. ``best``: the one that won."""
    why: str


class Trace:
    """An observer of the search of one sentence, which grows the tree step by step."""

    def __init__(self, settings: BeamSettings, limit: int, n_given: int) -> None:
        self.settings = settings
        self.limit = limit
        self.n_given = n_given
        self.nodes = [Node(0, None, 0, BEGIN_ID, 0.0, 0.0, 0.0, "open", "the beginning")]
        self.open = [0]
        """Ids of the nodes that go on, most probable first."""

    def __call__(self, step: BeamStep) -> None:
        """Enter all candidates that exist."""
        before, n = self.open, self.nodes[self.open[0]].step + 1
        kept = [i for i in step.kept[0].tolist() if i >= 0]
        rows = zip(*(part[0].tolist() for part in step.candidates), strict=True)
        entered: dict[int, int] = {}
        for rank, (parent, token, log_prob, total) in enumerate(rows):
            if log_prob == -float("inf") or total == -float("inf"):
                continue
            state, why = self._fate(rank, token, rank in kept, n)
            ended = state == "finished"
            score = total / penalty(n, self.settings.length_penalty) if ended else total
            i = entered[rank] = len(self.nodes)
            self.nodes.append(Node(i, before[parent], n, token, log_prob, total, score, state, why))
        self.open = [entered[rank] for rank in kept]

    def _fate(self, rank: int, token: int, kept: bool, n: int) -> tuple[Fate, str]:
        ends, K = token in self.settings.control.ends, self.settings.n_beams
        if ends and rank < K:
            return "finished", "finished"
        if kept:
            return "open", "given" if n <= self.n_given else f"among the best {K}"
        return "pruned", f"ended outside the best {K}" if ends else f"outside the best {K}"

    def concluded(self, best: Hypothesis) -> tuple[Node, ...]:
        """All nodes, once the search has ended with its best hypothesis."""
        winner = self._winner(best)
        nodes = self.nodes.copy()
        for node in self.nodes:
            if node.state == "finished":
                scores = f"{node.score:.3f} against {best.score:.3f}"
                why = f"finished but no better than the best ({scores})"
                nodes[node.id] = replace(node, why=why)
        for number in self.open:
            cut = self.nodes[number].step >= self.limit
            left = "cannot win any more" if self.settings.stop == "exact" else "others had ended"
            why = f"cut off by the limit of {self.limit}" if cut else left
            nodes[number] = replace(self.nodes[number], state="pruned", why=why)
        why = "the best that finished" if best.finished else "the best, cut off by the limit"
        nodes[winner] = replace(self.nodes[winner], state="best", score=best.score, why=why)
        return tuple(nodes)

    def _winner(self, best: Hypothesis) -> int:
        """The node that spells the best hypothesis."""
        children: dict[int | None, dict[int, int]] = {}
        for node in self.nodes:
            children.setdefault(node.parent, {})[node.token_id] = node.id
        number = 0
        for token in best.ids:
            number = children[number][token]
        if not best.finished:
            return number
        ends = self.settings.control.ends & children[number].keys()
        nodes = [self.nodes[children[number][end]] for end in ends]
        return max((node for node in nodes if node.state == "finished"), key=lambda n: n.score).id


def trace(
    model: Generator,
    source: Tensor,
    *,
    limits: Tensor,
    n_beams: int,
    length_penalty: float = LENGTH_PENALTY,
    prefix: Sequence[int] = (),
    prompt: Tensor | None = None,
    control: ControlIds = TRANSLATOR,
    stop: StopRule = "exact",
) -> tuple[Node, ...]:
    """The tree of the search for one sentence (1, S); nothing about the search is changed by it."""
    if source.shape[0] != 1:
        raise ShapeError(f"a tree is of one sentence, got {source.shape[0]}")
    settings = BeamSettings(n_beams, 1, length_penalty, stop=stop, control=control)
    observer = Trace(settings, int(limits[0]), len(prefix))
    ((best,),) = beam_search(
        model, source, limits=limits, n_beams=n_beams, length_penalty=length_penalty, stop=stop,
        prefixes=[prefix], prompt=prompt, control=control, observer=observer,
    )  # fmt: skip
    return observer.concluded(best)
