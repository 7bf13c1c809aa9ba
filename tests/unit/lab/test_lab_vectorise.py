import math

import pytest
import torch

from regard import lab
from regard.core.errors import ConfigError
from regard.kernels.attention import attention
from regard.lab.claims.vectorise import WORDS, X, by_loop, by_matrices


def test_loop_and_matrices_have_the_same_numbers():
    result = lab.vectorise()
    assert result.verdict
    assert result.numbers["scores, loop: sky"] == [1, 2, 2]
    e = math.e
    assert result.numbers["weights, matrices: the"] == pytest.approx(
        [e / (2 * e + 1), 1 / (2 * e + 1), e / (2 * e + 1)]
    )


def test_a_softmax_along_the_columns_is_another_thing():
    result = lab.vectorise(axis=0)
    assert not result.verdict
    assert result.numbers["largest difference of scores"] == 0
    assert result.numbers["largest difference of weights"] > 0.1


def test_both_are_the_attention_of_the_library():
    x = torch.tensor(X, dtype=torch.float64)
    outputs, weights = attention(x, x, x, score="dot", need_weights=True)
    for worked in (by_loop(), by_matrices(1)):
        assert torch.allclose(torch.tensor(worked.weights, dtype=torch.float64), weights)
        assert torch.allclose(torch.tensor(worked.outputs, dtype=torch.float64), outputs)


def test_the_tables_show_every_number():
    *turns, x, scores, weights, outputs = lab.vectorise().tables
    assert [table.caption for table in turns] == [f"The loop at “{word}”" for word in WORDS]
    assert turns[1].rows[1][1] == "0·0 + 2·2 = 4"
    assert scores.rows[1] == ["blue", "0", "4", "2"]
    assert (len(x.rows), len(weights.rows[0]), len(outputs.rows[0])) == (3, 4, 3)


def test_a_matrix_has_two_axes():
    with pytest.raises(ConfigError, match="axes 0 and 1, got 2"):
        lab.vectorise(axis=2)
