"""The tape of a memory-network against the equations of its paper, written out."""

import pytest
import torch
from lstmn import mixed, paper_score, plus, read, softmax, times
from oracles import PAIR_SCORES

from regard.inspection.edits import Ablate, Force, Temperature
from regard.models.memory_network import TapeAttention, TapeCell, empty_tape, unroll

B, T, D_WORD, D = 2, 6, 3, 4
EDITS = {
    "ablated": (Ablate("decoder.self", 0, 0), lambda scores: [0.0] * len(scores)),
    "forced": (
        Force("decoder.self", 0, 0, key=1),
        lambda scores: [float(i == 1) for i in range(len(scores))],
    ),
    "tempered": (Temperature(0.3), lambda scores: softmax([score / 0.3 for score in scores])),
}
"""What is done to a tape's attention, and how its scores become weights then."""


def made(score="additive", **options):
    attends = TapeAttention(D_WORD, D, score=score, max_len=20, **options).double()
    return TapeCell(D_WORD, D).double(), attends


@pytest.fixture
def x(rng):
    return torch.randn(B, T, D_WORD, generator=rng, dtype=torch.float64)


@pytest.fixture
def brought(rng):
    return torch.randn(B, T, D, generator=rng, dtype=torch.float64)


@pytest.fixture
def blank():
    return empty_tape(torch.zeros(B, D, dtype=torch.float64))


def both_tapes(tape):
    return tape.steps.v[:, 0].chunk(2, dim=-1)


def pair_score(attends):
    """Any score of the registry, with W x + last asking."""
    one, words = PAIR_SCORES[attends.score.name], attends.words.weight.tolist()
    parameters = {name: p.tolist() for name, p in attends.score.named_parameters()}
    return lambda x, last, h, i: one(plus(times(words, x), last), h, parameters, i)


@pytest.mark.parametrize("fused", [False, True])
def test_the_tapes_are_those_of_the_papers_equations(x, brought, blank, fused):
    cell, attends = made()
    extra = brought if fused else None
    hidden, memory = both_tapes(unroll(cell, attends, x, blank, brought=extra))
    for row in range(B):
        wanted_h, wanted_c, _ = read(
            x[row].tolist(),
            cell,
            paper_score(attends.score, attends.words),
            brought[row].tolist() if fused else None,
        )
        torch.testing.assert_close(hidden[row], torch.tensor(wanted_h, dtype=torch.float64))
        torch.testing.assert_close(memory[row], torch.tensor(wanted_c, dtype=torch.float64))


@pytest.mark.parametrize(
    ("score", "beta"),
    [*((score, "fixed") for score in PAIR_SCORES), ("content", "learned"), ("content", "emitted")],
)
def test_any_score_asks_with_the_word_and_what_was_recalled_last(x, blank, score, beta):
    cell, attends = made(score, beta=beta)
    tape = unroll(cell, attends, x, blank)
    hidden, _, looked = read(x[0].tolist(), cell, pair_score(attends))
    torch.testing.assert_close(tape.hidden[0], torch.tensor(hidden, dtype=torch.float64))
    recalled = torch.tensor(mixed(looked[-1], hidden[:-1], D), dtype=torch.float64)
    torch.testing.assert_close(tape.recalled[0], recalled)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("cut", range(T + 1))
def test_a_tape_goes_in_and_comes_out(x, brought, blank, cut, fused):
    cell, attends = made()
    parts = [brought[:, :cut], brought[:, cut:]] if fused else [None, None]
    full = unroll(cell, attends, x, blank, brought=brought if fused else None)
    first = unroll(cell, attends, x[:, :cut], blank, brought=parts[0])
    second = unroll(cell, attends, x[:, cut:], first, brought=parts[1])
    assert (blank.length, first.length, second.length) == (0, cut, T)
    for got, wanted in (
        (second.steps.k, full.steps.k),
        (second.steps.v, full.steps.v),
        (second.recalled, full.recalled),
    ):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("score", ["additive", "dot"])
@pytest.mark.parametrize("cut", [0, 1, 4])
def test_an_edit_changes_every_step_of_a_tape(x, blank, edit, score, cut):
    cell, attends = made(score)
    change, weigh = EDITS[edit]
    plain = unroll(cell, attends, x, blank)
    handle = attends.view.change.register_forward_hook(lambda _module, _given, seen: change(seen))
    tape = unroll(cell, attends, x[:, cut:], unroll(cell, attends, x[:, :cut], blank))
    handle.remove()
    for row in range(B):
        hidden, _, _ = read(x[row].tolist(), cell, pair_score(attends), weigh=weigh)
        torch.testing.assert_close(tape.hidden[row], torch.tensor(hidden, dtype=torch.float64))
    assert not torch.allclose(tape.hidden, plain.hidden)
    assert torch.equal(unroll(cell, attends, x, blank).hidden, plain.hidden)


def test_an_empty_tape_recalls_zeros(blank):
    _, attends = made()
    q = torch.ones(B, D, dtype=torch.float64)
    assert torch.equal(attends.recall(q, blank.steps), torch.zeros(B, 2 * D, dtype=torch.float64))


def test_each_step_is_projected_once(x, blank, monkeypatch):
    """Never the whole tape again, however long it is by then."""
    cell, attends = made()
    projected = []
    prepare = attends.score.prepare
    monkeypatch.setattr(
        attends.score, "prepare", lambda k: projected.append(k.shape[-2]) or prepare(k)
    )
    unroll(cell, attends, x, blank)
    assert projected == [1] * T


def test_rows_are_strangers_and_can_be_selected(x, blank):
    cell, attends = made()
    both = unroll(cell, attends, x, blank)
    rows = torch.tensor([1, 0, 1])
    chosen = unroll(cell, attends, x[rows, 3:], unroll(cell, attends, x[:, :3], blank).select(rows))
    torch.testing.assert_close(chosen.hidden, both.hidden[rows])
    torch.testing.assert_close(chosen.recalled, both.recalled[rows])


@pytest.mark.parametrize("score", PAIR_SCORES)
def test_gradients_are_those_of_small_differences(x, brought, blank, score):
    cell, attends = made(score)

    def outcome(words, extra):
        return unroll(cell, attends, words, blank, brought=extra).steps.v

    assert torch.autograd.gradcheck(
        outcome, (x[:, :4].clone().requires_grad_(), brought[:, :4].clone().requires_grad_())
    )
