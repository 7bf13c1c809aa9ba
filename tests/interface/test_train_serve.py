"""``regard train --serve``: a training that is watched, then the run's page at the same address."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import yaml

from regard.checkpoints.run_folder import RunFolder
from regard.server.limits import listen
from regard.tasks.film import read_film
from regard.tasks.recipe import recipe_from


@pytest.fixture
def recipe(settings, tmp_path):
    """One of many steps, each of which is short."""
    often = {"max_steps": 100_000, "eval_every": 5, "save_every": 5}
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump({**settings, "train": {**settings["train"], **often}})
    )
    return tmp_path / "mine.yaml"


def told(address, path):
    with urllib.request.urlopen(address + path, timeout=30) as answer:
        return json.load(answer)


def until(ask, enough):
    """Ask until the answer is enough; a training takes a while to get there."""
    for _ in range(600):
        try:
            if enough(answer := ask()):
                return answer
        except urllib.error.HTTPError:  # of the server that takes the place of the first
            pass
        time.sleep(0.1)
    raise AssertionError("it never came")


def started(*words):
    """The program, and the address that it tells."""
    command = [sys.executable, "-m", "regard", "train", *map(str, words), "--serve", "--port", "0"]
    program = subprocess.Popen(command, stdout=-1, stderr=-1, text=True)
    line = program.stderr.readline()
    assert line.startswith("regard: watch it at http://127.0.0.1:"), line
    return program, line.split()[-1]


def test_a_training_is_watched_stopped_resumed_and_becomes_a_page(recipe, tmp_path):
    out = tmp_path / "run"
    program, address = started(recipe, "--out", out)
    with program:
        try:
            seen = until(lambda: told(address, "/api/training"), lambda one: len(one["steps"]) > 2)
            assert (seen["name"], seen["over"]) == ("run", False)
            assert seen["steps"][:3] == [0, 5, 10]
            assert "<svg" in seen["curves"][0]
            after = told(address, "/api/training/film?after=0")["frames"]
            assert [frame["step"] for frame in after][:2] == [5, 10]
            with pytest.raises(urllib.error.HTTPError, match="404"):  # it has no model
                told(address, "/api/info")
        finally:
            program.send_signal(signal.SIGINT)
            _, err = program.communicate(timeout=60)
    assert program.returncode == 130
    assert f"all is saved in {out}; go on with: regard train --resume --out {out}\n" in err
    last = read_film(out / "film.jsonl")[-1]["step"]
    program, address = started("--resume", "--out", out, "--set", f"max_steps={last + 5}")
    with program:
        try:
            seen = until(lambda: told(address, "/api/training"), lambda one: one["over"])
            assert seen["steps"][-1] == last + 5
            assert len({*seen["steps"]}) == len(seen["steps"])
            assert told(address, "/api/info")["has_training"] is True
        finally:
            program.send_signal(signal.SIGINT)
            program.communicate(timeout=60)
    assert program.returncode == 0


def test_a_port_that_is_taken_is_told_before_anything_is_trained(refused, recipe, tmp_path):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        words = ["train", recipe, "--out", tmp_path / "run", "--serve", "--port", port]
        assert f"127.0.0.1:{port}: Address already in use; " in refused(*words)
    assert not (tmp_path / "run").exists()


def test_only_this_machine_may_watch_and_nothing_but_files_is_read(settings, tmp_path):
    from starlette.testclient import TestClient

    from regard.server.watching import make_watching_app

    app = make_watching_app(RunFolder(tmp_path / "none yet"), recipe_from(settings))
    client = TestClient(app, base_url="http://localhost")
    fresh = client.get("/api/training").json()
    assert (fresh["step"], fresh["steps"], fresh["curves"]) == (0, [], [])
    assert client.get("/api/training", headers={"Host": "evil.example"}).status_code == 421
    assert client.get("/api/training/film?after=x").status_code == 422
    assert client.get("/healthz").json() == {"status": "ok"}
    assert "Content-Security-Policy" in client.get("/").headers
