"""A beam search of a run, as a tree with words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.core.counting import counted, mentioned
from regard.decoding.trace import Node
from regard.visual.tree import tree_html, tree_text


@dataclass(frozen=True, slots=True)
class Tree:
    """Every hypothesis that was looked at: node i is ``nodes[i]`` and says ``tokens[i]``."""

    n_beams: int
    nodes: tuple[Node, ...]
    tokens: tuple[str, ...]

    @property
    def best(self) -> tuple[str, ...]:
        """The tokens of the hypothesis that won."""
        return self.path(next(node.id for node in self.nodes if node.state == "best"))

    def path(self, node: int) -> tuple[str, ...]:
        """The tokens up to a node, without the begin token: a prefix to continue from."""
        tokens: list[str] = []
        at: int | None = node
        while at:
            tokens.append(self.tokens[at])
            at = self.nodes[at].parent
        return tuple(reversed(tokens))

    def longest(self) -> tuple[int, ...]:
        """The ids of the longest hypothesis before its last token: all that a decoder has read."""
        at = max(self.nodes, key=lambda node: node.step).parent
        ids: list[int] = []
        while at:
            ids.append(self.nodes[at].token_id)
            at = self.nodes[at].parent
        return tuple(reversed(ids))

    def __repr__(self) -> str:
        size = f"{counted(self.n_beams, 'beam')}, {counted(len(self.nodes), 'node')}"
        return f"<Tree of {size}: best is {mentioned(' '.join(self.best))}>"

    def __str__(self) -> str:
        return tree_text(self.as_json()).rstrip("\n")

    def _repr_html_(self) -> str:
        return tree_html(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Plain data, as pictures and the page take it."""
        return {
            "n_beams": self.n_beams,
            "nodes": [
                {
                    "id": node.id,
                    "parent": node.parent,
                    "step": node.step,
                    "token": token,
                    "log_prob": node.log_prob,
                    "score": node.score,
                    "state": node.state,
                    "why": node.why,
                }
                for node, token in zip(self.nodes, self.tokens, strict=True)
            ],
        }
