"""Processes that answer files are killed, one and then all: the same command ends with the same."""

import os
import random
import signal
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from at_work import Here, gone
from letters import LETTERS
from programs import said

from regard.core.errors import WorkerError
from regard.core.lock import claimed
from regard.runs import answering, bulk
from regard.runs.answering import Answering
from regard.runs.jobs import Ended, Job, LostError

N, PART = 2000, 20
FEW = 200


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = random.Random(3)
    made = (" ".join(rng.choices(LETTERS, k=rng.randint(1, 8))) for _ in range(N))
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in made))
    return path


def planned(run_path, path, out):
    how = Answering(
        verb="translate", runs=(run_path,), options="{}", as_json=False, device="cpu", threads=1,
        seed=0, folder=Path.cwd(),
    )  # fmt: skip
    return bulk.planned(how, None, patterns=[str(path)], out=out, part_lines=PART)


@pytest.fixture(scope="module")
def wanted(run_path, path, tmp_path_factory):
    """What one process answers, and nothing disturbs."""
    out = tmp_path_factory.mktemp("wanted") / "out"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bulk, "Processes", Here)
        bulk.answer_files(planned(run_path, path, out), workers=1, say=print)
    answers = (out / path.name).read_bytes()
    assert answers.count(b"\n") == N
    return answers


@pytest.fixture
def few(path, wanted, tmp_path):
    """The first lines in a file of their own, and their answers."""
    short = tmp_path / "few.txt"
    short.write_text("".join(path.read_text().splitlines(keepends=True)[:FEW]))
    return short, b"".join(wanted.splitlines(keepends=True)[:FEW])


def owners(out):
    """The processes that hold claims, or held them last."""
    told = [claim.read_text() for claim in (out / "parts").glob("*.claim")]
    return {int(one.rpartition(" ")[2]) for one in told if one}


def n_answered(out):
    return len(list((out / "parts").glob("*.answers")))


def wait_until(true, process):
    while not true():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)


@pytest.mark.slow
def test_one_then_all_are_killed_and_nothing_is_lost_or_doubled(
    started, run_path, path, wanted, tmp_path
):
    out = tmp_path / "out"
    words = ["translate", run_path, "--in", path, "--out", out, "--workers", "2"]
    words += ["--part-lines", PART, "--device", "cpu"]
    first = started("-m", "regard", *words)
    wait_until(lambda: owners(out), first)
    os.kill(one := max(owners(out)), signal.SIGKILL)
    told = first.stderr.readline()
    assert "its process ended by SIGKILL; the others take over" in told
    before = n_answered(out)
    wait_until(lambda: n_answered(out) > before, first)
    (other,) = owners(out) - {one}
    first.kill()  # and the other ends with it
    first.communicate()
    while not gone(other):
        time.sleep(0.01)
    assert 0 < n_answered(out) < N // PART  # it was still at work
    assert not (out / path.name).exists()
    left = list((out / "parts").glob("*.partial"))

    fewer = [word if word != "2" else "1" for word in words]  # changes nothing
    done = started("-m", "regard", *fewer)
    _, told = said(done)
    assert done.returncode == 0, told
    assert "are there already" in told
    assert (out / path.name).read_bytes() == wanted
    assert {one.name for one in out.iterdir()} == {"manifest.json", "notes.txt", path.name}
    assert all(not one.exists() for one in left)


class Deadly(Here):
    """A place whose jobs die after three parts each."""

    def outcome(self, job, found):
        how, parts = job.do.args
        super().outcome(Job(job.name, partial(job.do.func, how, parts[:3])), found)
        return Ended(job.name, error=LostError(f"{job.name}: its process ended"))


def test_when_no_worker_is_left_it_is_told_and_another_command_goes_on(
    run_path, few, tmp_path, monkeypatch
):
    path, wanted = few
    asked = planned(run_path, path, tmp_path / "out")
    monkeypatch.setattr(bulk, "Processes", Deadly)
    told = []
    with pytest.raises(WorkerError, match=r"no worker is left \(worker 1: its process ended\)"):
        bulk.answer_files(asked, workers=2, say=told.append)
    assert told == ["worker 2: its process ended; the others take over"]
    assert n_answered(asked.out) == 3
    monkeypatch.setattr(bulk, "Processes", Here)
    bulk.answer_files(asked, workers=1, say=told.append)
    assert (asked.out / path.name).read_bytes() == wanted
    assert told[1].startswith("3 of 10 parts are there already")


def test_a_part_that_is_claimed_is_left_and_looked_at_again(run_path, few, tmp_path, monkeypatch):
    """Its owner may be killed, or be another machine's."""
    path, wanted = few
    asked = planned(run_path, path, tmp_path / "out")
    monkeypatch.setattr(bulk, "Processes", Here)
    (asked.out / "parts").mkdir()
    first = next(asked.parts())
    answered = []
    with ExitStack() as held:
        assert held.enter_context(claimed(first.claim))

        def slept(_seconds):
            answered.append(n_answered(asked.out))
            held.close()  # its owner dies

        monkeypatch.setattr(answering.time, "sleep", slept)
        bulk.answer_files(asked, workers=1, say=print)
    assert answered == [FEW // PART - 1]
    assert (asked.out / path.name).read_bytes() == wanted


class KilledError(BaseException):
    pass


def test_killed_while_it_joins_it_is_joined_again(run_path, few, tmp_path, monkeypatch):
    """Parts are only deleted when every file is there."""
    path, wanted = few
    asked = planned(run_path, path, tmp_path / "out")
    monkeypatch.setattr(bulk, "Processes", Here)
    copy, copied = bulk.shutil.copyfileobj, []

    def dying(source, target):
        copied.append(source)
        if len(copied) == 7:
            raise KilledError
        copy(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(bulk.shutil, "copyfileobj", dying)
        with pytest.raises(KilledError):
            bulk.answer_files(asked, workers=1, say=print)
    assert not (asked.out / path.name).exists()
    assert n_answered(asked.out) == FEW // PART
    bulk.answer_files(asked, workers=1, say=print)
    assert (asked.out / path.name).read_bytes() == wanted
