import numpy as np
import pytest

from regard import lab
from regard.lab.claims import eight as module
from regard.lab.claims.eight import EIGHT

SEEN = {1: 2.4, 2: 2.2, 4: 2.18, 8: 2.2, 16: 2.3}


@pytest.fixture
def losses(monkeypatch):
    """Of each number of heads, without a training: 100 sentences, of which some are hard."""
    seen, hard = dict(SEEN), np.linspace(-0.5, 0.5, 100)
    monkeypatch.setattr(module, "_losses", lambda _world, n, _steps, _seed: seen[n] + hard)
    return seen


def test_a_lead_that_rests_on_few_sentences_is_luck(monkeypatch):
    """Eight heads are better than one by 0.2 on average, which one sentence of a hundred makes."""

    def losses(_world, n, _steps, _seed):
        found = np.full(100, SEEN[EIGHT] if n == 1 else SEEN[n])
        found[0] += 20 * (n == 1)
        return found

    monkeypatch.setattr(module, "_losses", losses)
    result = lab.eight()
    assert result.numbers["8 save beside 1"] == pytest.approx(0.2)
    assert not result.verdict
    assert "8 heads are better than 1" in result.finding


def test_eight_may_be_as_good_as_the_best_but_must_beat_both_ends(losses):
    result = lab.eight()
    assert result.verdict
    assert result.numbers["best"] == 4
    assert result.tables[0].rows[3] == ("8", "8", "2.200")


@pytest.mark.parametrize(
    ("n", "loss", "told"),
    [
        (1, 2.2, "8 heads are better than 1"),
        (16, 2.2, "8 heads are better than 16"),
        (4, 2.1, "no number is clearly better than 8"),
    ],
)
def test_an_end_as_good_or_another_number_clearly_better_turns_the_verdict(losses, n, loss, told):
    losses[n] = loss
    result = lab.eight()
    assert not result.verdict
    assert told in result.finding


def test_where_one_look_is_enough_one_head_is_as_good():
    result = lab.eight(world="copy", counts=(1, 8), steps=250)
    assert not result.verdict
    assert "8 heads are better than 1" in result.finding
    assert max(result.numbers["loss by heads"]) < 0.5


def test_sentences_are_learned_with_so_many_heads():
    run, _ = module._sentences(4, steps=1, seed=1)
    assert run.model.config.n_heads == 4
    assert run.model.config.d_model == module.WIDTH
