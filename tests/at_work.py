"""Jobs for other processes: those can only be handed what they can import."""

import logging
import os
import pickle
import signal
import threading
import time
from pathlib import Path

from regard.core.errors import DataError
from regard.core.signals import Stop
from regard.runs.jobs import Ended, Post, pack


def tell(words, post):
    """Comes to its words, and what it was told."""
    post.say(f"{words}!")
    return words, dict(post.found), os.environ["OMP_NUM_THREADS"]


def warn(_post):
    """As a library that has set up the root logger."""
    logging.basicConfig()
    logging.getLogger("regard").warning("2 translations cut off")


def refuse(_post):
    raise DataError("line 7: no such word")


class AwkwardError(DataError):
    def __init__(self, what, number):
        super().__init__(f"{what} {number}")


def refuse_awkwardly(_post):
    raise AwkwardError("line", 8)


def fail(_post):
    return {}["a key"]


def die(_post):
    os.kill(os.getpid(), signal.SIGKILL)


def wait_long(path, _post):
    """Leaves its process in a file; and a word, if it is asked to end."""
    try:
        Path(path).write_text(str(os.getpid()))
        time.sleep(60)
    except Stop as stop:
        Path(path).with_suffix(".stopped").write_text(stop.signal.name)
        raise


def stay(_post):
    """Done, but a thread keeps its process from leaving."""
    threading.Thread(target=time.sleep, args=(60,)).start()
    return os.getpid()


def gone(pid):
    """Whether a process has ended; one that nobody has looked after yet has, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Here:
    """A place in this very process, but jobs are handed over as elsewhere; the last comes first."""

    def __init__(self, at_once, _threads=None, say=print):
        self.at_once, self.say, self.waiting = at_once, say, []

    def start(self, job, found):
        assert len(self.waiting) < self.at_once
        self.waiting.append((job, found))

    def wait(self):
        return [self.outcome(*self.waiting.pop())]

    def outcome(self, job, found):
        try:
            do, found = pickle.loads(pack(job, found, 1).work)
            return Ended(job.name, do(Post(0, self.say, found)))
        except Exception as error:
            return Ended(job.name, error=error)

    def stop(self):
        self.waiting.clear()
