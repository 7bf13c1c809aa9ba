import gc
import json
import threading

import pytest

from regard.core.errors import CheckpointError
from regard.data.examples import Example
from regard.data.pair_batches import packed_stream, padded_stream
from regard.data.stream import Prefetched


def stream(kind=padded_stream, seed=0):
    examples = [Example(range(5, 6 + i % 7), range(5, 6 + i % 5)) for i in range(40)]
    return kind(examples, batch_tokens=70, seed=seed)


def changed(stream, change):
    """A stream whose batches go through a function."""
    made = stream._collate
    stream._collate = lambda examples, part: change(made(examples, part))
    return stream


def numbers(batches):
    return [batch.numbers for batch in batches]


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


@pytest.mark.parametrize("kind", [padded_stream, packed_stream])
def test_batches_places_and_epochs_are_those_of_the_stream(kind):
    plain, ahead = stream(kind), Prefetched(stream(kind))
    for _ in range(20):
        assert ahead.state() == plain.state()
        assert (ahead.epoch, ahead.n_batches) == (plain.epoch, plain.n_batches)
        assert ahead.next().numbers == plain.next().numbers
    assert plain.epoch > 1


@pytest.mark.parametrize("cut", range(0, 12, 3))
def test_whoever_goes_on_misses_nothing_that_was_made_ahead(cut):
    whole = stream()
    expected = numbers(whole.next() for _ in range(20))
    stopped = Prefetched(stream(), ahead=4)
    for _ in range(cut):
        stopped.next()
    resumed = Prefetched(stream())
    resumed.next()  # it may be under way already
    resumed.restore(json.loads(json.dumps(stopped.state())))
    assert resumed.state() == stopped.state()
    assert numbers(resumed.next() for _ in range(20 - cut)) == expected[cut:]


def test_a_state_of_another_stream_is_refused_and_the_place_is_kept():
    ahead = Prefetched(stream())
    expected = numbers([stream().next()])
    with pytest.raises(CheckpointError, match="seed was 1"):
        ahead.restore(stream(seed=1).state())
    assert numbers([ahead.next()]) == expected


def test_as_many_batches_are_made_ahead_as_asked_for():
    made = threading.Semaphore(0)

    def collate(batch):
        made.release()
        return batch

    ahead = Prefetched(changed(stream(), collate), ahead=3)
    ahead.next()
    assert all(made.acquire(timeout=10) for _ in range(1 + 3))
    assert not made.acquire(timeout=0.3)


def test_batches_are_pinned_when_asked_for():
    pinned = []

    class Pinnable:
        def pin_memory(self):
            pinned.append(self)
            return self

    Prefetched(changed(stream(), lambda _: Pinnable()), pin=False).next()
    assert not pinned
    batch = Prefetched(changed(stream(), lambda _: Pinnable()), pin=True).next()
    assert batch in pinned


def test_what_goes_wrong_is_told_when_its_batch_is_due_and_ever_after():
    due = iter([False, False])

    def collate(batch):
        if next(due, True):
            raise CheckpointError("torn")
        return batch

    ahead = Prefetched(changed(stream(), collate))
    expected = [batch.numbers for batch in (stream().next(),)]
    assert numbers([ahead.next()]) == expected
    ahead.next()
    for _ in range(2):
        with pytest.raises(CheckpointError, match="torn"):
            ahead.next()
    assert ahead.state()["position"] == 2
    ahead.close()


def test_the_thread_ends_when_it_is_closed_or_forgotten():
    before, plain = len(threads()), stream()
    ahead = Prefetched(stream())
    assert ahead.next().numbers == plain.next().numbers
    assert len(threads()) == before + 1
    ahead.close()
    assert len(threads()) == before
    assert ahead.next().numbers == plain.next().numbers
    assert len(threads()) == before + 1
    del ahead
    gc.collect()
    assert len(threads()) == before
