"""The pieces of a decoding step, as written in torch and in Triton, against loops."""

import importlib.util
import math
import os

import pytest
import torch

from regard.kernels import steps
from regard.text.specials import END_ID

INTERPRETED = (
    importlib.util.find_spec("triton") is not None and os.environ.get("TRITON_INTERPRET") == "1"
)
WHO = [
    "torch",
    pytest.param("triton", marks=pytest.mark.skipif(not INTERPRETED, reason="see conftest.py")),
]
P, H, L, D, R = 6, 3, 40, 16, 5


def piece(who, name):
    """The function of that name, as torch or Triton does it."""
    if who == "torch":
        return getattr(steps, name)
    from regard.kernels.gpu import cached_attention, step_rows

    return getattr(cached_attention if hasattr(cached_attention, name) else step_rows, name)


def attended(q, keys, values, scale):
    """q (D,), lists of keys and values (D,) -> (D,), by loops."""
    if not keys:
        return [0.0] * len(q)
    raw = [math.exp(scale * sum(a * b for a, b in zip(q, k, strict=True))) for k in keys]
    return [
        sum(w * v[d] for w, v in zip(raw, values, strict=True)) / sum(raw) for d in range(len(q))
    ]


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("position", [0, 1, 31, 32, 39])
def test_each_row_sees_its_own_past_wherever_it_lies(rng, who, position):
    past = torch.randn(2, P, H, L, D, generator=rng)
    table = torch.randint(0, P, (P, L), generator=rng, dtype=torch.int32)
    table[:, position] = torch.arange(P)  # as ``embed`` has entered
    qkv = torch.randn(R, 3 * H * D, generator=rng)
    before = past.clone()
    positions = torch.full((R,), position, dtype=torch.int32)
    found = piece(who, "attend_past")(qkv, past, table, positions, 0.3)
    q, k, v = qkv.view(R, 3, H, D).unbind(dim=1)
    for r in range(R):
        for h in range(H):
            keys, values = (
                [part[table[r, s], h, s].tolist() for s in range(position)] + [new[r, h].tolist()]
                for part, new in zip(before, (k, v), strict=True)
            )
            wanted = attended(q[r, h].tolist(), keys, values, 0.3)
            torch.testing.assert_close(found.view(R, H, D)[r, h], torch.tensor(wanted))
    wanted = before.clone()
    wanted[0, :R, :, position], wanted[1, :R, :, position] = k, v
    assert torch.equal(past, wanted)  # its own slots, and nothing else


@pytest.mark.parametrize("who", WHO)
def test_rows_of_one_sentence_look_at_the_same_source(rng, who):
    memory = torch.randn(50, 4, 2, H, D, generator=rng)[:, 2]  # one layer of four
    owners = torch.tensor([0, 2, 1, 1, 0, 2], dtype=torch.int32)  # more rows than are in use
    begins = torch.tensor([0, 5, 10], dtype=torch.int32)
    lengths = torch.tensor([5, 0, 40], dtype=torch.int32)
    q = torch.randn(R, H * D, generator=rng)
    found = piece(who, "attend_source")(q, memory, owners, begins, lengths, 0.3).view(R, H, D)
    for r in range(R):
        begin, length = int(begins[owners[r]]), int(lengths[owners[r]])
        for h in range(H):
            keys, values = memory[begin : begin + length, :, h].unbind(dim=1)
            asked = q.view(R, H, D)[r, h].tolist()
            wanted = attended(asked, keys.tolist(), values.tolist(), 0.3)
            torch.testing.assert_close(found[r, h], torch.tensor(wanted))
    assert not found[2:4].any()  # a source of nothing


@pytest.mark.parametrize("who", WHO)
def test_tokens_are_read_at_their_positions_and_entered_into_the_table(rng, who):
    ids = torch.tensor([3, 0, 8, 8, 1])
    positions = torch.tensor([2, 0, 39, 5, 5], dtype=torch.int32)
    tokens, codes = torch.randn(9, 40, generator=rng), torch.randn(L, 40, generator=rng)
    table = torch.full((P, L), -1, dtype=torch.int32)
    x = piece(who, "embed")(ids, positions, table, tokens, codes, 2.5)
    for r in range(R):
        torch.testing.assert_close(x[r], 2.5 * tokens[ids[r]] + codes[positions[r]])
        assert table[r, positions[r]] == r
    assert (table >= 0).sum() == R


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("keep", [True, False])
def test_adding_and_normalising_in_one(rng, who, keep):
    x, added = torch.randn(2, R, 40, generator=rng)
    weight, bias = torch.randn(2, 40, generator=rng)
    how = {"keep": keep} if who == "torch" else {}
    args = (x, added, weight, bias, 1e-5) + (() if who == "torch" else (keep,))
    total, normed = piece(who, "add_norm")(*args, **how)
    wanted = torch.nn.functional.layer_norm(x + added, (40,), weight, bias)
    torch.testing.assert_close(normed, wanted)
    torch.testing.assert_close(total, x + added if keep else wanted)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("n", [1, 4, 8])
