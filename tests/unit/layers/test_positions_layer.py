import pytest
import torch

from regard.core.errors import ConfigError, ShapeError
from regard.functional.positions import sinusoid
from regard.layers.positions import POSITIONS, make_positions

D, T = 6, 4


@pytest.fixture
def x(rng):
    return torch.randn(2, T, D, generator=rng)


def test_sinusoids_are_added_or_appended(x):
    codes = sinusoid(torch.arange(T), D)
    added = make_positions("sinusoidal", D, join="add", max_len=9)(x)
    torch.testing.assert_close(added, x + codes)
    joined = make_positions("sinusoidal", D, join="concat", max_len=9)(x)
    torch.testing.assert_close(joined, torch.cat((x, codes.expand(2, -1, -1)), dim=-1))


def test_sinusoids_go_on_beyond_their_table(x):
    short = make_positions("sinusoidal", D, join="add", max_len=2)
    long = make_positions("sinusoidal", D, join="add", max_len=9)
    assert torch.equal(short(x), long(x))
    assert torch.equal(short(x, first=3), long(x, first=3))


def test_learned_positions_refuse_what_is_longer_than_their_table(x):
    learned = make_positions("learned", D, join="add", max_len=5)
    torch.testing.assert_close(learned(x, first=1), x + learned.table[1:5])
    with pytest.raises(ShapeError, match=r"know 5 places.*has 6 tokens.*model\.max_len"):
        learned(x, first=2)


def test_index_appends_t(x):
    index = make_positions("index", D, join="concat", max_len=9)
    out = index(x, first=2)
    assert index.d_out == out.shape[-1] == D + 1
    assert out[1, :, -1].tolist() == [2, 3, 4, 5]
    assert torch.equal(out[..., :D], x)
    with pytest.raises(ConfigError, match="no join 'add'"):
        make_positions("index", D, join="add", max_len=9)


def test_none_says_nothing_of_order(x):
    assert make_positions("none", D, join="add", max_len=9)(x) is x


@pytest.mark.parametrize("join", ["add", "concat"])
@pytest.mark.parametrize("name", POSITIONS)
def test_the_width_is_as_announced(x, name, join):
    if (name, join) != ("index", "add"):
        positions = make_positions(name, D, join=join, max_len=9)
        assert positions(x).shape == (2, T, positions.d_out)
