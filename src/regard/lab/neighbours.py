"""A task that needs the edges of a graph: which colour prevails among a node's neighbours?"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.lab.graphs import random_graph
from regard.lab.learning import fit
from regard.layers.attention import MultiHeadAttention

_D, _HEADS = 16, 2


class Looker(nn.Module):
    """One layer of attention over the colours of the nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.colours = nn.Embedding(2, _D)
        self.attention = MultiHeadAttention(_D, _HEADS)
        self.to_logit = nn.Linear(_D, 1)

    def forward(self, colours: Tensor, mask: Tensor) -> Tensor:
        """colours (B, N), who may look at whom (B, N, N) -> logits of colour 1 (B, N)."""
        return self.to_logit(self.attention(self.colours(colours), mask=mask[:, None]))[..., 0]


def trained_accuracy(*, edges: bool, n_nodes: int, steps: int, seed: int) -> float:
    """The share of nodes in new graphs of which one layer tells their neighbours' colour rightly.

    Without ``edges`` all may look at all: they see every colour, but not whose neighbour has it.
    """
    rng = torch.Generator().manual_seed(seed)
    graphs, new = (torch.stack([_neighbours(n_nodes, rng) for _ in range(200)]) for _ in range(2))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Looker()

    def answered(masks: Tensor) -> tuple[Tensor, Tensor]:
        colours = torch.randint(2, masks.shape[:2], generator=rng)
        surplus = prevailing(colours, masks)
        logits = model(colours, masks if edges else torch.ones_like(masks))
        return logits[surplus != 0], surplus[surplus != 0] > 0  # ties have no right answer

    def loss() -> Tensor:
        logits, wanted = answered(graphs[torch.randint(len(graphs), (32,), generator=rng)])
        return F.binary_cross_entropy_with_logits(logits, wanted.float())

    fit(model.parameters(), loss, steps=steps, lr=1e-2)
    with torch.no_grad():
        logits, wanted = answered(new)
    return ((logits > 0) == wanted).double().mean().item()


def prevailing(colours: Tensor, masks: Tensor) -> Tensor:
    """(B, N): how many more of colour 1 than of colour 0 are among those that a node may look at.

    >>> prevailing(torch.tensor([[1, 1, 0]]), torch.tensor([[[0, 1, 0], [1, 0, 1], [0, 1, 0]]]))
    tensor([[1, 0, 1]])
    """
    return (masks.long() @ (2 * colours - 1).unsqueeze(-1)).squeeze(-1)


def _neighbours(n_nodes: int, rng: torch.Generator) -> Tensor:
    return random_graph(n_nodes, 3, rng) & ~torch.eye(n_nodes, dtype=torch.bool)
