import pytest
import torch

from regard.bench import contest
from regard.bench.contest import Contender, Plan, Work, Workload, compete, grow, why
from regard.bench.measures import Footprint, seconds

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
TASK = Workload(what="digging", unit="holes/s")


class Digger:
    """Digs two holes a run; notes when; fails at its n-th run."""

    def __init__(self, name, log, fails_at=None):
        self.name, self.log, self.left = name, log, fails_at

    def run(self):
        self.log.append(self.name)
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise RuntimeError("the spade broke\nat the handle")
        return 2.0

    def contender(self, **work):
        return Contender(self.name, "", "fp32", lambda: Work(self.run, **work))


@pytest.fixture
def one_second(monkeypatch):
    """Every timing takes a second, however much is done in it."""

    def timed(work, _device, *, times=1):
        for _ in range(times):
            work()
        return 1.0

    monkeypatch.setattr(contest, "seconds", timed)


def test_rounds_are_in_turn(one_second):
    log = []
    diggers = [Digger(name, log).contender() for name in "abc"]
    compete(TASK, diggers, Plan(device=CPU, rounds=2))
    assert "".join(log[-6:]) == "abcabc"


def test_value_is_the_median_of_what_was_done_a_second_and_spread_is_least_and_most(monkeypatch):
    times = iter([1.0, 1.0, 2.0, 4.0])  # to warm up, then three rounds

    def timed(work, _device, *, times_=times, times=1):
        work()
        return next(times_)

    monkeypatch.setattr(contest, "seconds", timed)
    plan = Plan(device=CPU, rounds=3, matrix_rates={"fp32": 10.0})
    task = Workload(what="digging", unit="holes/s", flops=5.0)
    (row,) = compete(task, [Digger("a", []).contender(n_parameters=7)], plan)
    assert (row.value, row.low, row.high) == (1.0, 0.5, 2.0)
    assert row.share == 1.0 * 5.0 / 10.0
    assert row.parameters == 7


def test_short_work_is_repeated_within_a_round_and_all_of_it_counts(monkeypatch):
    log = []

    def timed(work, _device, *, times=1):
        log.append(times)
        for _ in range(times):
            work()
        return times * 0.05

    monkeypatch.setattr(contest, "seconds", timed)
    (row,) = compete(TASK, [Digger("a", []).contender()], Plan(device=CPU, rounds=1))
    assert log == [1, 4]  # 0.2 s at least
    assert row.value == pytest.approx(2.0 / 0.05)


@pytest.mark.parametrize("fails_at", [0, 3])  # at once; in the second round
def test_who_fails_is_a_row_with_the_reason_and_the_others_go_on(one_second, fails_at):
    diggers = [Digger("a", [], fails_at).contender(), Digger("b", []).contender()]
    bad, good = compete(TASK, diggers, Plan(device=CPU, rounds=3))
    assert bad.value is None
    assert bad.error == "RuntimeError: the spade broke"
    assert good.value == 2.0
    assert good.error is None


def test_too_little_memory_is_said_in_plain_words():
    assert why(torch.OutOfMemoryError("CUDA out of memory. Tried to …")) == "out of memory"
    assert why(RuntimeError("DefaultCPUAllocator: can't allocate memory: …")) == "out of memory"


def test_a_work_s_own_flops_go_before_the_task_s(one_second):
    plan = Plan(device=CPU, rounds=1, matrix_rates={"fp32": 10.0})
    task = Workload(what="digging", unit="holes/s", flops=5.0)
    (row,) = compete(task, [Digger("a", []).contender(flops=1.0)], plan)
    assert row.share == 2.0 * 1.0 / 10.0


def test_the_clock_counts_all_runs():
    calls = []
    assert seconds(lambda: calls.append(1), CPU, times=3) > 0
    assert len(calls) == 3


def test_the_footprint_sees_the_largest_growth_not_the_last():
    watch = Footprint(CPU)
    torch.ones(50_000_000).sum()  # 200 MB, gone at once
    if watch.bytes is None:
        pytest.skip("this system does not tell a process its highest mark")
    assert 150e6 < watch.bytes < 400e6


def points(diggers, sizes=(10, 20, 40)):
    for size in sizes:
        yield Workload(what=f"holes, {size}", unit="holes/s", by="size", at=size), diggers


def test_who_fails_stays_away_from_larger_work(one_second):
    log = []
    diggers = [Digger("a", log, 3).contender(), Digger("b", log).contender()]
    rows = grow(points(diggers), Plan(device=CPU, rounds=1))
    assert [row.who for row in rows] == list("ababab")
    failed = [row.error for row in rows if row.who == "a"]
    assert failed == [
        None,
        "RuntimeError: the spade broke",
        "left out: RuntimeError: the spade broke",
    ]
    assert all(row.error is None for row in rows if row.who == "b")


def test_work_that_would_take_too_long_is_not_begun(one_second, monkeypatch):
    monkeypatch.setattr(contest, "MOST_SECONDS", 3.0)
    rows = grow(points([Digger("a", []).contender()]), Plan(device=CPU, rounds=1))
    assert [row.error for row in rows] == [None, *["left out: 1 s at 10 already"] * 2]


def test_work_that_would_take_too_much_memory_is_not_begun(one_second, monkeypatch):
    monkeypatch.setattr(contest, "_memory", lambda _device: 0)
    monkeypatch.setattr(Footprint, "bytes", 2**31)
    rows = grow(points([Digger("a", []).contender()]), Plan(device=CPU, rounds=1))
    assert rows[1].error == "left out: 2.0 GiB at 10 already"
