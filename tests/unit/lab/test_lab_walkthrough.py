import math

import pytest

from regard import lab
from regard.core.errors import ConfigError

LOGS = [math.log(n) for n in (12, 1, 2, 5)]  # of 20 in all


def test_the_slides_weights_are_not_the_softmax_of_its_scores():
    result = lab.walkthrough()
    assert not result.verdict
    assert result.numbers["shapes as in the notes"]  # it is the weights that are wrong
    by_hand = [math.exp(s - 95) / sum(math.exp(t - 95) for t in (95, 13, 35, 72)) for s in (95, 72)]
    assert result.numbers["softmax"][0] == pytest.approx(by_hand[0], rel=1e-9)
    assert result.numbers["softmax"][3] == pytest.approx(by_hand[1], rel=1e-9)
    assert result.numbers["largest difference"] == pytest.approx(0.4, abs=1e-6)
    assert result.numbers["softmax after dividing by 8 once more"][0] == pytest.approx(
        1 / (1 + math.exp(-82 / 8) + math.exp(-60 / 8) + math.exp(-23 / 8))
    )


def test_logarithms_of_twentieths_give_the_slides_weights():
    result = lab.walkthrough(scores=LOGS)
    assert result.verdict
    assert result.numbers["softmax"] == pytest.approx([12 / 20, 1 / 20, 2 / 20, 5 / 20])


def test_thinking_machines_comes_out_as_printed():
    numbers = lab.walkthrough().numbers
    assert numbers["Thinking Machines: divided by 8"] == [14, 12]
    first = 1 / (1 + math.exp(-2))
    assert numbers["Thinking Machines: softmax"] == pytest.approx([first, 1 - first])
    assert numbers["Thinking Machines: softmax"] == pytest.approx([0.88, 0.12], abs=0.005)
    undivided = numbers["Thinking Machines: softmax of the products, undivided"]
    assert undivided[1] == pytest.approx(math.exp(-16), rel=1e-4)


def test_other_products_give_other_weights():
    result = lab.walkthrough(products=(112, 104), scores=LOGS)
    assert not result.verdict
    assert "softmax of 14 and 13 is 0.73 and 0.27, not as printed; but" in result.finding
    assert result.finding.endswith("0.6, 0.05, 0.1, 0.25, as printed.")
    neither = lab.walkthrough(products=(112, 104)).finding
    assert "not as printed; and the softmax of 95, 13, 35, 72" in neither


def test_a_head_of_the_layer_is_the_head_worked_by_hand():
    assert lab.walkthrough().numbers["head by hand and in the layer differ by"] < 1e-12


def test_the_table_shows_every_step_and_sums_them():
    thinking, steps, shapes = lab.walkthrough(scores=LOGS).tables
    assert [row[:5] for row in thinking.rows[:2]] == [
        ["Thinking → Thinking", "112.00", "14.00", "0.88", "0.88"],
        ["Thinking → Machines", "96.00", "12.00", "0.12", "0.12"],
    ]
    assert [row[0] for row in steps.rows] == ["I → I", "I → want", "I → to", "I → sleep", "sum"]
    assert [row[3] for row in steps.rows] == ["0.6", "0.05", "0.1", "0.25", "1"]
    parts = sum(float(row[6]) for row in steps.rows[:4])
    assert parts == pytest.approx(float(steps.rows[4][6]), rel=0.2, abs=0.02)
    assert ["Q", "2×64", "2×64"] in shapes.rows
    assert ["W_o", "512×64", "512×512"] in shapes.rows


def test_each_word_needs_a_score():
    with pytest.raises(ConfigError, match="four words, got 2 scores"):
        lab.walkthrough(scores=[1, 2])
    with pytest.raises(ConfigError, match="two words, got 3 products"):
        lab.walkthrough(products=[1, 2, 3])
