"""Calling the program as a shell would, and its server as a client would."""

import io
import sys
import threading

import pytest
import uvicorn
from chats import chat_folder
from starlette.testclient import TestClient

from regard.cli.main import main
from regard.server.app import make_app
from regard.server.limits import address_of, listen
from regard.tasks.opening import load


@pytest.fixture
def run(capsys, monkeypatch):
    """Call the program; -> exit code, standard output, standard error."""

    def call(*argv, stdin=""):
        raw = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        code = main([str(word) for word in argv])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def refused(run):
    """Call the program, which must fail with one line; -> the line."""

    def call(*argv, stdin=""):
        code, out, err = run(*argv, stdin=stdin)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("regard: ")
        return err

    return call


@pytest.fixture
def serving():
    """Serve a run that reads one text; -> its address."""
    servers = []

    def serve(run, **how):
        listening = listen("127.0.0.1", 0)
        config = uvicorn.Config(make_app(run, **how), log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        servers.append((server, thread, listening))
        return address_of(listening)

    yield serve
    for server, thread, listening in servers:
        server.should_exit = True
        thread.join(timeout=20)
        listening.close()


@pytest.fixture(scope="session")
def talker(tmp_path_factory):
    """A small language model that has a template for conversations."""
    return load(chat_folder(tmp_path_factory.mktemp("talker")), device="cpu")


@pytest.fixture(scope="module")
def client(talker):
    """Of a server of ``talker``; files about other runs have one of their own."""
    with TestClient(make_app(talker), base_url="http://localhost") as client:
        yield client
