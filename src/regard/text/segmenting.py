"""A process beside the training that cuts texts into pieces: ``python -m regard.text.segmenting``.

It is told the texts once. Then it is sent the numbers of epochs and sends back their ids, one after
the other, until nobody is listening. A process, since a thread would hold up the training; not one
of ``multiprocessing``, which would run the user's own script a second time.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

import numpy as np

from regard.core.errors import TrainingError
from regard.text.draws import derive
from regard.text.segmenter import Segmented, Segmenter
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Side:
    """What is segmented on one side of a corpus."""

    tokenizer: Tokenizer
    texts: Sequence[str]
    room: int
    """Ids that a text may have."""


class SegmentingProcess:
    """Segments the texts of all sides, one epoch ahead of what it is asked for."""

    def __init__(self, sides: Sequence[Side], *, share: float, seed: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        weakref.finalize(self, _end, self._process)
        parts = [(side.tokenizer.to_json(), list(side.texts), side.room) for side in sides]
        self._tell((parts, share, seed))
        self._ask(0)

    def segmented(self, epoch: int) -> list[Segmented]:
        """The ids of each side in an epoch; the next one is prepared meanwhile."""
        if self._asked != epoch:
            self._hear()  # nobody wants it any more
            self._ask(epoch)
        found = self._hear()
        self._ask(epoch + 1)
        return found

    def _ask(self, epoch: int) -> None:
        self._asked = epoch
        self._tell(epoch)

    def _tell(self, message: object) -> None:
        assert self._process.stdin is not None
        try:
            _send(self._process.stdin, message)
        except OSError:
            raise self._gone() from None

    def _hear(self) -> list[Segmented]:
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise self._gone() from None

    def _gone(self) -> TrainingError:
        return TrainingError(
            f"the process that segments texts for bpe_dropout ended (code {self._process.wait()}); "
            "see above why, or whether memory was short, then go on with --resume"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """A process that nobody listens to has nothing to lose."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was not yet told is not told
                pipe.close()


def _send(pipe: IO[bytes], message: object) -> None:
    pickle.dump(message, pipe, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _serve(inbox: IO[bytes], outbox: IO[bytes]) -> None:
    """Answer until the pipe ends."""
    parts, share, seed = pickle.load(inbox)
    segmenters = []
    for number, (tokenizer, texts, room) in enumerate(parts):
        side = derive(np.array([seed % 2**64], np.uint64), number)
        keys = derive(side, np.arange(len(texts)))
        inner = Tokenizer.from_json(tokenizer)
        segmenters.append(Segmenter(inner, texts, share=share, room=room, keys=keys))
    while True:
        epoch: int = pickle.load(inbox)
        _send(outbox, [segmenter.segment(epoch) for segmenter in segmenters])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training ends us when it ends
    try:
        _serve(sys.stdin.buffer, sys.stdout.buffer)
    except (EOFError, BrokenPipeError):
        sys.stdout = None  # nothing is flushed into a closed pipe
