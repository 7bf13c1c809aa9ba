"""What a process must know of the others that train the same model.

Which part of the data is its own, how sums, counts and gradients are added up, how validations are
divided, when all stop, and who writes files. With one process nothing is communicated and nothing
is copied.

``torchrun`` starts the processes and tells each its number. Those of CPUs talk by gloo, those of
GPUs by NCCL, and numbers that Python needs always by gloo, so that no GPU is waited for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.core.errors import ConfigError, RegardError, TrainingError
from regard.core.signals import signals_to
from regard.data.stream import Share
from regard.training.settings import TrainSettings

Item = TypeVar("Item")
Result = TypeVar("Result")

BUCKET = 2**23
"""Numbers of gradients that are sent together: 32 MB."""


LOST = "another process of this training ended; its own message says why"


class PeerLostError(TrainingError):
    """Another process ended in the middle of something that all do together."""

    def __init__(self, told: str) -> None:
        super().__init__(f"{LOST} (here: {told})")


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes of a training, seen from one of them."""

    rank: int = 0
    """The number of this process."""
    n: int = 1

    @classmethod
    def current(cls) -> Ranks:
        """Those of torch's process group; one alone where none was started."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    @property
    def is_writer(self) -> bool:
        """Whether this process writes checkpoints and metrics: one of all does."""
        return self.rank == 0

    def share(self, accumulate: int) -> Share:
        """Which of an update's micro-batches this process takes: some in a row.

        Where there are fewer micro-batches than processes, several share one by its rows.
        """
        if self.n <= accumulate:
            first, end = (accumulate * rank // self.n for rank in (self.rank, self.rank + 1))
            return Share(first, end - first, accumulate)
        taken = [rank * accumulate // self.n for rank in range(self.n)]
        number = taken[self.rank]
        part, parts = self.rank - taken.index(number), taken.count(number)
        return Share(number, 1, accumulate, part, parts)

    # ---------------------------------------------------------------- what all do together

    def add(self, numbers: Iterable[float]) -> list[float]:
        """Each number summed over all processes."""
        numbers = [*numbers]
        if self.n == 1:
            return numbers
        total = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def largest(self, *numbers: int) -> list[int]:
        """Of each number the largest that a process has: who wants to stop says one above 0."""
        if self.n == 1:
            return [*numbers]
        most = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        return most.tolist()

    def gather(self, thing: Result) -> list[Result]:
        """What each process has, by its number."""
        things: list[Any] = [thing] * self.n
        if self.n > 1:
            dist.all_gather_object(things, thing)
        return things

    def by_writer(self, work: Callable[[], Result]) -> Result:
        """What the writer's ``work`` gives, in all processes; a user's error is raised in all."""
        if self.n == 1:
            return work()
        told: list[Any] = [None, None]
        if self.is_writer:
            try:
                told = [work(), None]
            except RegardError as error:
                told = [None, (type(error), str(error))]
        dist.broadcast_object_list(told, src=0)
        if told[1] is not None:
            kind, message = told[1]
            raise kind(message)
        return told[0]

    @contextmanager
    def writer_first(self) -> Iterator[None]:
        """The block is run by the writer, and then by all others: they find what it has kept."""
        if not self.is_writer:
            dist.barrier()
        yield
        if self.is_writer and self.n > 1:
            dist.barrier()

    def add_gradients(self, model: nn.Module, *, exact: bool = False) -> None:
        """Gradients become their sum over all processes, added in pairs where it is ``exact``."""
        if self.n == 1:
            return
        parameters = [one for one in model.parameters() if one.requires_grad]
        touched = self.largest(*(one.grad is not None for one in parameters))
        for parameter, somewhere in zip(parameters, touched, strict=True):
            if parameter.grad is None and somewhere:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [one.grad for one in parameters if one.grad is not None]
        for bucket in _buckets(gradients):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            flat = self._pairwise_sum(flat) if exact else self._sum(flat)
            parts = flat.split([gradient.numel() for gradient in bucket])
            for gradient, part in zip(bucket, parts, strict=True):
                gradient.copy_(part.view_as(gradient))

    def _sum(self, numbers: Tensor) -> Tensor:
        dist.all_reduce(numbers)
        return numbers

    def _pairwise_sum(self, numbers: Tensor) -> Tensor:
        """In an order that does not depend on who comes first."""
        parts = [torch.empty_like(numbers) for _ in range(self.n)]
        dist.all_gather(parts, numbers)
        while len(parts) > 1:
            parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def copy_buffers(self, buffers: Iterable[Tensor]) -> None:
        """Buffers become those of the first process, as DDP has it: means of batch norms."""
        if self.n > 1:
            for buffer in buffers:
                dist.broadcast(buffer, src=0)

    def check_alike(self, facts: Mapping[str, Any]) -> None:
        """Refuse to train together where processes were told different things."""
        all_facts = self.gather(dict(facts))
        for rank, other in enumerate(all_facts):
            for name, value in all_facts[0].items():
                if other.get(name) != value:
                    raise ConfigError(
                        f"processes must be told the same: {name} is {value!r} in process 0 and "
                        f"{other.get(name)!r} in process {rank}"
                    )


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Tensors of one type, in their order, some ``BUCKET`` numbers at a time."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        held = sum(one.numel() for one in bucket)
        if bucket and (held + tensor.numel() > BUCKET or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def check_processes(settings: TrainSettings, ranks: Ranks) -> str | None:
    """Refuse a number of processes that the settings cannot be trained with.

    -> what a user should know of how updates are divided.
    """
    n, k = ranks.n, settings.accumulate
    if settings.exact and n > 1 and (n & (n - 1) or k & (k - 1) or k % n):
        raise ConfigError(
            f"train.exact=true: {n} processes and train.accumulate={k}; both must be powers of "
            f"two, and train.accumulate a multiple of the processes"
        )
    if settings.parallel == "shard":
        _check_sharded(settings, n)
    if k >= n:
        return None
    return (
        f"an update has {k} micro-batch{'es' * (k > 1)} and is shared by {n} processes, by rows: "
        f"with train.accumulate={n} it would be the very update of one process, dropout and losses "
        "over whole batches included"
    )


ELEMENTWISE = ("adamw", "adam")
"""Optimisers that look at one number of a weight at a time; torch's SGD knows no parts yet."""


