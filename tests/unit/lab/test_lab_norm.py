import pytest
import torch
from torch import nn

from regard import lab
from regard.lab.claims.norm import LONGEST, PAD, Normalised, _gather, _OverBatch, sentences


def test_batch_norm_is_moved_by_strangers_and_right_less_often_in_small_batches():
    result = lab.norm(batch=4, n_steps=200, seed=2)
    assert result.verdict
    assert result.numbers["LayerNorm moved by more padding"] == pytest.approx(0, abs=1e-12)
    assert result.numbers["BatchNorm moved by more padding"] > 0.2


def test_equal_lengths_and_larger_batches_turn_the_verdict():
    result = lab.norm(batch=16, unequal=False, n_steps=60)
    assert not result.verdict
    assert result.numbers["BatchNorm moved by more padding"] == 0
    assert "BatchNorm is right less often in training" in result.finding


def test_batch_norm_takes_mean_and_deviation_over_all_places_of_all_sentences():
    x = torch.randn(3, 5, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows = [place for sentence in x for place in sentence]
    mean = sum(rows) / 15
    deviation = (sum((row - mean) ** 2 for row in rows) / 15 + 1e-5).sqrt()
    torch.testing.assert_close(_OverBatch().double()(x), (x - mean) / deviation)


def test_only_the_norms_differ():
    kinds = {
        norm: {type(part) for part in Normalised(norm).modules()}
        for norm in ("LayerNorm", "BatchNorm")
    }
    assert kinds["LayerNorm"] - kinds["BatchNorm"] == {nn.LayerNorm}
    assert kinds["BatchNorm"] - kinds["LayerNorm"] == {_OverBatch, nn.BatchNorm1d}


def test_evaluation_uses_the_means_of_the_sentences_gathered_and_keeps_them():
    torch.manual_seed(0)
    model = Normalised("BatchNorm").double()
    ids = sentences(200, unequal=True)
    _gather(model, ids)
    first = next(part for part in model.modules() if isinstance(part, nn.BatchNorm1d))
    gathered = first.running_mean.clone()
    with torch.no_grad():
        torch.testing.assert_close(model.train()(ids), model.eval()(ids), atol=1e-2, rtol=0)
        model.train()(sentences(2, unequal=True))
    assert torch.equal(first.running_mean, gathered)
    assert gathered.abs().max() > 0.01


def test_sentences_are_padded_at_their_end_only_and_only_if_unequal():
    torch.manual_seed(0)
    real = sentences(300, unequal=True) != PAD
    lengths = real.sum(dim=1)
    assert torch.equal(real, torch.arange(LONGEST) < lengths[:, None])
    assert (lengths.min(), lengths.max()) == (2, LONGEST)
    assert (sentences(3, unequal=False) != PAD).all()


def test_the_same_seed_gives_the_same_numbers_and_leaves_the_generator_alone():
    first = lab.norm(batch=16, unequal=False, n_steps=1)
    torch.rand(1)
    before = torch.random.get_rng_state()
    assert lab.norm(batch=16, unequal=False, n_steps=1).numbers == first.numbers
    assert torch.equal(before, torch.random.get_rng_state())
