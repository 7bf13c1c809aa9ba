"""Keys and values that grow: copied as seldom as possible, and values nevertheless."""

import pytest
import torch

from regard.layers.key_values import SMALLEST, KeyValues

B, H, DK, DV = 3, 2, 4, 5


def some(rng, n, *, rows=B):
    k, v = (torch.randn(rows, H, n, d, generator=rng) for d in (DK, DV))
    return KeyValues(k, v)


def same(found, *parts):
    return all(
        torch.equal(getattr(found, x), torch.cat([getattr(part, x) for part in parts], dim=-2))
        for x in "kv"
    )


def test_extending_is_concatenating_however_long(rng):
    parts = [some(rng, n) for n in (2, 1, 1, 3, 1) * 8]
    grown = parts[0]
    for i, part in enumerate(parts[1:], start=2):
        grown = grown.extended(part)
        assert same(grown, *parts[:i])
    assert grown.k.shape[-2] > 2 * SMALLEST  # the room was outgrown more than once


def test_the_more_there_is_the_rarer_it_is_copied(rng):
    grown, moves = some(rng, 1), []
    for n in range(2, 200):
        before, grown = grown, grown.extended(some(rng, 1))
        if grown.k.data_ptr() != before.k.data_ptr():
            moves.append(n)
    assert moves == [2, SMALLEST + 1, 2 * SMALLEST + 3, 4 * SMALLEST + 7, 8 * SMALLEST + 15]


def test_branches_from_one_past_do_not_see_each_other(rng):
    first, a, b, c = (some(rng, 1) for _ in range(4))
    past = first.extended(a)
    left = past.extended(b)
    right = past.extended(c)  # the room after the past is taken
    assert same(left, first, a, b)
    assert same(right, first, a, c)
    assert same(past, first, a)
    assert left.k.data_ptr() == past.k.data_ptr() != right.k.data_ptr()
    assert same(left.extended(c), first, a, b, c)
    assert same(right.extended(b), first, a, c, b)


def test_rows_are_selected_and_go_their_own_ways(rng):
    past = some(rng, 2).extended(some(rng, 1))
    rows = torch.tensor([2, 0, 0, 1])
    chosen, new = past.select(rows), some(rng, 1, rows=4)
    grown = chosen.extended(new)
    assert torch.equal(grown.k, torch.cat((past.k[rows], new.k), dim=-2))
    assert torch.equal(grown.v, torch.cat((past.v[rows], new.v), dim=-2))


def test_selecting_all_rows_in_order_copies_nothing(rng):
    past = some(rng, 2)
    assert past.select(torch.arange(B)) is past
    assert past.select(torch.tensor([0, 2, 1])) is not past
    assert past.select(torch.arange(B - 1)).k.shape[0] == B - 1


@pytest.mark.parametrize("which", [0, 1])
def test_with_gradients_nothing_is_written_over(rng, which):
    parts = [some(rng, 1) for _ in range(4)]
    parts[which].k.requires_grad_()
    grown, squares = parts[0], []
    for part in parts[1:]:
        grown = grown.extended(part)
        squares.append(grown.k.square().sum())
    sum(squares).backward()  # would fail if a saved tensor had been changed
    times = 3 if which < 2 else 2
    torch.testing.assert_close(parts[which].k.grad, times * 2 * parts[which].k.detach())


def test_what_was_made_in_inference_can_be_extended_outside(rng):
    with torch.inference_mode():
        past = some(rng, 1).extended(some(rng, 1))
    new = some(rng, 1)
    assert same(past.extended(new), past, new)