def _check_sharded(settings: TrainSettings, n: int) -> None:
    """Refuse what cannot be done with parts of a model."""
    k, optimiser = settings.accumulate, settings.optimiser
    problems = {
        f"train.accumulate={k} micro-batches cannot be dealt out to {n} processes; make it a "
        f"multiple of {n}, with a smaller train.batch_tokens": k % n,
        "train.exact=true needs sums in an order that parts have not": settings.exact,
        f"train.optimiser={optimiser} looks at whole matrices; choose one of "
        f"{', '.join(ELEMENTWISE)}": optimiser not in ELEMENTWISE,
        "a model in parts learns from given targets alone: leave train.teacher_forcing and "
        "train.objective out": settings.teacher_forcing != 1 or settings.rewards,
        "train.compile=true is for whole models": settings.compile is True,
    }
    for problem, there in problems.items():
        if there:
            raise ConfigError(f"train.parallel=shard: {problem}")


def micro_batch_seed(seed: int, step: int, number: int, part: int = 0) -> int:
    """Of what is drawn while a micro-batch is learned from, whoever does that."""
    words = np.random.SeedSequence((seed, step, number, part)).generate_state(1, np.uint64)
    return int(words[0]) >> 1


# ------------------------------------------------------------------ meeting


def launched_rank() -> int:
    """The number of this process by its environment: 0 where torchrun did not start it."""
    return int(os.environ.get("RANK", "0"))


