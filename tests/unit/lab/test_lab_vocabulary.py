import pytest
import torch

from regard import lab
from regard.lab.claims.vocabulary import neighbour_means


def test_a_trained_output_layer_is_attention_over_words_that_have_neighbours():
    result = lab.vocabulary(steps=200)
    assert result.verdict
    assert result.numbers["largest difference of a weight"] < 1e-6
    plain, own, other = (
        result.numbers[f"loss, words read as {name}"]
        for name in ("the word", "its neighbours", "another's neighbours")
    )
    assert plain < own < other


def test_an_untrained_vocabulary_has_no_neighbours():
    result = lab.vocabulary(trained=False)
    assert not result.verdict
    assert result.numbers["largest difference of a weight"] < 1e-6  # this holds of any layer
    assert "Not seen here: a word can be told by its neighbours" in result.finding


def test_no_word_is_its_own_neighbour():
    words = torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0]])
    means, weights = neighbour_means(words)
    assert weights.diagonal().tolist() == [0, 0, 0]
    assert weights.sum(dim=1).tolist() == pytest.approx([1, 1, 1])
    # The third word looks the other way.
    assert torch.allclose(means[0], words[1] / words[1].norm(), atol=1e-3)