@pytest.mark.parametrize("n_vocab", [11, 150, 1030])
def test_the_best_tokens_are_the_first_when_sorted(rng, who, n, n_vocab, monkeypatch):
    logits = 2 * torch.randn(R, n_vocab, generator=rng)
    logits[0, 1], logits[1, n_vocab - 1], logits[2, 2] = 9.0, 9.0, 9.0
    if who == "triton":
        from regard.kernels.gpu import step_rows

        monkeypatch.setattr(step_rows, "CHUNK", 64)
        log_prob, ids = step_rows.best_tokens(logits, n, 2)
    else:
        monkeypatch.setattr(steps, "CHUNK", 16)
        log_prob, ids = steps.best_tokens(logits, n, n_hidden=2)
    for r in range(R):
        norm = math.log(sum(math.exp(x) for x in logits[r].tolist()))
        order = sorted(range(2, n_vocab), key=lambda i: -logits[r, i].item())[:n]
        assert ids[r].tolist() == order
        wanted = [logits[r, i].item() - norm for i in order]
        assert log_prob[r].tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("who", WHO)
def test_of_equally_probable_tokens_the_first_is_taken(who):
    logits = torch.zeros(1, 300)
    args = (logits, 1) if who == "torch" else (logits, 1, 2)
    _, ids = piece(who, "best_tokens")(*args, **({"n_hidden": 2} if who == "torch" else {}))
    assert ids.tolist() == [[2]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_narrow_logits_are_widened_and_wide_ones_kept(rng, dtype):
    logits = torch.randn(R, 50, generator=rng, dtype=torch.float64).to(dtype)
    log_prob, _ = steps.best_tokens(logits, 3, n_hidden=0)
    wanted = logits.double().log_softmax(dim=-1).topk(3).values
    assert log_prob.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(log_prob.double(), wanted, atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("who", WHO)
def test_what_is_noted_and_who_finishes_worked_by_hand(who):
    """Rows of sentences 3, 1, 0, 4: one goes on, one ends, one is cut off, one had finished."""
    best = steps.Best(
        torch.tensor([[-1.0], [-2.0], [-3.0], [-4.0]]), torch.tensor([[7], [2], [8], [9]])
    )
    ids, positions = torch.full((4,), 5), torch.full((4,), 6, dtype=torch.int32)
    owners = torch.tensor([3, 1, 0, 4], dtype=torch.int32)
    finished = torch.tensor([0, 0, 0, 1], dtype=torch.int8)
    limits = torch.tensor([7, 10, 10, 8, 10], dtype=torch.int32)
    written, totals = torch.zeros(5, 10, dtype=torch.int64), torch.full((5,), -10.0)
    changing = (ids, positions, owners, finished, limits, written, totals)
    if who == "torch":
        steps.note(best, *changing, end=END_ID)
    else:
        piece(who, "note")(best.ids, best.log_prob, *changing, END_ID)
    assert finished.tolist() == [0, 1, 1, 1]
    assert ids.tolist() == [7, END_ID, 8, 5]
    assert positions.tolist() == [7] * 4  # also of those who have finished
    assert written[:, 6].tolist() == [8, END_ID, 0, 7, 0]
    assert written.count_nonzero() == 3
    assert totals.tolist() == [-13.0, -12.0, -10.0, -11.0, -10.0]


@pytest.mark.parametrize("who", WHO)
def test_no_position_lies_beyond_the_room(who):
    best = steps.Best(torch.zeros(1, 1), torch.full((1, 1), 7))
    positions, zero = torch.tensor([9], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    changing = (
        torch.zeros(1, dtype=torch.int64), positions, zero, torch.ones(1, dtype=torch.int8),
        zero, torch.zeros(1, 10, dtype=torch.int64), torch.zeros(1),
    )  # fmt: skip
    if who == "torch":
        steps.note(best, *changing, end=END_ID)
    else:
        piece(who, "note")(best.ids, best.log_prob, *changing, END_ID)
    assert positions.tolist() == [9]


@pytest.mark.parametrize("n_vocab", [5, 128, 300, 1030])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_top_is_topk(rng, n, n_vocab):
    x = torch.randn(R, n_vocab, generator=rng)
    values, ids = steps.top(x, n)
    wanted = x.topk(n)
    assert torch.equal(values, wanted.values)
    assert torch.equal(ids, wanted.indices)
