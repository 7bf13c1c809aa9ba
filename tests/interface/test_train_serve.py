"""``regard train --serve``: a training that is watched, then the run's page at the same address."""

import json
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest
import yaml
from programs import said
from starlette.testclient import TestClient

from regard.checkpoints.run_folder import RunFolder
from regard.server.limits import listen
from regard.server.watching import WatchingServer, make_watching_app, watched
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


@pytest.fixture
def shown(started):
    """Begin a training -> the program, and the address that it tells."""

    def begin(*words):
        program = started("-m", "regard", "train", *words, "--serve", "--port", 0)
        line = program.stderr.readline()
        assert line.startswith("regard: watch it at http://127.0.0.1:"), line
        return program, line.split()[-1]

    return begin


def test_a_training_is_watched_stopped_resumed_and_becomes_a_page(shown, recipe, tmp_path):
    out = tmp_path / "run"
    program, address = shown(recipe, "--out", out)
    seen = until(lambda: told(address, "/api/training"), lambda one: len(one["steps"]) > 2)
    assert (seen["name"], seen["over"]) == ("run", False)
    assert seen["steps"][:3] == [0, 5, 10]
    assert "<svg" in seen["curves"][0]
    after = told(address, "/api/training/film?after=0")["frames"]
    assert [frame["step"] for frame in after][:2] == [5, 10]
    with pytest.raises(urllib.error.HTTPError, match="404"):  # it has no model
        told(address, "/api/info")
    program.send_signal(signal.SIGINT)
    _, err = said(program)
    assert program.returncode == 130
    assert f"all is saved in {out}; go on with: regard train --resume --out {out}\n" in err
    last = read_film(out / "film.jsonl")[-1]["step"]
    program, address = shown("--resume", "--out", out, "--set", f"max_steps={last + 5}")
    seen = until(lambda: told(address, "/api/training"), lambda one: one["over"])
    assert seen["steps"][-1] == last + 5
    assert len({*seen["steps"]}) == len(seen["steps"])
    assert told(address, "/api/info")["has_training"] is True
    program.send_signal(signal.SIGINT)
    said(program)
    assert program.returncode == 0


def test_a_port_that_is_taken_is_told_before_anything_is_trained(refused, recipe, tmp_path):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        words = ["train", recipe, "--out", tmp_path / "run", "--serve", "--port", port]
        assert f"127.0.0.1:{port}: Address already in use; " in refused(*words)
    assert not (tmp_path / "run").exists()


def test_only_this_machine_may_watch_and_nothing_but_files_is_read(settings, tmp_path):
    app = make_watching_app(RunFolder(tmp_path / "none yet"), recipe_from(settings))
    client = TestClient(app, base_url="http://localhost")
    fresh = client.get("/api/training").json()
    assert (fresh["step"], fresh["steps"], fresh["curves"]) == (0, [], [])
    assert client.get("/api/training", headers={"Host": "evil.example"}).status_code == 421
    assert client.get("/api/training/film?after=x").status_code == 422
    assert client.get("/healthz").json() == {"status": "ok"}
    assert "Content-Security-Policy" in client.get("/").headers


def broken(error):
    async def fails(_self, *_args, **_more):
        raise error

    return fails


async def ends(_self, *_args, **_more):
    """As a server does that cannot begin."""


FAILURES = {
    "it cannot begin": ("startup", broken(OSError("no room")), "OSError, no room"),
    "it leaves": ("startup", broken(SystemExit(3)), "SystemExit, 3"),
    "it breaks later": ("main_loop", broken(RuntimeError("broken")), "RuntimeError, broken"),
    "it returns": ("serve", ends, "it ended by itself"),
}


@pytest.mark.parametrize(("method", "how", "why"), FAILURES.values(), ids=FAILURES)
def test_a_server_that_fails_is_told_in_a_line_and_the_training_goes_on(
    settings, tmp_path, monkeypatch, capsys, method, how, why
):
    monkeypatch.setattr(WatchingServer, method, how)
    went_on = False
    with listen("127.0.0.1", 0) as listening:
        folder = RunFolder(tmp_path)
        with watched(folder, recipe_from(settings), listening):
            for thread in threading.enumerate():
                if thread.name == "watching":
                    thread.join(30)  # it says what is wrong before it ends
            went_on = True
        port = listening.getsockname()[1]
    assert went_on
    (line,) = capsys.readouterr().err.splitlines()
    where = f"http://127.0.0.1:{port}"
    assert line == f"regard: the training cannot be watched at {where}: {why}; it goes on"


def test_a_server_that_ends_with_the_training_says_nothing(settings, tmp_path, capsys):
    addresses, shown = [], (RunFolder(tmp_path), recipe_from(settings))
    with (
        listen("127.0.0.1", 0) as listening,
        watched(*shown, listening, addresses.append),
    ):
        assert told(addresses[0], "/healthz") == {"status": "ok"}
    assert capsys.readouterr().err == ""


WRONG = {
    "a text": '"high"',
    "nothing": "null",
    "not a number": "NaN",
    "infinite": "-Infinity",
    "beyond every number": "1e999",
    "a list": "[1]",
    "true": "true",
}


@pytest.fixture
def told_of(settings, tmp_path):
    """What is told of a training whose metrics are such lines."""

    def ask(*lines):
        folder = RunFolder(tmp_path)
        folder.metrics.write_bytes(b"\n".join(lines))
        app = make_watching_app(folder, recipe_from(settings))
        answer = TestClient(app, base_url="http://localhost").get("/api/training")
        assert answer.status_code == 200, answer.text
        return answer.json()

    return ask


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("name", ["loss", "seconds", "bleu"])
def test_what_is_no_number_in_the_metrics_leaves_a_gap_and_is_told(told_of, name, wrong):
    line = {"step": 1, "kind": "valid", "loss": 2.0, "bleu": 10.0, "seconds": 3.5}
    whole, other = json.dumps(line), json.dumps({**line, "step": 2, name: "WRONG"})
    told = told_of(whole.encode(), other.replace('"WRONG"', wrong).encode())
    assert (told["step"], told["seconds"]) == (2, 3.5)
    assert told["notes"] == [
        "metrics.jsonl has 1 value that should be a finite number and is not; "
        "curves have gaps there"
    ]
    assert "NaN" not in "".join(told["curves"])
    assert told_of(whole.encode())["notes"] == []


def test_a_line_that_is_being_written_is_no_trouble(told_of):
    line = json.dumps({"step": 4, "kind": "train", "loss": 2.0, "seconds": 1.0}).encode()
    for n in range(len(line)):
        told = told_of(line, line.replace(b"4", b"5")[:n])
        assert (told["step"], told["notes"]) == (4, [])


def test_metrics_that_are_no_text_are_told_without_their_folder(told_of):
    told = told_of(b"\xff\xfe")
    assert told["notes"] == ["metrics.jsonl cannot be read: it is too large, or not a text file"]
    assert (told["step"], told["curves"]) == (0, [])


def test_a_step_beyond_every_count_is_told_as_it_is(told_of):
    line = json.dumps({"step": 10**90, "kind": "train", "loss": 2.0, "seconds": 1.0}).encode()
    assert told_of(line)["share"] == 1
