"""With a graph's edges as the mask, k layers of attention bring a node what lies within k hops.

A node may look at itself and at its neighbours. What one layer brought to a neighbour, the next
brings on. Measured by changing one node and seeing which others change, against the hops counted
along the edges; full attention reaches all nodes at once, but is blind to the edges: trained to
tell the prevailing colour of each node's neighbours in new graphs, it has to guess.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.inspection.capture import watch
from regard.lab.result import Result, lines, percent
from regard.lab.small_models import fit, seeded
from regard.layers.attention import MultiHeadAttention
from regard.layers.blocks import Residual
from regard.visual.matrix import matrix

_D, _HEADS = 16, 2
PLACES = (
    ("paris", "seine"), ("paris", "france"), ("france", "europe"), ("europe", "austria"),
    ("austria", "vienna"), ("vienna", "danube"), ("europe", "italy"), ("italy", "rome"),
    ("rome", "tiber"),
)  # fmt: skip
"""A small knowledge graph, by its edges."""


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
    by_layer = torch.arange(1, n_layers + 1)[:, None, None]
    within = torch.stack([hops(may) <= by_layer for may in graphs])  # (graphs, layers, N, N)
    limited = torch.stack([_reached(layers, may, seed) for may in graphs])
    full = torch.stack([_reached(layers, torch.ones_like(may), seed) for may in graphs])
    agree = ((limited if edges else full) == within).double().mean().item()
    told, guessed = (
        trained_accuracy(edges=known, n_nodes=n_nodes, steps=steps, seed=seed)
        for known in (True, False)
    )
    reached = {"within k hops": within, "edges": limited, "full attention": full}
    shares = {name: of.double().mean(dim=(0, 2, 3)).tolist() for name, of in reached.items()}
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
            lines(
                {name: shares[name] for name in ("edges", "full attention")},
                "Nodes that reach a node",
                "layers",
                "share of all nodes",
                xs=range(1, n_layers + 1),
            ),
            *_places(layers, seed),
        ),
    )


class _GraphLayer(nn.Module):
    """x + attention(norm(x)): without the norm, scores grow with depth until one key takes all."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(_D, _HEADS)
        self.residual = Residual(_D, dropout=0.0, norm_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.residual.leave(x, self.attention(self.residual.enter(x), mask=mask))


def _layers(n_layers: int, seed: int) -> list[_GraphLayer]:
    with seeded(seed):
        return [_GraphLayer().double() for _ in range(n_layers)]


@torch.no_grad()
def _reached(layers: list[_GraphLayer], may: Tensor, seed: int) -> Tensor:
    """(layers, N, N): does node t change, after each layer, when node s is given another vector?"""
    rng = torch.Generator().manual_seed(seed)
    x, other = torch.randn(2, len(may), _D, generator=rng, dtype=torch.float64)
    changed = torch.where(torch.eye(len(may)).bool()[..., None], other, x)  # row s: s is new
    nodes = torch.cat((changed, x[None]))  # (N + 1, N, D), the last is unchanged
    found = []
    for layer in layers:
        nodes = layer(nodes, may)
        found.append((nodes[:-1] - nodes[-1]).abs().amax(dim=-1).mT > 1e-12)
    return torch.stack(found)


def _places(layers: list[_GraphLayer], seed: int) -> tuple[str, str]:
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


def named(edges: tuple[tuple[str, str], ...]) -> tuple[list[str], Tensor]:
    """The nodes of a graph in the order in which they come up, and its mask (N, N)."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    return names, mask(len(names), [(names.index(a), names.index(b)) for a, b in edges])


def mask(n_nodes: int, edges: list[tuple[int, int]]) -> Tensor:
    """(N, N): a node may look at itself and at its neighbours, both ways.

    >>> mask(3, [(0, 1), (1, 2)]).int().tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """
    may = torch.eye(n_nodes, dtype=torch.bool)
    for a, b in edges:
        may[a, b] = may[b, a] = True
    return may


def random_graph(n_nodes: int, n_more: int, rng: torch.Generator) -> Tensor:
    """The mask of a random tree, with ``n_more`` edges anywhere: all nodes hang together."""

    def below(n: int) -> int:
        return int(torch.randint(n, (), generator=rng))

    tree = [(i, below(i)) for i in range(1, n_nodes)]
    return mask(n_nodes, tree + [(below(n_nodes), below(n_nodes)) for _ in range(n_more)])


def hops(may: Tensor) -> Tensor:
    """(N, N): the fewest edges from each node to each other; N where there is no way.

    >>> hops(mask(4, [(0, 1), (1, 2)])).tolist()
    [[0, 1, 2, 4], [1, 0, 1, 4], [2, 1, 0, 4], [4, 4, 4, 0]]
    """
    within = [torch.linalg.matrix_power(may.double(), k) > 0 for k in range(len(may))]  # k edges
    return (~torch.stack(within)).sum(dim=0)


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
    others = ~torch.eye(n_nodes, dtype=torch.bool)
    graphs, new = (
        torch.stack([random_graph(n_nodes, 3, rng) & others for _ in range(200)]) for _ in range(2)
    )
    with seeded(seed):
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
