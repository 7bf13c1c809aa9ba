import torch
import torch.nn.functional as F

from regard import lab
from regard.lab.claims.embedding import _both_ways

SMALL = {"n_words": 200, "n_read": 16}


def test_product_lookup_and_network_agree_on_words():
    result = lab.embedding(**SMALL)
    assert result.verdict
    assert result.numbers["rows with a gradient"] == result.numbers["different words read"]
    assert result.numbers["lookup: operations a word"] == 0
    assert result.numbers["product: operations a word"] == 2 * 200 * 64


def test_inputs_that_are_no_words_have_no_table():
    result = lab.embedding(one_hot=False, **SMALL)
    assert not result.verdict
    assert result.numbers["largest difference of outputs"] > 0.1
    assert result.numbers["largest difference of network"] > 0.01


def test_gradients_of_a_word_read_twice_add_up():
    ids = torch.tensor([2, 0, 2])
    matrix = torch.zeros(4, 3, dtype=torch.float64)  # the slope of sin is 1 there
    for _, gradient in _both_ways(F.one_hot(ids, 4).double(), ids, matrix):
        assert gradient[:, 0].tolist() == [1, 0, 2, 0]
