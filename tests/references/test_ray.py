"""Answers and jobs on a Ray cluster of two machines, which are two sets of processes here."""

import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import at_work
import pytest
import yaml

from regard.core.errors import ConfigError, DataError, WorkerError
from regard.runs import bulk, cluster
from regard.runs.answering import Answering
from regard.runs.cluster import RayCluster, check_answers
from regard.runs.jobs import Job, run_jobs
from regard.runs.side_by_side import Crew
from regard.runs.sweep import plan, sweep

os.environ.update(cluster.QUIET)  # before Ray is imported
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own are many


@pytest.fixture(scope="module")
def machines():
    """Two of two cores each: Ray starves where they have one."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patched:
        path = [str(Path(at_work.__file__).parent), os.environ.get("PYTHONPATH", "")]
        patched.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        found.second = found.add_node(num_cpus=2)
    ray.init(address=found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


def test_jobs_come_to_what_they_do_elsewhere(machines):
    place = RayCluster(machines.address, threads=1)
    jobs = [
        Job("first", partial(at_work.tell, "one")),
        Job("second", partial(at_work.tell, "two"), after=("first",)),
        Job("refused", at_work.refuse),
    ]
    ended = {one.name: one for one in run_jobs(jobs, place)}
    assert ended["second"].value == ("two", {"first": ("one", {}, "1")}, "1")
    assert type(ended["refused"].error) is DataError
    with pytest.raises(ConfigError, match="no machine of the cluster .* has 64 cores"):
        RayCluster(machines.address, threads=64)


def test_a_sweep_comes_to_what_it_does_elsewhere(machines, settings, tmp_path, monkeypatch):
    begun = []
    start = RayCluster.start
    monkeypatch.setattr(
        RayCluster, "start", lambda self, job, found: (begun.append(job), start(self, job, found))
    )
    few = {"max_steps": 4, "save_every": 4, "eval_every": 2, "log_every": 2}
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(yaml.safe_dump({**settings, "train": {**settings["train"], **few}}))

    def losses(folder, crew):
        asked = plan(str(recipe), ["lr=1e-5,5e-3"], folder, by="valid.loss")
        came = sweep(asked, folder, device="cpu", crew=crew)
        return {one.trial.name: one.trial.cost(one.steps) for one in came}

    there = losses(tmp_path / "there", Crew(cluster=machines.address))
    assert len(begun) == 2  # on the cluster
    assert [*there] == ["lr=5e-3", "lr=1e-5"]
    assert there == pytest.approx(losses(tmp_path / "here", Crew()), rel=1e-3)


def workers_at(path):
    """Processes that answer a file: Ray calls them by what they do."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_text().startswith(f"ray::{path}"):
                found.append(int(process.name))
    return found


def test_a_worker_and_a_machine_die_and_nothing_is_lost(machines, run_path, tmp_path, monkeypatch):
    path, out = tmp_path / "lines.txt", tmp_path / "out"
    path.write_text(
        "".join(f"{a} {b} {c}\n" for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh")
    )
    how = Answering(
        verb="translate", runs=(run_path,), options="{}", as_json=False, device="cpu", threads=1,
        seed=0, folder=Path.cwd(),
    )  # fmt: skip
    planned = partial(bulk.planned, how, None, patterns=[str(path)], part_lines=8)
    killed = []

    class Killing(RayCluster):
        """Something dies after the third part, and after the eighth."""

        def wait(self):
            ended = super().wait()
            n = len(list((out / "parts").glob("*.answers")))
            if n >= 3 and not killed and (found := workers_at(path)):  # none between two parts
                os.kill(found[0], signal.SIGKILL)
                killed.append("a worker")
            elif n >= 8 and len(killed) == 1:
                machines.remove_node(machines.second, allow_graceful=False)
                killed.append("a machine")
            return ended

    monkeypatch.setattr(bulk, "RayCluster", Killing)
    bulk.answer_files(planned(out=out), workers=2, cluster=machines.address, say=print)
    assert len(killed) == 2
    monkeypatch.setattr(bulk, "Processes", at_work.Here)
    bulk.answer_files(planned(out=tmp_path / "alone"), workers=1, say=print)
    assert (out / path.name).read_bytes() == (tmp_path / "alone" / path.name).read_bytes()


def test_a_cluster_that_does_not_answer_is_told_in_time(monkeypatch):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(cluster, "ANSWERED", 0.5)
        with pytest.raises(WorkerError, match="did not answer in 0.5 s"):
            check_answers(address)
    with pytest.raises(WorkerError, match="cannot be reached: Connection refused"):
        check_answers(address)
