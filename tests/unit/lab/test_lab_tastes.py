import pytest
import torch

from regard import lab
from regard.lab.claims.tastes import _by_hand, _held_out, _learn, _World, _world


def small(**changes):
    return lab.tastes(**{"n_users": 60, "n_films": 50, "widths": (1, 3), "steps": 150, **changes})


def test_dot_products_foretell_likes_that_were_not_seen():
    result = small()
    one, three = result.numbers["share foretold by width"]
    assert result.verdict
    assert one < three - 0.1  # three tastes do not fit into one number


def test_sums_of_users_and_films_do_not():
    result = small(product=False)
    assert not result.verdict
    assert max(result.numbers["share foretold by width"]) < 0.6


def test_like_and_like_agree_and_so_do_two_dislikes():
    (table,) = small(widths=(3,), steps=1).tables
    assert [row[1:] for row in table.rows] == [
        ["+1", "-1", "+0.5"],
        ["-1", "+1", "-0.5"],
        ["-2", "+2", "-0.5"],
        ["+0", "+0", "+0"],
    ]
    assert table.rows == _by_hand().rows


def test_only_what_was_not_seen_is_counted():
    likes = torch.tensor([[True, True], [False, True]])
    world = _World(likes, seen=torch.tensor([[True, False], [False, False]]))
    assert _held_out(world, torch.tensor([[-9.0, 1.0], [1.0, 1.0]])) == pytest.approx(2 / 3)


def test_what_is_held_out_is_not_learned_from():
    world = _world(12, 10, seed=0)
    other = _World(world.likes ^ ~world.seen, world.seen)
    learned, again = (_learn(w, 2, 5, seed=0, product=True) for w in (world, other))
    assert torch.equal(learned, again)
    turned = _World(world.likes ^ world.seen, world.seen)
    assert not torch.equal(learned, _learn(turned, 2, 5, seed=0, product=True))


def test_another_seed_is_another_world():
    assert torch.equal(_world(9, 8, seed=1).likes, _world(9, 8, seed=1).likes)
    assert not torch.equal(_world(9, 8, seed=1).likes, _world(9, 8, seed=2).likes)
