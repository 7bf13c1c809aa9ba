"""Jobs in processes of their own: order, errors, kills, and the end of all."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import at_work
import pytest
from at_work import gone

from regard.core.errors import ConfigError, DataError
from regard.runs.jobs import Job, LostError, Processes, check_count, run_jobs, threads_each

TESTS = str(Path(at_work.__file__).parent)


def awaited(path, seconds=20):
    last = time.monotonic() + seconds
    while not path.exists() or not path.read_text():
        assert time.monotonic() < last
        time.sleep(0.02)
    return path.read_text()


def gone_soon(pid, seconds=20):
    last = time.monotonic() + seconds
    while not gone(pid):
        assert time.monotonic() < last
        time.sleep(0.02)


def test_a_job_waits_for_those_before_it_and_is_told_what_they_came_to():
    told = []
    jobs = [
        Job("first", partial(at_work.tell, "one")),
        Job("second", partial(at_work.tell, "two"), after=("first",)),
    ]
    ended = list(run_jobs(jobs, Processes(2, threads=3, say=told.append)))
    assert [one.name for one in ended] == ["first", "second"]
    assert ended[0].value == ("one", {}, "3")
    assert ended[1].value == ("two", {"first": ("one", {}, "3")}, "3")
    assert told == ["one!", "two!"]


def test_warnings_are_told_by_who_started_the_job(caplog, capfd):
    (ended,) = run_jobs([Job("copy, seed-1", at_work.warn)], Processes(1))
    assert ended.error is None
    assert caplog.messages == ["copy, seed-1: 2 translations cut off"]
    assert capfd.readouterr().err == ""


def test_a_process_that_does_not_leave_holds_nobody_up(monkeypatch):
    monkeypatch.setattr("regard.runs.jobs.GRACE", 0.2)
    began = time.monotonic()
    (ended,) = run_jobs([Job("done", at_work.stay)], Processes(1))
    assert ended.error is None
    gone_soon(ended.value)
    assert time.monotonic() - began < 30  # its thread sleeps for a minute


def test_errors_come_with_their_kind_and_what_stands_after_a_failure_has_failed():
    jobs = [
        Job("refused", at_work.refuse),
        Job("needing it", partial(at_work.tell, "never"), after=("refused",)),
        Job("awkward", at_work.refuse_awkwardly),
        Job("unexpected", at_work.fail),
        Job("killed", at_work.die),
        Job("sound", partial(at_work.tell, "fine")),
    ]
    ended = {one.name: one for one in run_jobs(jobs, Processes(2, say=print))}
    errors = {name: one.error for name, one in ended.items()}
    assert type(errors["refused"]) is DataError
    assert str(errors["refused"]) == "line 7: no such word"
    assert str(errors["needing it"]) == "needing it needs refused, which has failed"
    assert type(errors["awkward"]) is DataError  # the nearest kind that can be sent
    assert str(errors["awkward"]) == "line 8"
    assert type(errors["unexpected"]) is KeyError
    assert "in fail" in str(errors["unexpected"].__cause__)  # where it was raised
    assert type(errors["killed"]) is LostError
    assert "ended by SIGKILL" in str(errors["killed"])
    assert ended["sound"].error is None


def test_who_stops_listening_ends_all_and_they_may_save(tmp_path):
    jobs = [
        Job("long", partial(at_work.wait_long, tmp_path / "long")),
        Job("soon", at_work.refuse),
    ]
    running = run_jobs(jobs, Processes(2, say=print))
    assert next(running).name == "soon"
    pid = int(awaited(tmp_path / "long"))
    running.close()
    assert gone(pid)
    assert (tmp_path / "long.stopped").read_text() == "SIGTERM"


PARENT = """
import sys
from functools import partial
from pathlib import Path
import at_work
from regard.core.signals import Stop, raise_stop, signals_to
from regard.runs.jobs import Job, Processes, run_jobs
if __name__ == "__main__":
    jobs = [Job(n, partial(at_work.wait_long, Path(sys.argv[1]) / n)) for n in "ab"]
    try:
        with signals_to(raise_stop):
            list(run_jobs(jobs, Processes(2)))
    except Stop:
        print("stopped")
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_children_end_with_their_parent(tmp_path, number):
    """Killed, it can tell them nothing; on Ctrl-C it tells them once, so that they can save."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    path = os.pathsep.join([TESTS, *filter(None, [os.environ.get("PYTHONPATH")])])
    parent = subprocess.Popen(
        [sys.executable, script, tmp_path],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pids = [int(awaited(tmp_path / name)) for name in "ab"]
    if number == signal.SIGINT:
        os.killpg(parent.pid, number)  # as a terminal does
    else:
        parent.kill()
    for pid in pids:
        gone_soon(pid)
    for name in "ab":
        assert awaited(tmp_path / f"{name}.stopped") == "SIGTERM"
    out, err = parent.communicate(timeout=20)
    assert (out, err) == ("stopped\n" if number == signal.SIGINT else "", "")


def test_threads_are_shared_unless_they_were_told(monkeypatch):
    monkeypatch.setattr("regard.runs.jobs.n_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads_each(2) == 5
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert [threads_each(n) for n in (1, 3, 16)] == [8, 2, 1]


def test_none_at_work_is_refused():
    check_count("--jobs", 1)
    with pytest.raises(ConfigError, match=r"--jobs 0: at least one must work"):
        check_count("--jobs", 0)
