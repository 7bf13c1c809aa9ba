import torch

from regard import lab
from regard.lab.claims.graph import (
    PLACES,
    _layers,
    _reached,
    hops,
    mask,
    named,
    prevailing,
    random_graph,
    trained_accuracy,
)
from regard.lab.small_models import block_norms


def small(**changes):
    return lab.graph(**{"n_layers": 3, "n_graphs": 3, "n_nodes": 9, "steps": 2, **changes})


def test_layers_reach_as_many_hops_along_the_edges():
    result = small()
    assert result.verdict
    assert result.numbers["share of pairs: edges"][0] < 0.5


def test_full_attention_reaches_all_at_once():
    result = small(edges=False)
    assert not result.verdict
    assert result.numbers["share of pairs: full attention"] == [1, 1, 1]


def test_a_chain_passes_on_one_node_a_layer():
    chain = mask(4, [(0, 1), (1, 2), (2, 3)])
    one, two, three = _reached(_layers(3, seed=0), chain, seed=0).int().tolist()
    assert one == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert two == [[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]]
    assert three == [[1, 1, 1, 1]] * 4


def test_what_reaches_a_node_is_what_has_a_gradient_there(rng):
    may = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]]).bool()  # one way
    first, second = layers = _layers(2, seed=0)

    def both(x):
        return second(first(x, may), may)

    slopes = block_norms(both, torch.randn(1, 4, 16, generator=rng, dtype=torch.float64))[0]
    assert torch.equal(_reached(layers, may, seed=0)[-1], slopes > 1e-9)


def test_hops_are_those_of_a_walk_along_the_edges(rng):
    may = random_graph(10, 2, rng)
    for start in range(10):
        seen, frontier, steps = {start: 0}, [start], 0
        while frontier:
            steps += 1
            frontier = [b for a in frontier for b in range(10) if may[a, b] and b not in seen]
            seen.update(dict.fromkeys(frontier, steps))
        assert hops(may)[start].tolist() == [seen[node] for node in range(10)]


def test_a_named_graph_joins_its_names_both_ways():
    names, may = named(PLACES)
    seine, tiber = names.index("seine"), names.index("tiber")
    assert torch.equal(may, may.mT)
    assert hops(may)[seine, tiber] == 6
    assert may.sum() == len(names) + 2 * len(PLACES)


def test_the_colour_of_neighbours_is_told_by_those_who_know_the_edges():
    state = torch.random.get_rng_state()
    told = trained_accuracy(edges=True, n_nodes=9, steps=100, seed=0)
    guessed = trained_accuracy(edges=False, n_nodes=9, steps=100, seed=0)
    assert told > 0.95
    assert 0.5 < guessed < 0.85
    assert torch.equal(torch.random.get_rng_state(), state)


def test_colours_of_all_who_are_seen_are_counted():
    colours = torch.tensor([[1, 0, 1, 1]])
    masks = torch.tensor([[[1, 1, 1, 1], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]]).bool()
    assert prevailing(colours, masks).tolist() == [[2, -1, 0, 0]]
