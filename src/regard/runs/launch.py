"""Training with several processes of this machine: torch starts them, and we read how they ended.

A process that was killed is started again with all others, and the training goes on from its last
checkpoint, unless it had been asked to stop. One that ended with an error would end so again: its
message is told, and all end.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM, Signals

from regard.core.errors import ConfigError, TrainingError
from regard.core.files import write_whole
from regard.core.signals import ENDING, Stop
from regard.runs.jobs import n_cores
from regard.training.distributed import LOST

RESTARTS = 10
"""After so many kills somebody means it."""
LAUNCHED = "REGARD_LAUNCHED"
"""In the environment of processes whose errors are told by whoever started them."""
MESSAGE = "regard"
"""In that file: the message, where we left one."""
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Names, in the environment of a process that torch started, the file for its last words."""
STOPPED = "stopped"
"""Beside that file: there where the process stopped as it was asked to."""


def launched_flags() -> tuple[str, ...]:
    """The flag that started this process beside others; none where torchrun did, or nobody."""
    n = os.environ.get("WORLD_SIZE")
    return ("--workers", n) if n is not None and LAUNCHED in os.environ else ()


def launch(words: Sequence[str], workers: int, say: Callable[[str], None]) -> None:
    """Run ``regard`` with some words in several processes, which then know of each other.

    Raises what one of them ended with: its error, or ``Stop`` where a signal ended all.
    """
    if workers < 1:
        raise ConfigError(f"--workers={workers}: at least one process must train")
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    run_id = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="regard-") as logs, _surroundings(workers):
        for attempt in range(RESTARTS + 1):
            config = LaunchConfig(
                min_nodes=1,
                max_nodes=1,
                nproc_per_node=workers,
                run_id=run_id,
                rdzv_backend="c10d",
                rdzv_endpoint="localhost:0",
                max_restarts=0,
                logs_specs=DefaultLogsSpecs(log_dir=f"{logs}/{attempt}"),
                local_addr="localhost",
            )
            try:
                elastic_launch(config, sys.executable)("-P", "-m", "regard", *words)
                return
            except SignalException as stopped:
                raise Stop(Signals(stopped.sigval)) from None
            except ChildFailedError as error:
                ends = {rank: one.exitcode for rank, one in error.failures.items()}
                # Others were asked to end when one was gone.
                killed = {rank: n for rank, n in ends.items() if n < 0 and n != -SIGTERM}
                message = _told(Path(logs) / str(attempt), killed=bool(killed))
                if message is not None:
                    raise TrainingError(message) from None
                if killed and any(Path(logs, str(attempt)).rglob(STOPPED)):
                    _tell_killed(killed, " after the training had stopped", say)
                    return
                if attempt == RESTARTS or not (killed or -SIGTERM in ends.values()):
                    rank, code = next(iter(ends.items()))
                    raise TrainingError(f"process {rank} ended with exit code {code}") from None
                _tell_killed(killed, "; all start again", say)


@contextmanager
def _surroundings(workers: int) -> Iterator[None]:
    """Inside the block torch logs nothing, and processes find what they need to know.

    After it signals, logs and the environment are as they were: torch leaves its own behind.
    """
    handlers = {number: signal.getsignal(number) for number in ENDING}
    variables, disabled = dict(os.environ), logging.root.manager.disable
    needed = {
        LAUNCHED: "1",
        "OMP_NUM_THREADS": str(max(1, n_cores() // workers)),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # else a restart finds the old one's port taken
    }
    try:
        os.environ.update(needed | variables)
        logging.disable(logging.CRITICAL)  # torch tells of failures at length; so do we, in a line
        yield
    finally:
        logging.disable(disabled)
        for name in os.environ.keys() - variables.keys():
            del os.environ[name]
        os.environ.update(variables)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _tell_killed(killed: Mapping[int, int], what: str, say: Callable[[str], None]) -> None:
    """``killed`` has the exit codes of processes by their ranks."""
    for rank, code in killed.items():
        say(f"process {rank} was killed by {Signals(-code).name}{what}")


def _told(logs: Path, *, killed: bool) -> str | None:
    """The message of a process that failed by itself; else of one that was left alone.

    None where nobody said anything, or one was ``killed``, which leaves the others alone.
    """
    told = {}
    for file in sorted(logs.rglob("error.json")):
        message = json.loads(file.read_text(encoding="utf-8")).get(MESSAGE)
        if message is not None:
            told[file.parent.name] = message
    told = {rank: one for rank, one in told.items() if not one.startswith(LOST)} or told
    if not told or (killed and all(one.startswith(LOST) for one in told.values())):
        return None
    rank, message = next(iter(told.items()))
    return message if len({*told.values()}) < len(told) else f"process {rank}: {message}"


def leave_stop() -> None:
    """Let whoever started this process know that it stopped as it was asked to.

    A process that dies while it ends, or another that is killed then, must not begin all anew.
    """
    if LAUNCHED in os.environ and (path := os.environ.get(ERROR_FILE)):
        Path(path).with_name(STOPPED).touch()


def leave_message(message: str) -> bool:
    """Leave an error to whoever started this process; False where nobody waits for it."""
    path = os.environ.get(ERROR_FILE)
    if LAUNCHED not in os.environ or not path:
        return False
    told = {MESSAGE: message, "message": message, "timestamp": int(time.time())}
    write_whole(Path(path), json.dumps(told))  # torch reads it as soon as it is there
    return True
