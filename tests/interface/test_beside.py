"""A run that is served beside another, to be compared with."""

from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

import regard
from regard.core.errors import ConfigError
from regard.server.app import make_app

NAME = "decoder.cross"


@pytest.fixture(scope="module")
def loaded(run_path):
    return regard.load(run_path, device="cpu")


def test_both_runs_are_asked_at_one_server(loaded):
    with TestClient(make_app(loaded, beside=loaded), base_url="http://127.0.0.1") as client:
        assert client.get("/api/info").json()["beside"] == {"name": "short"}
        found = client.post("/api/beside/explain", json={"source": "a b c"}).json()
    look = loaded.explain("a b c")
    assert found["translation"] == look.translation
    assert found["attentions"][NAME][0][1] == pytest.approx(look.weights(NAME)[1])


def test_without_one_there_is_none_to_ask(loaded):
    with TestClient(make_app(loaded), base_url="http://127.0.0.1") as client:
        assert client.get("/api/info").json()["beside"] is None
        assert client.post("/api/beside/explain", json={"source": "a"}).status_code == 404


def test_runs_of_two_tasks_are_not_compared(loaded):
    other = SimpleNamespace(task="language", folder=SimpleNamespace(path="runs/other"))
    with pytest.raises(ConfigError, match=r"of the task translation, runs/other of the task lang"):
        make_app(loaded, beside=other)


def test_a_folder_that_is_not_there_is_told_in_one_line(run, run_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # runs that lie here would be told of
    code, _, err = run("serve", run_path, "--beside", "nowhere", "--port", "0")
    assert (code, err) == (2, "regard: there is no run folder nowhere\n")
