"""With a graph's edges as the mask, k layers of attention bring a node what lies within k hops.

A node may look at itself and at its neighbours. What one layer brought to a neighbour, the next
brings on. Measured by changing one node and seeing which others change, against the hops counted
along the edges; full attention reaches all nodes at once, but is blind to the edges: trained to
tell the prevailing colour of each node's neighbours in new graphs, it has to guess.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.inspection.capture import watch
from regard.lab.graphs import PLACES, hops, named, random_graph
from regard.lab.neighbours import trained_accuracy
from regard.lab.result import Result
from regard.lab.wording import percent
from regard.layers.attention import MultiHeadAttention
from regard.layers.residual import Residual
from regard.visual.charts import curves
from regard.visual.matrix import matrix

_D, _HEADS = 16, 2


def graph(
    *,
    edges: bool = True,
    n_layers: int = 5,
    n_graphs: int = 20,
    n_nodes: int = 12,
    steps: int = 200,
    seed: int = 0,
) -> Result:
    """Which nodes reach which, by layers; without ``edges`` every node may look at every other."""
    rng = torch.Generator().manual_seed(seed)
    graphs = [random_graph(n_nodes, 3, rng) for _ in range(n_graphs)]
    layers = _layers(n_layers, seed)
    within = torch.stack([_within(may, n_layers) for may in graphs])  # (graphs, layers, N, N)
    limited = torch.stack([_reached(layers, may, seed) for may in graphs])
    full = torch.stack([_reached(layers, torch.ones_like(may), seed) for may in graphs])
    agree = ((limited if edges else full) == within).double().mean().item()
    told, guessed = (
        trained_accuracy(edges=known, n_nodes=n_nodes, steps=steps, seed=seed)
        for known in (True, False)
    )
    shares = {
        name: reached.double().mean(dim=(0, 2, 3)).tolist()
        for name, reached in (
            ("within k hops", within),
            ("edges", limited),
            ("full attention", full),
        )
    }
    return Result(
        name="graph",
        verdict=agree == 1,
        finding=(
            f"{'With the edges as the mask' if edges else 'With full attention'}, what changes at "
            "one node is felt at another after k layers exactly if at most k hops join them: so it "
            f"is for {percent(agree)} of all pairs, k from 1 to {n_layers}. One layer joins "
            f"{percent(shares['edges'][0])} of the pairs along the edges and "
            f"{percent(shares['full attention'][0])} by full attention; but asked for the colour "
            f"that prevails among its neighbours, a node is right in {percent(told)} of cases "
            f"along the edges and in {percent(guessed)} where it sees all nodes alike."
        ),
        numbers={
            "pairs that agree with the hops": agree,
            "layers": list(range(1, n_layers + 1)),
            **{f"share of pairs: {name}": share for name, share in shares.items()},
            "share right on the colour of the neighbours: edges": told,
            "share right on the colour of the neighbours: full attention": guessed,
        },
        pictures=(
            curves(
                {name: list(enumerate(shares[name], 1)) for name in ("edges", "full attention")},
                title="Nodes that reach a node",
                x_label="layers",
                y_label="share of all nodes",
            ),
            *_places(layers, seed),
        ),
    )


class _Layer(nn.Module):
    """x + attention(norm(x)): without the norm, scores grow with depth until one key takes all."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(_D, _HEADS)
        self.residual = Residual(_D, dropout=0.0, norm_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.residual.leave(x, self.attention(self.residual.enter(x), mask=mask))


def _layers(n_layers: int, seed: int) -> Sequence[_Layer]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [_Layer().double() for _ in range(n_layers)]


@torch.no_grad()
def _reached(layers: Sequence[_Layer], may: Tensor, seed: int) -> Tensor:
    """(layers, N, N): does node t change, after each layer, when node s is given another vector?"""
    rng = torch.Generator().manual_seed(seed)
    n_nodes = len(may)
    x, other = torch.randn(2, n_nodes, _D, generator=rng, dtype=torch.float64)
    changed = torch.where(torch.eye(n_nodes, dtype=torch.bool)[..., None], other, x)  # row s: s new
    found = []
    nodes = torch.cat((changed, x[None]))  # (N + 1, N, D), the last is unchanged
    for layer in layers:
        nodes = layer(nodes, may)
        found.append((nodes[:-1] - nodes[-1]).abs().amax(dim=-1).mT > 1e-12)
    return torch.stack(found)


def _within(may: Tensor, n_layers: int) -> Tensor:
    return torch.stack([hops(may) <= k for k in range(1, n_layers + 1)])


def _places(layers: Sequence[_Layer], seed: int) -> tuple[str, str]:
    """Where the nodes of a small knowledge graph look, and what they know of after two layers."""
    names, may = named(PLACES)
    x = torch.randn(1, len(names), _D, generator=torch.Generator().manual_seed(seed)).double()
    with watch(layers[0]) as views, torch.no_grad():
        layers[0](x, may)
    (view,) = views.values()
    looks = view.weights()[0].mean(dim=0)
    knows = _reached(layers[:2], may, seed)[-1].double()
    return (
        matrix(looks.tolist(), names, names, title="Weights, edges as the mask"),
        matrix(knows.tolist(), names, names, title="Reached after two layers"),
    )