def launched_with() -> int:
    """How many processes torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def launch_name() -> str:
    """What torchrun calls this launch: the same for processes that it starts again.

    Without an id (``--rdzv-id``) it is known by its process, on this machine alone.
    """
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return f"torchrun {os.getppid()}" if name == "none" else name


def is_launched() -> bool:
    """Whether torchrun, or ``--workers``, started this process, perhaps alone."""
    return "RANK" in os.environ


def own_device(device: torch.device) -> torch.device:
    """Of several GPUs of a machine, that of this process."""
    if device.type != "cuda" or device.index is not None or not is_launched():
        return device
    number, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= there:
        raise ConfigError(
            f"process {number} of this machine has no GPU of its own: there are {there}; start as "
            "many processes, or add --device cpu"
        )
    return torch.device("cuda", number)


@contextmanager
def joined(device: torch.device, *, alone_too: bool = False) -> Iterator[Ranks]:
    """Inside the block the processes that torchrun started can talk; one alone needs no group.

    ``alone_too`` makes a group of one process as well, for a model that is sharded.
    """
    if dist.is_initialized() or not (launched_with() > 1 or alone_too):
        yield Ranks.current()
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    # A process that ended is noticed at once; one that is busy, such as the first while it prepares
    # the data, is waited for.
    how: dict[str, Any] = {"timeout": timedelta(hours=12)}
    if not is_launched():
        how |= {"store": torch._C._distributed_c10d.HashStore(), "rank": 0, "world_size": 1}
    try:
        dist.init_process_group(backend, **how)
    except (RuntimeError, ValueError, OSError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        reason = str(error).split("\n")[0]
        raise TrainingError(
            f"the {launched_with()} processes of this training could not meet at {where}: {reason}"
        ) from error
    try:
        with _peers_told():
            yield Ranks.current()
    finally:
        dist.destroy_process_group()


@contextmanager
def _peers_told() -> Iterator[None]:
    """Inside the block, a connection that broke is an error of one line."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if isinstance(error, dist.DistError) or "gloo" in text or "Connection closed" in text:
            raise PeerLostError(text.split("\n")[0]) from error
        raise


# ------------------------------------------------------------------ stopping


@dataclass(slots=True)
class StopRequest:
    """Which signal asked this process to stop, if any."""

    signal: signal.Signals | None = None


class Stopped(Exception):  # noqa: N818  no error
    """A signal came in the middle of a validation, which is left where it was."""


_REQUEST: ContextVar[StopRequest | None] = ContextVar("stop_request", default=None)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Inside the block signals that end a program only leave a request.

    A second one acts at once, but where several processes train: whoever started them passes
    signals on, and they come twice.
    """
    request = StopRequest()

    def note(number: int, _frame: FrameType | None) -> None:
        request.signal = signal.Signals(number)

    token = _REQUEST.set(request)
    try:
        with signals_to(note, once=not is_launched()):
            yield request
    finally:
        _REQUEST.reset(token)


# ------------------------------------------------------------------ dividing a validation

_DIVIDING: ContextVar[bool] = ContextVar("dividing", default=False)


@contextmanager
def dividing() -> Iterator[None]:
    """Inside the block, which all processes must enter, ``divided`` divides."""
    token = _DIVIDING.set(True)
    try:
        yield
    finally:
        _DIVIDING.reset(token)


def divided(items: Iterable[Item], work: Callable[[Item], Result]) -> list[Result]:
    """``work`` of every item, in their order; inside ``dividing`` each process does its part.

    Results are the same for any number of processes: plain values or tensors of the CPU, for they
    are sent around. A signal to one process raises ``Stopped`` in all.
    """
    if not _DIVIDING.get():
        return [work(item) for item in items]
    ranks, request = Ranks.current(), _REQUEST.get()
    found: dict[int, Result] = {}
    for number, item in enumerate(items):
        if number % ranks.n == ranks.rank:
            found[number] = work(item)
        asked = request is not None and request.signal is not None
        if number % ranks.n == ranks.n - 1 and ranks.largest(asked)[0]:
            raise Stopped
    together = {number: one for part in ranks.gather(found) for number, one in part.items()}
    return [together[number] for number in range(len(together))]
