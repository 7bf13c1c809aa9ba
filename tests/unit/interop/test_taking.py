"""Reading foreign tensors by a table."""

import pytest
import torch

from regard.core.errors import CheckpointError
from regard.interop.naming import renamed, taken

ROWS = (("qkv", "q", "k", "v"), ("norm", "n"))
SHAPES = {"q": (4, 3), "k": (2, 3), "v": (2, 3), "n": (3,)}


def ours(rng):
    return {name: torch.randn(shape, generator=rng) for name, shape in SHAPES.items()}


def test_it_is_the_inverse_of_renaming(rng):
    weights = ours(rng)
    back = taken(ROWS, renamed(ROWS, weights, "theirs"), SHAPES, "a file")
    assert back.keys() == weights.keys()
    assert all(torch.equal(back[name], weights[name]) for name in weights)


def test_all_that_is_wrong_is_told_at_once(rng):
    tensors = {"qkv": torch.zeros(7, 3), "more": torch.zeros(1)}
    with pytest.raises(CheckpointError) as told:
        taken(ROWS, tensors, SHAPES, "a file")
    for part in ("a file", "missing norm", "unused more", "qkv is (7, 3)", "(8, 3)", "q, k, v"):
        assert part in str(told.value)


def test_what_is_passed_over_may_be_there(rng):
    tensors = renamed(ROWS, ours(rng), "theirs")
    tensors |= {"buffer": torch.zeros(1), "pooler.weight": torch.zeros(2)}
    taken(ROWS, tensors, SHAPES, "a file", passed_over=("buffer", "pooler.weight"))
    with pytest.raises(CheckpointError, match=r"unused pooler\.weight"):
        taken(ROWS, tensors, SHAPES, "a file", passed_over=("buffer", "pooler."))


def test_numbers_become_float32(rng):
    tensors = {name: x.half() for name, x in renamed(ROWS, ours(rng), "theirs").items()}
    assert {x.dtype for x in taken(ROWS, tensors, SHAPES, "a file").values()} == {torch.float32}


def test_the_settings_that_decide_a_shape_are_named(rng):
    tensors = renamed(ROWS, ours(rng), "theirs") | {"norm": torch.zeros(5)}
    with pytest.raises(CheckpointError, match=r"norm is \(5,\), .* \(3,\) \(n, by width=3\)"):
        taken(ROWS, tensors, SHAPES, "a file", deciding=lambda names: ["width=3"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (torch.zeros(3, dtype=torch.int8), r"kept as int8 \(supported: floating point\): norm"),
        (torch.zeros(3, dtype=torch.complex64), r"kept as complex64 .*: norm"),
        (torch.tensor([1.0, float("nan"), 0.0]), "with numbers that are not finite: norm"),
        (torch.tensor([1.0, float("-inf"), 0.0]).half(), "with numbers that are not finite: norm"),
    ],
)
def test_what_is_no_number_to_compute_with_is_refused(rng, changed, words):
    tensors = renamed(ROWS, ours(rng), "theirs") | {"norm": changed}
    with pytest.raises(CheckpointError, match=f"^a file does not fit its own description: {words}"):
        taken(ROWS, tensors, SHAPES, "a file")
