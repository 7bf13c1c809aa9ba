import pytest
import torch

from regard import lab
from regard.core.errors import ConfigError
from regard.lab.claims.codes import PLACES, USED, D, _table, alike, learned_table

QUICK = {"steps": 250, "n_positions": 32}


def test_sinusoids_and_learned_rows_are_nearest_to_their_neighbours():
    result = lab.codes(**QUICK)
    assert result.verdict
    assert result.numbers["share nearest to a neighbour"] == 1
    used = result.numbers["learned: share nearest to a neighbour"]
    assert used > result.numbers["learned, rows never used: share nearest to a neighbour"] + 0.4
    assert len(result.pictures) == 5


def test_random_codes_have_no_neighbours():
    result = lab.codes(code="random", n_positions=32, steps=1)
    assert not result.verdict
    assert result.numbers["share nearest to a neighbour"] < 0.3
    assert "every position is nearest to a neighbour" in result.finding


def test_a_table_that_learned_nothing_is_noise():
    table = learned_table(1, seed=1)
    assert table.shape == (PLACES, D)
    assert alike(table[:USED]).beside < 0.6


def test_alikeness_is_read_off_distances():
    on_a_line = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
    found = alike(on_a_line)
    assert found.closest == pytest.approx(1 / 2)  # distances 1, 3 and 2
    assert found.beside == 1
    assert found.by_offset == pytest.approx([1.5, 3])
    assert alike(on_a_line[[0, 2, 1]]).beside == pytest.approx(1 / 3)  # 0 → 1 lies two away


def test_the_sinusoid_is_the_papers():
    row = _table("sinusoidal", 4, seed=0)[3]
    assert row[0].item() == pytest.approx(torch.tensor(3.0).sin().item(), abs=1e-6)
    assert row[9].item() == pytest.approx(torch.tensor(3 / 10_000 ** (8 / D)).cos().item())


def test_an_unknown_code_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError, match="sinusoidal, random"):
        lab.codes(code="sine")
