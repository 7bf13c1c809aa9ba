import pytest

from regard import lab
from regard.lab.claims.size import Size, _shared_out

pytestmark = pytest.mark.slow

TINY = {"depths": (1, 2), "steps": 40}


def test_at_equal_steps_depth_and_width_lower_the_loss():
    result = lab.size(**TINY, widths=(16, 48))
    assert result.verdict
    numbers = result.numbers
    assert numbers["loss saved by depth at width 48"] == pytest.approx(
        numbers["loss: 1 × 48"] - numbers["loss: 2 × 48"]
    )
    assert numbers["loss saved by width at depth 1"] == pytest.approx(
        numbers["loss: 1 × 16"] - numbers["loss: 1 × 48"]
    )


def test_at_equal_cost_they_do_not():
    assert not lab.size(**TINY, widths=(16, 32), equal_cost=True).verdict


def test_a_budget_is_shared_out_so_that_each_size_costs_the_same():
    sizes = [Size(1, 10), Size(2, 10), Size(1, 20)]  # costs 100, 200, 400
    steps = _shared_out(sizes, 12)
    assert list(steps.values()) == [28, 14, 7]  # 2800 each, 12 · 700 in all
