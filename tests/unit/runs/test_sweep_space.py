"""What a sweep tries."""

import pytest

from regard.core.errors import ConfigError
from regard.runs.sweep_space import axis_of, check_axes, drawn, grid


def axes(*written):
    return [axis_of(one) for one in written]


def test_a_grid_is_every_combination_in_the_order_of_writing():
    points = grid(axes("lr=1e-3,2e-3", "dropout=0.1,0.3"))
    assert points == [
        {"train.lr": lr, "model.dropout": dropout}
        for lr in ("1e-3", "2e-3")
        for dropout in ("0.1", "0.3")
    ]


def test_more_draws_begin_with_the_same_and_none_comes_twice():
    some = axes("lr=1e-4..1e-2", "dropout=0.0..0.5", "n_layers=1..6")
    few, many = drawn(some, 5, seed=3), drawn(some, 30, seed=3)
    assert many[:5] == few
    assert len({tuple(one.values()) for one in many}) == 30
    assert all(1e-4 <= float(one["train.lr"]) <= 1e-2 for one in many)
    assert {one["model.n_layers"] for one in many} <= set("123456")
    below = sum(float(one["train.lr"]) < 1e-3 for one in many)
    assert 8 <= below <= 22  # half of them: a wide range is drawn by its logarithm


def test_where_there_are_fewer_points_than_draws_all_are_taken():
    some = axes("lr=1e-3,2e-3", "dropout=0.1,0.3")
    assert drawn(some, 9, seed=1) == grid(some)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([], "nothing to sweep"),
        (["lr=1,2", "train.lr=3,4"], "train.lr is swept twice"),
        (["lr=2..1"], "from low to high"),
        (["lr=1,1"], "there twice"),
        (["lrr=1,2"], "did you mean 'lr'"),
    ],
)
def test_what_cannot_be_swept_is_told(written, message):
    with pytest.raises(ConfigError, match=message):
        check_axes(axes(*written))


def test_a_range_has_no_grid():
    with pytest.raises(ConfigError, match="give values"):
        grid(axes("lr=1e-4..1e-2"))
