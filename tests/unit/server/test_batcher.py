"""One thread, one queue: what waits together is translated together."""

import asyncio
import threading

import pytest

from regard.decoding.wanted import UnwantedError, check_wanted
from regard.server.batcher import CLIENT, EngineError, Worker
from regard.server.errors import BusyError
from regard.server.limits import Limits

PATIENT = Limits(window=0.5, batch=4)
"""Waits long enough for every job of a test, unless the batch is full."""


class Shouting:
    """Translates into capitals, and remembers what came together."""

    def __init__(self):
        self.batches = []

    def __call__(self, texts):
        self.batches.append(list(texts))
        if "bad" in texts:
            raise ValueError("bad")
        return [text.upper() for text in texts]


@pytest.fixture
def shouting():
    return Shouting()


def run_all(worker, *jobs):
    """All jobs at once; -> their results or errors, in order."""

    async def gather():
        return await asyncio.gather(*(job() for job in jobs), return_exceptions=True)

    try:
        return asyncio.run(gather())
    finally:
        worker.close()


def asking(worker, *texts):
    return lambda: worker.translate(texts)


def test_what_arrives_together_is_one_batch_and_comes_back_in_order(shouting):
    worker = Worker(shouting, limits=PATIENT)
    found = run_all(worker, asking(worker, "a"), asking(worker, "b", "c"), asking(worker, "d"))
    assert found == [["A"], ["B", "C"], ["D"]]
    assert shouting.batches == [["a", "b", "c", "d"]]


def test_without_batching_each_request_is_alone(shouting):
    worker = Worker(shouting, limits=PATIENT, batching=False)
    found = run_all(worker, asking(worker, "a"), asking(worker, "b", "c"))
    assert found == [["A"], ["B", "C"]]
    assert shouting.batches == [["a"], ["b", "c"]]


def test_a_batch_is_bounded_and_what_does_not_fit_comes_next(shouting):
    worker, all_are_there = Worker(shouting, limits=PATIENT), threading.Event()

    async def tell():
        all_are_there.set()

    asked = [asking(worker, *some) for some in ("ab", "cde", "fg", "h")]
    run_all(worker, lambda: worker.call(all_are_there.wait), *asked, tell)
    assert shouting.batches == [["a", "b", "f", "g"], ["c", "d", "e", "h"]]


def test_a_full_batch_waits_for_nobody(shouting):
    """The window would outlast the test."""
    worker = Worker(shouting, limits=Limits(window=1000.0, batch=4))
    found = run_all(worker, asking(worker, *"abcd"))
    assert found == [list("ABCD")]
    worker.open()
    assert run_all(worker, asking(worker, *"abc"), asking(worker, "d")) == [list("ABC"), ["D"]]


def test_a_bad_text_fails_alone(shouting):
    worker = Worker(shouting, limits=PATIENT)
    good, bad, other = run_all(
        worker, asking(worker, "a"), asking(worker, "bad"), asking(worker, "b")
    )
    assert (good, other) == (["A"], ["B"])
    assert isinstance(bad, ValueError)


def test_nothing_is_made_of_nothing_without_waiting(shouting):
    worker = Worker(shouting, limits=PATIENT)
    assert run_all(worker, asking(worker)) == [[]]
    assert shouting.batches == []


def test_other_work_is_never_at_the_same_time_as_a_batch():
    busy = threading.Lock()

    def alone(result):
        assert busy.acquire(blocking=False)
        try:
            threading.Event().wait(0.002)
            return result
        finally:
            busy.release()

    worker = Worker(alone, limits=Limits(window=0.0))
    jobs = [
        job
        for i in range(10)
        for job in (asking(worker, str(i)), lambda i=i: worker.call(lambda: alone(i)))
    ]
    found = run_all(worker, *jobs)
    assert found == [one for i in range(10) for one in ([str(i)], i)]


def test_an_error_belongs_to_whoever_asked(shouting):
    worker = Worker(shouting)
    broken, whole = run_all(
        worker, lambda: worker.call(lambda: 1 / 0), lambda: worker.call(lambda: 7)
    )
    assert isinstance(broken, ZeroDivisionError)
    assert whole == 7


def test_a_full_queue_refuses_and_goes_on():
    gate, began = threading.Event(), threading.Event()
    worker = Worker(lambda texts: texts, limits=Limits(queue=2, window=0.0))

    async def story():
        first = asyncio.create_task(worker.call(lambda: began.set() or gate.wait()))
        await asyncio.to_thread(began.wait)
        waiting = asyncio.create_task(worker.translate(["a", "b"]))
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="too many"):
            await worker.translate(["c"])
        gate.set()
        await first
        return await waiting

    assert asyncio.run(story()) == ["a", "b"]
    worker.close()


