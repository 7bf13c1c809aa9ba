"""A beam search's step in place: the Triton kernel, run by its interpreter, and what it owes."""

import importlib.util
import os
from itertools import chain, product
from types import SimpleNamespace

import pytest
import torch
from tiny import tiny_config

from regard.core.errors import CheckpointError
from regard.decoding import static_search
from regard.decoding.beam import beam_search
from regard.decoding.hypothesis import penalty
from regard.decoding.protocol import StaticCache
from regard.decoding.search import BeamSettings, Search, read
from regard.decoding.static_search import advance_in_place
from regard.fast.transformer_cpu import CpuTransformer
from regard.fast.transformer_gpu import GpuTransformer
from regard.kernels.steps import Best
from regard.models.transformer import Transformer
from regard.text.specials import BEGIN_ID, END_ID

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton and its interpreter, which is on where there is no GPU (conftest.py)",
)
NEVER = -float("inf")
LIMITS = torch.tensor([9, 1, 5, 9, 3])
WAITING = 3
"""A sentence that had ended before."""


class NumberedCache(StaticCache):
    """Every slot of the past has its number. There is one row more than is in use."""

    n_tokens, owners = 0, torch.empty(0)

    def __init__(self, n_rows, n_beams, n_steps):
        self.n_rows, self.n_beams, self.n_steps = n_rows, n_beams, n_steps
        self.ids = torch.full((n_rows,), BEGIN_ID)
        self.positions = torch.zeros(n_rows, dtype=torch.int32)
        self.table = torch.full((n_rows, n_steps), -1, dtype=torch.int32)

    def reorder(self, parents):
        before = self.table.clone()
        for b, k in product(*map(range, parents.shape)):
            self.table[b * self.n_beams + k] = before[b * self.n_beams + parents[b, k]]


class Play:
    """Sentences that are searched."""

    def __init__(self, n_beams, n_best, alpha, limits, n_steps=9, stop="exact"):
        B = len(limits)
        self.search = Search.begin(
            limits.clone(), BeamSettings(n_beams, n_best, alpha, stop=stop), n_steps + 1
        )
        self.penalties = penalty(torch.arange(n_steps + 2.0), alpha)
        self.ended = torch.zeros(B, dtype=torch.int8)
        self.cache = NumberedCache(B * n_beams + 1, n_beams, n_steps)

    def step(self, best):
        rows, position = torch.arange(len(best.ids)), int(self.cache.positions[0])
        self.cache.table[rows, position] = (100 * position + rows).int()
        advance_in_place(self.search, best, self.cache, self.ended, self.penalties)

    def seen(self):
        """All that counts: nobody asks what is in hypotheses that are impossible."""
        search, cache, (B, K) = self.search, self.cache, self.search.open.log_prob.shape
        real = search.open.log_prob > NEVER
        going = real & (self.ended == 0)[:, None]
        done = search.finished.log_prob > NEVER
        written = cache.table[: B * K, : int(search.n_written.max())].view(B, K, -1)
        return {
            "n_written": search.n_written,
            "ended": self.ended,
            "log-probabilities": search.open.log_prob,
            "ids": search.open.ids[real],
            "finished": search.finished.log_prob,
            "their scores": search.finished.score,
            "their ids": search.finished.ids[done],
            "last": cache.ids[: B * K].view(B, K)[real],
            "pasts": written[going],
            "positions": cache.positions[: B * K],
            "not in use": torch.stack((cache.ids[-1], cache.positions[-1], cache.table[-1].sum())),
        }


