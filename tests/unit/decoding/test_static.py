"""The searches that stay on the device, driven by a model that only counts."""

from threading import Lock

import pytest
import torch

from regard.decoding import static_search
from regard.decoding.greedy import greedy
from regard.decoding.static_search import StaticGreedy, cache_needed, search_for, size_for
from regard.kernels.steps import best_tokens
from regard.text.specials import END_ID

N_VOCAB = 16


class CountingCache:
    """Row by row the next token is the last one plus 1, and the source says when to end."""

    def __init__(self, log, n_rows, n_steps, n_tokens, n_beams):
        self.log = log
        self.n_rows, self.n_steps, self.n_tokens, self.n_beams = n_rows, n_steps, n_tokens, n_beams
        self.ids = torch.zeros(n_rows, dtype=torch.int64)
        self.positions, self.owners = torch.zeros(2, n_rows, dtype=torch.int32)

    def read(self, source):
        self.ends = source[:, 0]  # after so many tokens

    def step(self, n_rows):
        self.log.append(n_rows)
        positions, owners = self.positions[:n_rows], self.owners[:n_rows]
        going = positions + 1 < self.ends[owners]
        token = torch.where(going, 4 + positions.long() % 8, END_ID)
        return torch.nn.functional.one_hot(token, N_VOCAB) * 20.0

    def best(self, n_rows, n, *, n_hidden):
        return best_tokens(self.step(n_rows), n, n_hidden=n_hidden)

    def move(self, rows):
        for part in (self.ids, self.positions, self.owners):
            part[: len(rows)] = part[rows]

    def changes(self):
        return (self.ids,)


class CountingModel:
    n_vocab, longest = N_VOCAB, None

    def __init__(self):
        self.lock, self.searches = Lock(), {}
        self.rows, self.caches = [], []

    def cache(self, *sizes):
        self.caches.append(sizes)
        return CountingCache(self.rows, *sizes)


def written(ends):
    return [tuple(4 + t % 8 for t in range(n - 1)) for n in ends]


def lengths(found):
    return [one.ids for one in found]


ENDS = [5, 2, 9, 9, 3, 5, 5, 12, 2]


def test_rows_leave_when_enough_have_ended():
    model = CountingModel()
    found = greedy(model, torch.tensor(ENDS)[:, None], limits=torch.full((9,), 20))
    assert lengths(found) == written(ENDS)
    # 9, of which 2 end at the second step, 1 at the third, 3 at the fifth, 2 at the ninth
    assert model.rows == [9, 9, 7, 6, 6, 3, 3, 3, 3, 1, 1, 1]


def test_moving_is_not_worth_it_for_one_in_twenty():
    model, ends = CountingModel(), [2, *[5] * 19]
    found = greedy(model, torch.tensor(ends)[:, None], limits=torch.full((20,), 9))
    assert lengths(found) == written(ends)
    assert model.rows == [20] * 5


def test_a_few_sizes_and_one_step_too_many_where_steps_are_captured(monkeypatch):
    monkeypatch.setattr(static_search, "are_captured", lambda _cache: True)
    model = CountingModel()
    found = greedy(model, torch.tensor(ENDS)[:, None], limits=torch.full((9,), 20))
    assert lengths(found) == written(ENDS)
    # three go on after the fifth step, which is known after the sixth; one after the ninth
    assert model.rows == [16] * 6 + [4] * 4 + [1] * 3


def test_no_step_is_made_beyond_the_last_limit(monkeypatch):
    for recorded in (False, True):
        monkeypatch.setattr(static_search, "are_captured", lambda _cache, value=recorded: value)
        model = CountingModel()
        found = greedy(model, torch.full((2, 1), 50), limits=torch.tensor([3, 7]))
        assert [(len(one.ids), one.finished) for one in found] == [(3, False), (7, False)]
        assert len(model.rows) == 7


def test_a_desk_is_used_again_and_grows(monkeypatch):
    monkeypatch.setattr(static_search, "are_captured", lambda _cache: True)
    model = CountingModel()
    search = search_for(model, ("greedy",), (4, 64, 2048), 1, StaticGreedy)
    assert search_for(model, ("greedy",), (4, 64, 1000), 1, StaticGreedy) is search
    assert search_for(model, ("another",), (4, 64, 1000), 1, StaticGreedy) is not search
    longer = search_for(model, ("greedy",), (1, 128, 2048), 1, StaticGreedy)
    assert model.caches[-1] == (4, 128, 2048, 1)  # as many rows as before
    assert model.searches["greedy",] is longer


def test_only_the_latest_desks_are_kept():
    model = CountingModel()
    for number in (*range(static_search.MOST_SEARCHES + 3), 4):
        search_for(model, (number,), (4, 64, 2048), 1, StaticGreedy)
    kept = [number for (number,) in model.searches]
    assert kept == [3, *range(5, static_search.MOST_SEARCHES + 3), 4]


def test_a_room_does_not_grow_beyond_reason(monkeypatch):
    monkeypatch.setattr(static_search, "are_captured", lambda _cache: True)
    model = CountingModel()
    search_for(model, ("greedy",), (2**14, 16, 64), 1, StaticGreedy)
    search_for(model, ("greedy",), (1, 128, 64), 1, StaticGreedy)
    assert model.caches == [(2**14, 16, 64, 1), (1, 128, 64, 1)]


def test_where_nothing_is_recorded_there_is_no_more_room_than_needed():
    model = CountingModel()
    search = search_for(model, ("greedy",), (4, 64, 2048), 1, StaticGreedy)
    assert search_for(model, ("greedy",), (1, 64, 1000), 1, StaticGreedy) is search
    search_for(model, ("greedy",), (1, 128, 1000), 1, StaticGreedy)
    assert model.caches[-1] == (1, 128, 1000, 1)


def test_sizes_and_rooms_are_rounded_up():
    assert [size_for(n) for n in (1, 2, 5, 17, 33, 512, 513)] == [1, 4, 16, 32, 64, 512, 1024]
    assert cache_needed(torch.zeros(3, 10), 4, 70) == (16, 128, 2048)
    assert cache_needed(torch.zeros(100, 50), 1, 3) == (128, 64, 8192)


def test_limits_are_checked_here_too():
    with pytest.raises(Exception, match="limit of 0"):
        greedy(CountingModel(), torch.ones(1, 1), limits=torch.tensor([0]))