def test_what_takes_too_long_is_given_up_and_what_has_not_begun_is_never_done(shouting):
    gate = threading.Event()
    worker = Worker(shouting, limits=Limits(seconds=0.05, window=0.0))
    slow, late = run_all_without_closing(lambda: worker.call(gate.wait), asking(worker, "a"))
    assert isinstance(slow, BusyError)
    assert isinstance(late, BusyError)
    gate.set()
    worker.close()
    assert shouting.batches == []


def run_all_without_closing(*jobs):
    async def gather():
        return await asyncio.gather(*(job() for job in jobs), return_exceptions=True)

    return asyncio.run(gather())


def test_closing_finishes_what_waits_and_takes_nothing_new(shouting):
    gate = threading.Event()
    worker = Worker(shouting, limits=Limits(window=0.0))

    async def story():
        asked = [asyncio.create_task(worker.call(gate.wait))]
        asked += [asyncio.create_task(worker.translate([text])) for text in "abc"]
        await asyncio.sleep(0)  # each has put its job
        closing = asyncio.create_task(asyncio.to_thread(worker.close))
        while not worker._closing:
            await asyncio.sleep(0.001)
        with pytest.raises(BusyError, match="ending"):
            await worker.translate(["d"])
        gate.set()
        await closing
        return await asyncio.gather(*asked)

    assert asyncio.run(story()) == [True, ["A"], ["B"], ["C"]]


def test_a_closed_worker_can_be_opened_again(shouting):
    worker = Worker(shouting)
    assert run_all(worker, asking(worker, "a")) == [["A"]]
    worker.open()
    assert run_all(worker, asking(worker, "b")) == [["B"]]


def test_what_is_abandoned_is_neither_waited_for_nor_finished():
    began, free = threading.Event(), threading.Event()
    done = []

    def slow(texts):
        if texts == ["a"]:
            began.set()
            assert free.wait(30)
        done.append(texts)
        return list(texts)

    worker = Worker(slow, limits=Limits(window=0.0, seconds=10))

    async def story():
        first = asyncio.create_task(worker.translate(["a"]))
        assert await asyncio.to_thread(began.wait, 30)
        second = asyncio.create_task(worker.translate(["b"]))
        await asyncio.sleep(0)
        await asyncio.to_thread(worker.close, 0.1)  # gives up, and leaves the first alone
        with pytest.raises(asyncio.CancelledError):
            await second
        with pytest.raises(BusyError, match="ending"):
            await worker.translate(["c"])
        worker.open()
        assert await worker.translate(["d"]) == ["d"]  # by another thread
        free.set()
        return await first

    assert asyncio.run(story()) == ["a"]
    worker.close()
    assert done == [["d"], ["a"]]


def test_work_is_told_when_nobody_waits_for_it_any_more():
    worker = Worker(list, limits=Limits(seconds=0.05))
    late, left, done = (threading.Event() for _ in range(3))

    async def story():
        with pytest.raises(BusyError, match="more than 0.05 s"):
            await worker.call(lambda: late.wait(30), late)
        leaving = asyncio.create_task(worker.call(lambda: left.wait(30), left))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        worker.limits = Limits()
        return await worker.call(lambda: 7, done)

    assert asyncio.run(story()) == 7
    worker.close()
    assert late.is_set()
    assert left.is_set()
    assert not done.is_set()


# ------------------------------------------------------------------ fair turns


def of(client, job):
    """The job as a request of some client."""

    async def asked():
        CLIENT.set(client)
        return await job()

    return asked


def test_clients_have_their_turns_one_after_the_other():
    order, gate = [], threading.Event()
    worker = Worker(list, limits=Limits(window=0.0))

    def noting(name):
        return lambda: worker.call(lambda: order.append(name))

    run_all(
        worker,
        of("first", lambda: worker.call(gate.wait)),
        *(of("many", noting(f"many {i}")) for i in range(3)),
        *(of("few", noting(f"few {i}")) for i in range(2)),
        of("last", lambda: asyncio.sleep(0, gate.set())),
    )
    assert order == ["many 0", "few 0", "many 1", "few 1", "many 2"]


def test_a_long_list_of_texts_is_translated_in_pieces_and_others_come_between(shouting):
    worker = Worker(shouting, limits=Limits(window=0.0, batch_characters=8, batch=4))
    long, gate = [letter * 4 for letter in "abcdef"], threading.Event()
    _, *found, _ = run_all(
        worker,
        of("first", lambda: worker.call(gate.wait)),
        of("many", asking(worker, *long)),
        of("one", asking(worker, "z" * 5)),
        of("one", asking(worker, "y" * 20)),  # alone, though it is longer than a piece
        of("last", lambda: asyncio.sleep(0, gate.set())),
    )
    assert found == [[text.upper() for text in long], ["ZZZZZ"], ["Y" * 20]]
    assert shouting.batches == [long[:2], ["zzzzz"], long[2:4], ["y" * 20], long[4:]]


