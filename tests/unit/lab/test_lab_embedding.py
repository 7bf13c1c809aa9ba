import torch
import torch.nn.functional as F

from regard import lab
from regard.lab.claims import embedding as module
from regard.lab.claims.embedding import _both_ways, operations

SMALL = {"n_words": 200, "n_read": 16}


def test_product_lookup_and_network_agree_on_words():
    result = lab.embedding(**SMALL)
    assert result.verdict
    assert result.numbers["rows with a gradient"] == result.numbers["different words read"]
    assert result.numbers["lookup: operations a word"] == 0
    assert result.numbers["product: operations a word"] == 2 * 200 * 64


def test_a_lookup_that_is_a_product_in_truth_is_no_less_work(monkeypatch):
    monkeypatch.setattr(
        module, "_lookup", lambda ids, matrix: F.one_hot(ids, len(matrix)).to(matrix) @ matrix
    )
    result = lab.embedding(**SMALL)
    assert not result.verdict
    assert result.finding.endswith("Not seen here: a lookup is less work than a product.")
    assert result.numbers["largest difference of outputs"] < 1e-9


def test_operations_are_counted_while_they_are_done():
    a, b = torch.ones(3, 5), torch.ones(5, 7)
    assert operations(lambda: a @ b) == 2 * 3 * 5 * 7


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
