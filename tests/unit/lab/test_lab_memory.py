import pytest
import torch

from regard import lab
from regard.lab.claims.memory import _Counting, _power


def test_plain_memory_grows_with_the_square_and_fused_with_the_length():
    result = lab.memory(longest=512)
    assert result.verdict
    plain, fused = (result.numbers[f"bytes: {form}, made"] for form in ("plain", "fused"))
    # By hand, in floats: scores, scaled scores and weights of J × J, and an output of J × 32.
    assert plain == [4 * (3 * n * n + 32 * n) for n in (64, 128, 256, 512)]
    assert fused[-1] < 4 * 512 * 512


def test_what_is_kept_for_the_gradient_follows_too():
    numbers = lab.memory(longest=512).numbers
    for n, plain, fused in zip(
        numbers["lengths"],
        numbers["bytes: plain, kept"],
        numbers["bytes: fused, kept"],
        strict=True,
    ):
        assert plain == 4 * n * n  # the weights
        assert fused == 4 * (32 * n + n)  # the output, and a number a query


def test_without_the_fused_kernel_memory_grows_with_the_square():
    result = lab.memory(fused=False, longest=512)
    assert not result.verdict
    assert result.numbers["bytes: fused, made"] == result.numbers["bytes: plain, made"]


def test_only_new_memory_is_counted():
    x = torch.zeros(3, 4)
    with _Counting() as counting:
        x.T.reshape(4, 3)[1:]  # views
        x.add_(1)  # in place
    assert counting.made == 0
    with _Counting() as counting:
        x @ x.T
    assert counting.made == 3 * 3 * 4


def test_the_power_is_the_exponent():
    assert _power([2, 4, 8], [5 * n**3 for n in (2, 4, 8)]) == pytest.approx(3)