def test_one_client_cannot_fill_the_queue_of_all():
    gate = threading.Event()
    limits = Limits(window=0.0, client_queue=2)
    worker = Worker(lambda texts: gate.wait() and list(texts), limits=limits)
    asked = [of("many", asking(worker, one)) for one in "abcdefgh"]  # some are taken at once
    found = run_all(
        worker,
        *asked,
        of("one", asking(worker, "z")),
        of("", lambda: asyncio.sleep(0, gate.set())),
    )
    refused = [one for one in found if isinstance(one, BusyError)]
    assert refused
    assert "too many of your requests" in str(refused[0])
    assert found[-2] == ["z"]


# ------------------------------------------------------------------ what nobody waits for


@pytest.mark.parametrize("shared", [False, True])
def test_what_nobody_waits_for_ends_at_its_next_step(shared):
    began, go_on, ended = (threading.Event() for _ in range(3))

    def steps(texts):
        began.set()
        assert go_on.wait(30)
        try:
            check_wanted()
        except UnwantedError:
            ended.set()
            raise
        return list(texts)

    worker = Worker(steps, limits=Limits(window=0.2))

    async def story():
        asked = [asyncio.create_task(worker.translate(["a"])) for _ in range(1 + shared)]
        assert await asyncio.to_thread(began.wait, 30)
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        go_on.set()
        assert await asyncio.to_thread(ended.wait, 30)
        return await worker.translate(["b"])

    assert asyncio.run(story()) == ["b"]
    worker.close()


def test_a_batch_goes_on_as_long_as_somebody_waits():
    began, go_on, batches = threading.Event(), threading.Event(), []

    def steps(texts):
        batches.append(texts)
        began.set()
        assert go_on.wait(30)
        check_wanted()
        return list(texts)

    worker = Worker(steps, limits=Limits(window=0.2))

    async def story():
        leaving, staying = (asyncio.create_task(worker.translate([text])) for text in "ab")
        assert await asyncio.to_thread(began.wait, 30)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        go_on.set()
        return await staying

    assert asyncio.run(story()) == ["b"]
    worker.close()
    assert batches == [["a", "b"]]


# ------------------------------------------------------------------ engines that crash


class PanicException(BaseException):
    """As Rust code raises it: no Exception."""


def test_a_panic_costs_its_own_request_alone(shouting):
    def panicking(texts):
        if "panic" in texts:
            raise PanicException("index out of bounds")
        return shouting(texts)

    worker = Worker(panicking, limits=PATIENT)
    good, bad, other = run_all_without_closing(
        asking(worker, "a"), asking(worker, "panic"), asking(worker, "b")
    )
    assert (good, other) == (["A"], ["B"])
    assert isinstance(bad, EngineError)
    assert worker.trouble is None
    assert run_all(worker, asking(worker, "c")) == [["C"]]


def test_an_engine_that_stays_broken_is_told_until_it_is_whole():
    broken = threading.Event()
    broken.set()

    def recover():
        if broken.is_set():
            raise PanicException

    def panic():
        raise PanicException

    worker = Worker(list, recover=recover)

    async def story():
        with pytest.raises(EngineError):
            await worker.call(panic)
        assert "has crashed" in worker.trouble
        later = asyncio.create_task(worker.call(lambda: 7))
        await asyncio.sleep(0.05)
        assert not later.done()
        assert "has crashed" in worker.trouble
        broken.clear()
        return await later

    assert asyncio.run(story()) == 7
    assert worker.trouble is None
    worker.close()


def test_a_thread_that_has_ended_is_told_and_replaced():
    worker = Worker(list)
    assert run_all_without_closing(lambda: worker.call(lambda: 1)) == [1]
    worker._thread = threading.Thread(target=lambda: None)
    worker._thread.start()
    worker._thread.join()
    assert worker.trouble == "the model's thread has ended"
    assert run_all(worker, lambda: worker.call(lambda: 7)) == [7]


def test_work_without_an_end_is_told():
    gate, began = threading.Event(), threading.Event()
    worker = Worker(list, limits=Limits(stuck=0.05))

    async def story():
        asked = asyncio.create_task(worker.call(lambda: began.set() or gate.wait()))
        assert await asyncio.to_thread(began.wait, 30)
        await asyncio.sleep(0.1)
        assert "at one piece of work for 0 s" in worker.trouble
        gate.set()
        return await asked

    assert asyncio.run(story())
    worker.close()
    assert worker.trouble is None
