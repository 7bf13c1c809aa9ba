"""Texts that lie end to end: who may see whom."""

import torch

from regard.functional.packing import PackedSide, Packing


def side(lengths, n, tail):
    texts = torch.full((n,), tail, dtype=torch.int32)
    positions = torch.zeros(n, dtype=torch.int64)
    begin = 0
    for number, length in enumerate(lengths):
        texts[begin : begin + length] = number
        positions[begin : begin + length] = torch.arange(length)
        begin += length
    bounds = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    return PackedSide(positions, texts, bounds)


PACKING = Packing(
    side([2, 3], 7, -1), side([1, 2], 4, -2), torch.tensor([[0, 5, 0, 3]]), block=64, longest=3
)


def test_a_token_sees_its_own_text_and_a_tail_sees_nothing():
    assert PACKING.among_sources().dense().int().tolist() == [
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 1, 0, 0],
        [0, 0, 1, 1, 1, 0, 0],
        [0, 0, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    assert PACKING.across().dense().int().tolist() == [
        [1, 1, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 1, 0, 0],
        [0, 0, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]


def test_spans_name_queries_first_and_keys_second():
    assert PACKING.among_sources().spans.tolist() == [[0, 5, 0, 5]]
    assert PACKING.among_targets().spans.tolist() == [[0, 3, 0, 3]]
    assert PACKING.across().spans.tolist() == [[0, 3, 0, 5]]
