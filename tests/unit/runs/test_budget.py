import pytest
import torch

from regard.core.errors import ConfigError
from regard.runs import estimate as module
from regard.runs.estimate import Budget, Estimate, parse_budget, steps_within
from regard.runs.prepare import prepare
from regard.tasks.recipe import recipe_from


@pytest.fixture(scope="module")
def prepared(settings):
    train = {**settings["train"], "accumulate": 2}
    return prepare(recipe_from({**settings, "train": train}), torch.device("cpu"))


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("3e12flops", 3e12, "flops"),
        ("5e6tokens", 5e6, "tokens"),
        ("10min", 10.0, "min"),
        ("0.5 min", 0.5, "min"),
        (" 2.5E+3 FLOPs ", 2500.0, "flops"),
        ("7tokens", 7.0, "tokens"),
    ],
)
def test_a_budget_is_an_amount_and_its_unit(text, amount, unit):
    assert parse_budget(text) == Budget(amount, unit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3e12",
        "flops",
        "0flops",
        "-1min",
        "1e999tokens",
        "3e12 flop",
        "10hours",
        "nanmin",
        "e5min",
    ],
)
def test_anything_else_is_refused_with_examples(text):
    with pytest.raises(ConfigError, match=r"3e12flops, 5e6tokens or 10min, but found"):
        parse_budget(text)


@pytest.mark.parametrize("text", ["3e12flops", "1.25e7tokens", "2e0tokens", "0.5min", "10min"])
def test_a_budget_is_written_as_it_is_read(text):
    assert str(parse_budget(text)) == text


@pytest.mark.parametrize("unit", ["flops", "tokens"])
def test_steps_spend_the_budget_but_never_more(prepared, unit):
    stream, costs = prepared.stream(), []
    for _ in range(12):
        two = [stream.next(), stream.next()]
        costs.append(sum(prepared.flops(b) if unit == "flops" else b.count for b in two))
    exact = Budget(sum(costs[:9]), unit)
    assert steps_within(exact, prepared, validations=1) == 9
    assert steps_within(exact.share(1 - 1e-9), prepared, validations=1) == 8
    assert steps_within(exact.share(1 + 1e-9), prepared, validations=1) == 9


def test_a_long_training_goes_by_the_mean_of_its_beginning(prepared, monkeypatch):
    exact = steps_within(Budget(4e10, "flops"), prepared, validations=1)
    monkeypatch.setattr(module, "COUNTED", 20)
    assert exact > 500
    assert steps_within(Budget(4e10, "flops"), prepared, validations=1) == pytest.approx(
        exact, rel=0.1
    )


def test_a_budget_for_not_one_step_is_refused(prepared):
    with pytest.raises(ConfigError, match="1e3flops buys not one step of transformer"):
        steps_within(Budget(1e3, "flops"), prepared, validations=1)


def test_minutes_pay_for_steps_and_for_validations(prepared, monkeypatch):
    """A step takes 0.1 s and a validation 0.2 s; 5 % are kept back."""

    def timed(asked):
        train = asked.recipe.train
        assert (train.max_minutes, train.eval_every) == (1.0, 1)
        return Estimate(
            parameters=1, flops_per_token=1, steps=600, flops=1, memory_bytes=1, seconds=180.0
        )

    monkeypatch.setattr(module, "estimate", timed)
    assert steps_within(Budget(1, "min"), prepared, validations=10) == 550
    assert steps_within(Budget(1, "min"), prepared, validations=0) == 570
    with pytest.raises(ConfigError, match="1min buys not one step"):
        steps_within(Budget(1, "min"), prepared, validations=300)


def test_minutes_are_measured_here_and_now(prepared):
    few, many = (steps_within(Budget(m, "min"), prepared, validations=1) for m in (0.1, 10))
    assert 1 <= few < many