def random_best(rng, n_rows, n, n_vocab=40):
    """Different tokens, here and there the end token, here and there fewer than n possible."""
    ids = torch.stack([3 + torch.randperm(n_vocab, generator=rng)[:n] for _ in range(n_rows)])
    ends = torch.rand(n_rows, generator=rng) < 0.4
    ids[ends, torch.randint(0, n, (n_rows,), generator=rng)[ends]] = END_ID
    log_prob = -3 * torch.rand(n_rows, n, generator=rng).sort(dim=1).values - 0.1
    few = torch.rand(n_rows, generator=rng) < 0.2
    log_prob[few, n // 2 :] = NEVER
    return Best(log_prob, ids)


@pytest.fixture
def as_if_on_gpu(monkeypatch):
    """Says whether kernels are run; and how often one was."""
    from regard.kernels.gpu import beam_search

    calls, kernel = SimpleNamespace(n=0, wanted=True), beam_search.go_on

    def counted(*args, **how):
        calls.n += 1
        kernel(*args, **how)

    monkeypatch.setattr(static_search, "runs_kernels", lambda _cache: calls.wanted)
    monkeypatch.setattr(beam_search, "go_on", counted)
    monkeypatch.setattr(beam_search, "TILE", 16)  # several stretches, the last one not full
    return calls


def played(calls, rng, n_beams, n_best, alpha, n_steps, stop="exact"):
    """Both ways step by step; the numbers of sentences that had ended and hypotheses finished."""
    plain, quick = (Play(n_beams, n_best, alpha, LIMITS, stop=stop) for _ in range(2))
    plain.ended[WAITING] = quick.ended[WAITING] = 1
    n_ended, n_done, calls.n = set(), set(), 0
    for _ in range(n_steps):
        best = random_best(rng, len(LIMITS) * n_beams, 2 * n_beams)
        calls.wanted = False
        plain.step(best)
        calls.wanted = True
        quick.step(best)
        wanted, found = plain.seen(), quick.seen()
        for name, value in wanted.items():
            assert torch.equal(found[name], value), name
        n_ended.add(int(plain.ended.sum()))
        n_done.add(len(wanted["their ids"]))
    assert calls.n == n_steps
    assert quick.search.n_written[WAITING] == 0
    return n_ended, n_done


@pytest.mark.parametrize(
    ("n_beams", "n_best", "alpha"),
    [(1, 1, 0.6), (2, 1, 0.0), (3, 2, 1.0), (4, 1, 0.6), (4, 4, 0.6), (5, 3, 0.0), (8, 5, 1.0)],
)
@pytest.mark.parametrize("stop", ["exact", "first"])
def test_the_kernel_goes_on_as_the_search_does(rng, as_if_on_gpu, n_beams, n_best, alpha, stop):
    seen = [played(as_if_on_gpu, rng, n_beams, n_best, alpha, 9, stop) for _ in range(2)]
    n_ended, n_done = (set.union(*both) for both in zip(*seen, strict=True))
    assert n_ended >= {2, 5}  # one at its limit of 1, at last all
    assert len(n_done) > 1


def test_the_most_beams_that_it_can_do(rng, as_if_on_gpu):
    played(as_if_on_gpu, rng, static_search.MOST_BEAMS, static_search.MOST_BEAMS, 0.6, n_steps=3)


def test_of_equals_the_first_and_an_end_worked_by_hand(as_if_on_gpu):
    play = Play(2, 2, 0.0, torch.tensor([9]))
    first = torch.tensor([[-1.0, -1.0, -1.0, -1.0], [0.0, 0.0, 0.0, 0.0]])
    play.step(Best(first, torch.tensor([[7, 5, END_ID, 6], [9, 8, 4, END_ID]])))
    assert play.search.open.ids[0, :, :2].tolist() == [[BEGIN_ID, 7], [BEGIN_ID, 5]]
    assert play.search.finished.log_prob.tolist() == [[NEVER, NEVER]]  # it was but the third
    second = torch.tensor([[-2.0, -2.5, -4.0, -4.0], [-1.0, -3.0, -4.0, -4.0]])
    play.step(Best(second, torch.tensor([[END_ID, 8, 5, 6], [4, 9, END_ID, 8]])))
    assert play.search.open.ids[0, :, :3].tolist() == [[BEGIN_ID, 5, 4], [BEGIN_ID, 7, 8]]
    assert play.search.open.log_prob.tolist() == [[-2.0, -3.5]]
    assert play.search.finished.ids[0, 0, :4].tolist() == [BEGIN_ID, 7, END_ID, END_ID]
    assert play.search.finished.log_prob.tolist() == [[-3.0, NEVER]]
    assert play.cache.ids.tolist() == [4, 8, BEGIN_ID]
    assert play.cache.table[:2, :2].tolist() == [[0, 101], [0, 100]]
    assert play.ended.tolist() == [0]
    assert as_if_on_gpu.n == 2


def test_what_is_not_a_number_is_still_found_out(rng, as_if_on_gpu):
    play = Play(2, 1, 0.6, torch.tensor([3]))
    for _ in range(3):
        best = random_best(rng, 2, 4)
        best.log_prob[1] = float("nan")  # the other row could still fill all places
        play.step(best)
    assert play.ended.tolist() == [1]
    assert as_if_on_gpu.n == 3
    with pytest.raises(CheckpointError, match="logits are not numbers"):
        read(play.search)


@pytest.mark.parametrize(("n_beams", "n_calls"), [(16, 1), (17, 0)])
def test_more_beams_than_it_can_do_go_the_plain_way(rng, as_if_on_gpu, n_beams, n_calls):
    play = Play(n_beams, 1, 0.6, torch.tensor([4]))
    play.step(random_best(rng, n_beams, 2 * n_beams))
    assert play.search.n_written.tolist() == [1]
    assert as_if_on_gpu.n == n_calls


def ending_model(n_vocab):
    torch.manual_seed(3)
    model = Transformer(tiny_config(max_len=48, n_source_vocab=n_vocab, n_target_vocab=n_vocab))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("to_out.weight", "outer.weight")):
                weight *= 3  # else tokens repeat themselves
    return model.eval()


@pytest.mark.parametrize("stop", ["exact", "first"])
@pytest.mark.parametrize(
    ("form", "recorded"),
    [(GpuTransformer, True), (GpuTransformer, False), (CpuTransformer, False)],
)
def test_the_whole_search_finds_the_same(rng, monkeypatch, as_if_on_gpu, form, recorded, stop):
    monkeypatch.setattr(static_search, "are_captured", lambda _cache: recorded)
    model = ending_model(13)
    ready = form(model, torch.float32)
    for n in (5, 2):  # the second time in the same cache
        source = torch.randint(4, 13, (n, 6), generator=rng)
        limits = torch.randint(2, 14, (n,), generator=rng)
        how = {"limits": limits, "n_beams": 4, "n_best": 2, "length_penalty": 0.8, "stop": stop}
        found, wanted = beam_search(ready, source, **how), beam_search(model, source, **how)
        for mine, theirs in zip(*map(chain.from_iterable, (found, wanted)), strict=True):
            assert (mine.ids, mine.finished) == (theirs.ids, theirs.finished)
            assert mine.score == pytest.approx(theirs.score, abs=1e-4)
    assert (as_if_on_gpu.n > 0) == (form is GpuTransformer)
