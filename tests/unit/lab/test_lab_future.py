import pytest
import torch

from regard import lab
from regard.lab.claims.future import ASKED, GIVEN, SOURCE, _ids, _sensitivity, _transformer


def test_the_mask_hides_all_that_lies_ahead_and_nothing_behind():
    result = lab.future()
    assert result.verdict
    assert result.numbers["decoder: largest gradient from a word ahead"] == 0
    assert result.numbers["decoder: smallest gradient from a word behind"] > 1e-4
    assert result.numbers["mask taken away: smallest gradient from a word ahead"] > 1e-4


def test_without_the_mask_the_decoder_sees_the_future():
    result = lab.future(masked=False, n_layers=1)
    assert not result.verdict
    assert result.numbers["decoder: largest gradient from a word ahead"] > 1e-4


def test_gradients_are_slopes():
    model = _transformer(1, seed=0)
    embedding = model.decoder.embedding

    def chance(nudge):
        handle = embedding.register_forward_hook(lambda _module, _given, out: out + nudge)
        with torch.no_grad():
            logits = model(_ids(SOURCE), _ids(GIVEN))
        handle.remove()
        return logits.log_softmax(dim=-1)[0, 2, _ids(ASKED)[0, 2]].item()

    slopes = []
    for d in range(32):  # of the prediction at 2 by the word at 1
        nudge = torch.zeros(1, 4, 32, dtype=torch.float64)
        nudge[0, 1, d] = 1e-5
        slopes.append((chance(nudge) - chance(-nudge)) / 2e-5)
    by_hand = torch.tensor(slopes).norm().item()
    assert _sensitivity(model, masked=True)[2, 1].item() == pytest.approx(by_hand, rel=1e-5)


def test_the_mask_is_back_afterwards():
    model = _transformer(2, seed=0)
    before = model(_ids(SOURCE), _ids(GIVEN))
    _sensitivity(model, masked=False)
    assert torch.equal(model(_ids(SOURCE), _ids(GIVEN)), before)
