"""Heads at fixed offsets, and the convolution they are."""

import torch
import torch.nn.functional as F

from regard.lab.claims.convolution import convolution, filter_bank, offset_weights


def test_the_claim_holds_and_fails_where_scores_are_blunt():
    assert convolution(size=8).verdict
    blunt = convolution(size=8, sharpness=4.0)
    assert not blunt.verdict
    assert "no convolution yet" in blunt.finding
    differences = convolution(size=8).numbers["largest difference"]
    assert differences == sorted(differences, reverse=True)


def test_sharp_heads_look_at_one_neighbour_each_and_nowhere_outside():
    weights = offset_weights(4, 5, 100.0)
    assert torch.allclose(weights.amax(dim=-1), weights.sum(dim=-1))
    for head, (dy, dx) in enumerate((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)):
        for y in range(4):
            for x in range(5):
                row = weights[head, y * 5 + x]
                if 0 <= y + dy < 4 and 0 <= x + dx < 5:
                    assert row.argmax() == (y + dy) * 5 + x + dx
                else:
                    assert not row.any()


def test_any_filters_will_do():
    pixels, filters = torch.randn(1, 2, 6, 7).double(), torch.randn(5, 2, 3, 3).double()
    found = filter_bank(pixels, filters, 200.0)
    torch.testing.assert_close(found, F.conv2d(pixels, filters, padding=1))
