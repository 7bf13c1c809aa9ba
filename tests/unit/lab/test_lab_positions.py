import pytest
import torch

from regard import lab
from regard.core.errors import ConfigError
from regard.data.records import Pair
from regard.lab.claims.positions import WAYS, _guess
from regard.recipes.recipe import load_recipe

QUICK = {"ways": ("sinusoidal, concatenated",), "steps": 100}


@pytest.mark.parametrize(
    ("source", "orders"), [("a", 1), ("a b", 2), ("a a", 1), ("c a b", 6), ("a b a", 3)]
)
def test_an_order_is_guessed_once_in_as_many_times_as_there_are_orders(source, orders):
    assert _guess(Pair(source, source)) == pytest.approx(1 / orders)


def test_copying_without_positions_is_guessing():
    before = torch.get_rng_state()
    result = lab.positions(**QUICK)
    assert result.verdict
    assert result.numbers["exact match: none"] <= result.numbers["exact match: the order guessed"]
    assert result.numbers["exact match: sinusoidal, concatenated"] > 0.5
    assert torch.equal(torch.get_rng_state(), before)


def test_sorting_needs_no_positions():
    result = lab.positions(task="sort", **QUICK)
    assert not result.verdict
    assert result.numbers["exact match: none"] > 0.25


def test_ways_are_sinusoids_and_tables_joined_in_both_manners_and_the_number_itself():
    given = [load_recipe("copy", settings).model.given() for settings in WAYS.values()]
    assert {(one["positions"], one.get("join")) for one in given} == {
        ("index", None),
        ("sinusoidal", "add"),
        ("sinusoidal", "concat"),
        ("learned", "add"),
        ("learned", "concat"),
    }


def test_an_unknown_way_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError, match="append t"):
        lab.positions(ways=("appended",))
