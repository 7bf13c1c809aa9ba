import numpy as np
import pytest

from regard import lab
from regard.lab.claims import size as module
from regard.lab.claims.size import Size, _shared_out

TINY = {"depths": (1, 2), "steps": 40, "seeds": (1, 2)}


@pytest.mark.slow
def test_at_equal_steps_depth_and_width_lower_the_loss():
    numbers = lab.size(**TINY, widths=(16, 48)).numbers
    saved = {name: gain for name, gain in numbers.items() if name.startswith("loss saved")}
    assert all(gain > 0 for name, gain in saved.items() if "95 %" not in name)
    assert numbers["loss saved by depth at width 48"] == pytest.approx(
        numbers["loss: 1 × 48"] - numbers["loss: 2 × 48"]
    )
    assert numbers["loss saved by width at depth 1"] == pytest.approx(
        numbers["loss: 1 × 16"] - numbers["loss: 1 × 48"]
    )


@pytest.mark.slow
def test_at_equal_cost_they_do_not():
    assert not lab.size(**TINY, widths=(16, 32), equal_cost=True).verdict


def test_a_budget_is_shared_out_so_that_each_size_costs_the_same():
    sizes = [Size(1, 10), Size(2, 10), Size(1, 20)]  # costs 100, 200, 400
    steps = _shared_out(sizes, 12)
    assert list(steps.values()) == [28, 14, 7]  # 2800 each, 12 · 700 in all


@pytest.mark.parametrize(("luck", "holds"), [(0.1, True), (5.0, False)])
def test_a_size_must_be_better_by_more_than_luck(monkeypatch, luck, holds):
    """The larger has a loss that is less by 0.2 or more, on 50 targets of 3 trainings."""
    rng = np.random.default_rng(0)

    def learned(size, steps, seeds):
        losses = 3 - 0.2 * size.n_layers - size.d_model / 64 + luck * rng.normal(size=(3, 50))
        return module._LearnedSize(steps, losses, 0.5, 10, 1e9)

    monkeypatch.setattr(module, "_learned", learned)
    result = lab.size()
    assert result.verdict is holds
    assert "3 trainings each" in result.finding
