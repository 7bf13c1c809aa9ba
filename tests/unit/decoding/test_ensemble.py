"""Ensembles: the mean of the members' probabilities, inside every search.

Oracles take the mean of plain forwards in Python; they share nothing with the ensemble.
"""

import math
from itertools import product

import pytest
import torch
from systems import system

from regard.decoding.beam import beam_search
from regard.decoding.ensemble import Ensemble, joined_source, members_of
from regard.decoding.greedy import greedy
from regard.decoding.sampling import Sampler, noise_for, sample
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

N_VOCAB, LIMIT = 6, 3
SOURCE = torch.tensor([[4, 5, 3, 2], [5, 2, 0, 0]])


def member(preset, seed=1, **changes):
    model = system(preset, n_vocab=N_VOCAB, **changes).double()
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.5 * torch.randn_like(weight)  # else all tokens are alike
    return model


@pytest.fixture
def mixed():
    """An RNN, a Transformer, and a network of LSTMs with memory."""
    return Ensemble([member("luong2015"), member("transformer", 2), member("cheng2016", 3)])


def log_prob(members, row, written, sources=None):
    """Of a target (ids, end token included), by plain forwards of each member."""
    read = [SOURCE[row][SOURCE[row] != PAD_ID]] * len(members) if sources is None else sources[row]
    target = torch.tensor([[BEGIN_ID, *written[:-1]]])
    pairs = zip(members, read, strict=True)
    probs = [one(ids.unsqueeze(0), target)[0].softmax(dim=-1) for one, ids in pairs]
    each = [math.fsum(p[t, token].item() for p in probs) for t, token in enumerate(written)]
    return sum(math.log(total / len(members)) for total in each)


def all_targets():
    """Every target of at most three tokens: those that end, and those that the limit cuts off."""
    words = [i for i in range(N_VOCAB) if i not in (PAD_ID, BEGIN_ID, END_ID)]
    for n in range(LIMIT):
        yield from ((*ids, END_ID) for ids in product(words, repeat=n))
    yield from product(words, repeat=LIMIT)


@torch.no_grad()
@pytest.mark.parametrize("preset", ["transformer", "bahdanau2015", "gnmt2016"])
@pytest.mark.parametrize("n", [1, 2])
def test_one_model_or_two_equal_ones_are_the_model(preset, n):
    model = member(preset)
    ensemble = Ensemble([model] * n)
    target = torch.tensor([[1, 4, 5, 3], [1, 3, 2, 0]])
    wanted = model(SOURCE, target).log_softmax(dim=-1)
    torch.testing.assert_close(ensemble(SOURCE, target), wanted, rtol=0, atol=1e-12)


@torch.no_grad()
def test_probabilities_are_averaged_not_their_logarithms(mixed):
    target = torch.tensor([[1, 4, 5], [1, 3, 2]])
    probs = [one(SOURCE, target).softmax(dim=-1) for one in mixed.members]
    wanted = (probs[0] + probs[1] + probs[2]) / 3
    torch.testing.assert_close(mixed(SOURCE, target).exp(), wanted, rtol=0, atol=1e-12)


@torch.no_grad()
def test_stepping_equals_forward_with_rows_in_another_order(mixed):
    target = torch.tensor([[1, 4, 5, 3], [1, 3, 5, 4]])
    wanted = mixed(SOURCE, target)
    memory = mixed.encode(SOURCE)
    state = mixed.start(memory)
    for t in range(2):
        logits, state = mixed.step(target[:, t], memory, state)
        torch.testing.assert_close(logits, wanted[:, t], rtol=0, atol=1e-12)
    rows = torch.tensor([1, 0, 1])
    memory, state = memory.select(rows), state.select(rows)
    for t in range(2, 4):
        logits, state = mixed.step(target[rows, t], memory, state)
        torch.testing.assert_close(logits, wanted[rows, t], rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_wide_beam_finds_what_brute_force_finds(mixed):
    limits = torch.tensor([LIMIT, LIMIT])
    found = beam_search(mixed, SOURCE, limits=limits, n_beams=60, n_best=3, length_penalty=0.0)
    for row, best in enumerate(found):
        scores = {ids: log_prob(mixed.members, row, ids) for ids in all_targets()}
        ended = sorted((ids for ids in scores if ids[-1] == END_ID), key=scores.get, reverse=True)
        assert [(*one.ids, END_ID) for one in best] == ended[:3]
        assert [one.log_prob for one in best] == pytest.approx([scores[ids] for ids in ended[:3]])


@torch.no_grad()
def test_scores_of_hypotheses_are_those_of_forward_in_every_search(mixed):
    limits = torch.tensor([7, 5])
    noise = noise_for([7, 7], torch.Generator().manual_seed(3))
    found = [
        *greedy(mixed, SOURCE, limits=limits),
        *sample(mixed, SOURCE, limits=limits, sampler=Sampler(noise)),
        *(one for (one,) in beam_search(mixed, SOURCE, limits=limits, n_beams=4)),
        *(
            one
            for (one,) in beam_search(
                mixed, SOURCE, limits=limits, n_beams=3, prefixes=[[5], [3, 4]]
            )
        ),
    ]
    assert len({one.ids for one in found}) > 3
    for i, one in enumerate(found):
        written = (*one.ids, END_ID) if one.finished else one.ids
        assert one.log_prob == pytest.approx(log_prob(mixed.members, i % 2, written), abs=1e-9)


@torch.no_grad()
def test_members_of_different_source_vocabularies_read_each_its_own_ids():
    """Sources of other lengths in each member, the longer one in another row."""
    sizes = {"luong2015": 6, "transformer": 9, "gnmt2016": 14}
    members = [member(name, n_source_vocab=size) for name, size in sizes.items()]
    ensemble = Ensemble(members, source_starts=(0, 6, 15))
    texts = [[[4, 5, 3], [8], [13, 4]], [[5], [7, 3, 8, 4], [4, 12, 5]]]
    joined = [torch.tensor([*joined_source(each, (0, 6, 15)), END_ID]) for each in texts]
    source = torch.nn.utils.rnn.pad_sequence(joined, batch_first=True, padding_value=PAD_ID)
    alone = [[torch.tensor([*ids, END_ID]) for ids in each] for each in texts]
    target = torch.tensor([[1, 4, 5], [1, 3, 4]])
    logits = ensemble(source, target)
    limits = torch.tensor([LIMIT, LIMIT])
    found = beam_search(ensemble, source, limits=limits, n_beams=60, n_best=3, length_penalty=0.0)
    for row, best in enumerate(found):
        for token in range(N_VOCAB):
            written = (*target[row, 1:].tolist(), token)
            steps = zip(range(3), written, strict=True)
            said = sum(logits[row, t, one].item() for t, one in steps)
            assert said == pytest.approx(log_prob(members, row, written, alone), abs=1e-12)
        scores = {ids: log_prob(members, row, ids, alone) for ids in all_targets()}
        ended = sorted((ids for ids in scores if ids[-1] == END_ID), key=scores.get, reverse=True)
        assert [(*one.ids, END_ID) for one in best] == ended[:3]
        assert [one.log_prob for one in best] == pytest.approx([scores[ids] for ids in ended[:3]])


def test_members_are_told_apart_from_a_model(mixed):
    assert members_of(mixed) == list(mixed.members)
    assert members_of(mixed.members[0]) == [mixed.members[0]]
