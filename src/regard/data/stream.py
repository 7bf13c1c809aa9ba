"""Endless batches, epoch after epoch, in an order that can be taken up again.

The plan of an epoch depends on nothing but the examples, the seed and the epoch's number. So the
position in a stream is two numbers, going on from it is exact, and several processes agree on who
takes which batch without a word.

Examples that do not fit into memory come in windows. A window is planned as an epoch is, from its
own number too, and a position is three numbers. No batch has examples of two windows.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeIs

from regard.core.errors import CheckpointError, DataError
from regard.data.batch import Batch

Plan = Callable[[Any, np.random.Generator], Sequence[Any]]
"""The examples of an epoch and a generator → what goes into each of its batches."""
Collate = Callable[[Any, Any], Batch]
"""The examples of an epoch and an entry of its plan → a batch."""
Split = Callable[[Any, int, int], Any]
"""An entry of a plan, i and n → the i-th of n parts of it, perhaps empty, that collates alone."""
State = dict[str, int | str]
"""Where a stream is, and what its plans depend on; JSON can hold it."""
WHERE = ("epoch", "window", "position")
"""Of a state, where the stream is."""
SHAPES = ("packed", "tiled")
"""Of a state, how batches are laid out: no setting, it follows from others."""


class Dataset(Protocol):
    """Numbered examples, which may look different each epoch."""

    @property
    def digest(self) -> str:
        """A fingerprint of all that the examples depend on."""
        ...

    def __len__(self) -> int: ...

    def of_epoch(self, epoch: int) -> Any:
        """The examples as an epoch sees them."""
        ...


class WindowedDataset(Protocol):
    """Numbered examples of which one window at a time is in memory."""

    @property
    def digest(self) -> str:
        """A fingerprint of all that the examples and their windows depend on."""
        ...

    @property
    def n_windows(self) -> int:
        """Windows of an epoch, the same in each."""
        ...

    def __len__(self) -> int: ...

    def of_window(self, epoch: int, window: int) -> Any:
        """The examples of a window of an epoch."""
        ...


def in_windows(dataset: Dataset | WindowedDataset) -> TypeIs[WindowedDataset]:
    """Whether examples come in windows. Nothing else is asked, as digests take their time."""
    return hasattr(dataset, "of_window")


def examples_of(dataset: Dataset | WindowedDataset, epoch: int, window: int = 0) -> Any:
    """The examples of an epoch, or of a window of it."""
    if in_windows(dataset):
        return dataset.of_window(epoch, window)
    return dataset.of_epoch(epoch)


def epoch_rng(seed: int, epoch: int, window: int = 0) -> np.random.Generator:
    """The generator that plans an epoch, or a window of it."""
    return np.random.default_rng((seed, epoch, window) if window else (seed, epoch))


def split_rows(rows: NDArray[np.int64], i: int, n: int) -> NDArray[np.int64]:
    """The i-th of n parts of the rows of a batch, as equal as they can be."""
    return np.array_split(rows, n)[i]


@dataclass(frozen=True, slots=True)
class Share:
    """Which batches of a round a process takes, and which part of each.

    Of ``of`` batches in a row it takes ``n`` from the one numbered ``first``; where ``parts``
    processes share a batch, its part of the rows.
    """

    first: int
    n: int
    of: int
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.first < self.first + self.n <= self.of and 0 <= self.part < self.parts):
            raise ValueError(f"this is not a share of a round: {self}")


class Stream:
    """Batches without end; every example comes once an epoch.

    ``depends_on`` names what the plans depend on besides the data and the seed; a stream goes on
    only from a state in which it was the same. ``split`` cuts an entry of a plan where several
    processes share a batch.
    """

    def __init__(
        self,
        dataset: Dataset | WindowedDataset,
        plan: Plan,
        collate: Collate,
        *,
        seed: int,
        depends_on: Mapping[str, int | str],
        split: Split = split_rows,
    ) -> None:
        if not len(dataset):
            raise DataError("there are no examples to train on")
        self.epoch = 0  # of the next batch; as many are complete
        self._n_windows = dataset.n_windows if in_windows(dataset) else None
        self._dataset, self._plan, self._collate, self._split = dataset, plan, collate, split
        self._seed, self._depends_on = seed, dict(depends_on)
        self._share = Share(0, 1, 1)
        self._taken = 0  # batches of the present round
        self._window = self._position = 0
        self._n_empty = 0  # windows without a batch, one after the other
        self._planned: tuple[Any, Sequence[Any]] | None = None

    def __len__(self) -> int:
        """Examples of an epoch."""
        return len(self._dataset)

    def part(self, share: Share) -> Stream:
        """What one of several processes takes, round by round.

        A round of all shares is what one process takes in ``share.of`` batches, and leaves the same
        state: a training may go on with more or fewer processes.
        """
        part = copy(self)
        part._share = share
        return part

    @property
    def n_batches(self) -> int:
        """Batches of the current epoch, or window, those of all processes together."""
        return len(self._current()[1])

    def next(self) -> Batch:
        """The next batch; after the last of an epoch, the first of the next.

        It is empty where several processes share a batch that has no row for this one.
        """
        share = self._share
        self._advance(0 if self._taken else share.first)
        while not len(self._current()[1]):  # a window may be too small for a batch
            self._go_on()
        examples, plan = self._current()
        entry = plan[self._position]
        if share.parts > 1:
            entry = self._split(entry, share.part, share.parts)
        batch = self._collate(examples, entry) if len(entry) else Batch({}, (), count=0)
        self._taken = (self._taken + 1) % share.n
        self._advance(1 if self._taken else share.of - share.first - share.n + 1)
        return batch

    def state(self) -> State:
        """Where the stream is."""
        window = {} if self._n_windows is None else {"window": self._window}
        return {"epoch": self.epoch, **window, "position": self._position, **self._made_of()}

    def restore(self, state: Mapping[str, int | str]) -> None:
        """Go on as the stream did whose state this was."""
        made_of = self._made_of()
        for name in dict.fromkeys((*made_of, *state)):
            was, here = state.get(name), made_of.get(name)
            if name in WHERE or was == here:
                continue
            if name == "data":
                raise CheckpointError(
                    "the training data is not what it was when the checkpoint was made; bring the "
                    "old data back, or start a new run"
                )
            if name in SHAPES:
                raise CheckpointError(
                    "cannot go on in the middle of an epoch: batches are padded or packed "
                    "otherwise here, on another device or with another train.precision, model or "
                    "version; go on where the run was begun, or start a new one"
                )
            raise CheckpointError(
                f"cannot go on in the middle of an epoch: {name} was {was} when the "
                f"checkpoint was made and is {here} now; set it back, or start a new run"
            )
        self._taken = 0
        self._go(int(state["epoch"]), int(state.get("window", 0)), int(state["position"]))

    def _advance(self, n: int) -> None:
        """Pass over ``n`` batches; an epoch is planned only when one of its batches is needed."""
        while n:
            left = len(self._current()[1]) - self._position
            if n < left:
                self._position += n
                return
            n -= left
            self._go_on()

    def _go_on(self) -> None:
        """To the first batch of the next window."""
        epochs, window = divmod(self._window + 1, self._n_windows or 1)
        self._go(self.epoch + epochs, window, 0)

    def _go(self, epoch: int, window: int, position: int) -> None:
        if (epoch, window) != (self.epoch, self._window):
            self._planned = None
        self.epoch, self._window, self._position = epoch, window, position

    def _current(self) -> tuple[Any, Sequence[Any]]:
        """The examples of this window and their plan, made when they are first needed."""
        if self._planned is None:
            examples = examples_of(self._dataset, self.epoch, self._window)
            plan = self._plan(examples, epoch_rng(self._seed, self.epoch, self._window))
            self._n_empty = 0 if len(plan) else self._n_empty + 1
            if self._n_empty >= (self._n_windows or 1):
                raise DataError("there is nothing to train on: all examples are empty")
            self._planned = examples, plan
        return self._planned

    def _made_of(self) -> State:
        return {"seed": self._seed, **self._depends_on, "data": self._dataset.digest}


Made = tuple[Batch, State, int]
"""A batch, the state in which it left the stream, and how many batches that window has."""
THREAD = "batches"


class Prefetched:
    """A stream whose next ``ahead`` batches a thread makes ready, in pinned memory if asked for.

    Its state is that of the batches that were handed out. What was made beyond them is made again
    by whoever goes on from there.
    """

    def __init__(self, stream: Stream, *, ahead: int = 2, pin: bool = False) -> None:
        self._stream, self._ahead, self._pin = stream, ahead, pin
        self._thread: ThreadPoolExecutor | None = None
        self._pending: deque[Future[Made]] = deque()
        self._last: Made | None = None

    @property
    def epoch(self) -> int:
        """The epoch of the next batch; as many are complete."""
        return int(self.state()["epoch"])

    @property
    def n_batches(self) -> int:
        """Batches of the current epoch."""
        return self._stream.n_batches if self._last is None else self._last[2]

    def next(self) -> Batch:
        """The next batch; what went wrong in making it is raised here, each time."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=THREAD)
            weakref.finalize(self, _end, self._thread)  # also when the program ends
        while len(self._pending) <= self._ahead:
            self._pending.append(self._thread.submit(_make, self._stream, self._pin))
        self._last = self._pending[0].result()
        self._pending.popleft()
        return self._last[0]

    def state(self) -> State:
        """Where the stream is; JSON can hold it."""
        return self._stream.state() if self._last is None else dict(self._last[1])

    def restore(self, state: Mapping[str, int | str]) -> None:
        """Go on as the stream did whose state this was."""
        self.close()
        self._stream.restore(state)

    def close(self) -> None:
        """End the thread; the next batch would begin another, from the same place."""
        place = self.state()
        if self._thread is not None:
            _end(self._thread)
            self._thread = self._last = None
            self._pending.clear()
            self._stream.restore(place)


def _make(stream: Stream, pin: bool) -> Made:
    batch = stream.next()
    return batch.pin_memory() if pin else batch, stream.state(), stream.n_batches


def _end(thread: ThreadPoolExecutor) -> None:
    """Wait for the batch in hand, unless it is the thread itself that collects garbage."""
    inside = threading.current_thread().name.startswith(THREAD)
    thread.shutdown(wait=not inside, cancel_futures=True)
