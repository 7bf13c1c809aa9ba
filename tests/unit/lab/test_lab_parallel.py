import pytest
import torch

from regard import lab
from regard.lab.claims.parallel import (
    AttentiveWriter,
    Chain,
    RecurrentWriter,
    _train,
    _write,
    count,
)
from regard.models.decoder import LanguageModel
from regard.models.settings import DecoderConfig

SMALL = {"lengths": (4, 12), "n_rounds": 1}


def test_only_a_transformer_in_training_waits_no_longer_for_longer_texts():
    numbers = (result := lab.parallel(**SMALL)).numbers
    assert result.verdict
    assert len(set(numbers["chain: Transformer, training"])) == 1
    first, last = numbers["chain: RNN, training"]
    assert last > 2 * first


def test_trained_on_its_own_words_it_waits_as_well():
    result = lab.parallel(forced=False, **SMALL)
    assert not result.verdict
    assert "the Transformer trains in a chain of one length" in result.finding


def test_a_chain_counts_what_waits_and_not_what_could_be_done_at_once():
    x = torch.ones(3)
    with Chain() as both:
        a, b = x + 1, x * 2  # neither waits for the other
        c = a.view(3, 1) @ b.view(1, 3)  # a view is no work
        c.exp_()
    assert both.longest == 3


def test_what_reads_a_part_of_memory_waits_for_who_wrote_another_part_of_it():
    x = torch.zeros(4)
    with Chain() as chain:
        x[0] = torch.ones(()).exp().exp()  # ones, exp, exp, copy
        x[0].neg()
    assert chain.longest == 5


def test_a_backward_pass_is_counted_too():
    x = torch.ones(2, requires_grad=True)
    with Chain() as forward:
        loss = x.exp().sum()
    with Chain() as all_of_it:
        x.exp().sum().backward()
    assert loss.requires_grad
    assert all_of_it.longest > forward.longest


@pytest.fixture
def writers():
    torch.manual_seed(0)
    size = {"d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16, "dropout": 0.0}
    model = LanguageModel(DecoderConfig(n_vocab=9, **size))
    return RecurrentWriter(9, 8), AttentiveWriter(model)


def test_the_writers_step_by_step_and_at_once_give_the_same(writers):
    ids = torch.randint(1, 9, (2, 5))
    for writer in writers:
        state, found = writer.start(2), []
        for word in ids.split(1, dim=1):
            logits, state = writer.step(word, state)
            found.append(logits)
        torch.testing.assert_close(torch.cat(found, dim=1), writer(ids))


def test_writing_reads_what_was_written(writers):
    ids = torch.randint(1, 9, (2, 5))
    for writer in writers:
        written = _write(writer, ids)
        own = torch.cat((ids[:, :1], written.argmax(dim=-1)[:, :-1]), dim=1)
        torch.testing.assert_close(writer(own), written)


def test_a_step_of_training_costs_some_three_of_reading(writers):
    ids = torch.randint(1, 9, (2, 5))
    for writer in writers:
        read = count(writer, ids).flops
        trained = count(lambda ids, w=writer: _train(w, ids, forced=True), ids).flops
        assert 2 * read < trained <= 3 * read
