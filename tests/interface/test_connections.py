"""Connections that do nothing, drip, or never read take neither the server nor its log away."""

import asyncio
import logging
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager

import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from regard.server.limits import Limits, address_of, listen
from regard.server.log import (
    MOST_LINES,
    logged_to_standard_error,
    tell_of_loop_errors,
    unchanged_loggers,
)
from regard.server.serve import AppServer

LARGE = 16 * 2**20


@contextmanager
def serving(**limits):
    """A server of two plain pages; -> itself and where it listens."""
    app = FastAPI()
    app.state.on_stop = app.state.on_hurry = lambda: None
    free = app.state.free = threading.Event()

    @app.get("/")
    async def page():
        return PlainTextResponse("here")

    @app.get("/large")
    async def large():
        return PlainTextResponse("x" * LARGE)

    @app.get("/slow")
    def slow():
        return PlainTextResponse(f"{free.wait(30)}")

    with listen("127.0.0.1", 0) as listening, unchanged_loggers("uvicorn.error"):
        server = AppServer(app, limits=Limits(**limits))
        loop = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
        loop.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield server, listening
        finally:
            free.set()
            server.should_exit = True
            loop.join(30)
            assert not loop.is_alive()


def said(listening):
    with urllib.request.urlopen(address_of(listening), timeout=20) as answer:
        return answer.read()


def connected(listening, sent=b""):
    line = socket.create_connection(listening.getsockname(), timeout=20)
    line.sendall(sent)
    return line


def wait_until(reached):
    end = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_any_number_of_idle_connections_leaves_room_for_a_request():
    with serving(connections=8) as (server, listening), ExitStack() as lines:
        for _ in range(5):
            for _ in range(12):
                lines.enter_context(connected(listening, b"GET / HT"))
            assert said(listening) == b"here"
            assert len(server.server_state.connections) <= 8


def test_a_place_is_made_among_those_who_have_most_and_never_by_ending_a_request():
    with serving(connections=2) as (server, listening):
        first, second = (
            connected(listening, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n") for _ in "ab"
        )
        wait_until(lambda: len(server.server_state.tasks) == 2)
        with connected(listening) as third:
            told = third.recv(1000)
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in told
        server.config.app.state.free.set()
        for line in (first, second):
            with line:
                assert line.recv(1000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHo",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo",
    ],
)
def test_a_head_that_does_not_arrive_is_not_waited_for(sent):
    """Not even if a letter comes now and then, nor after a first request."""
    with serving(arrival=0.5) as (server, listening), connected(listening, sent) as line:
        with pytest.raises(OSError, match=r"[Rr]eset|[Bb]roken pipe"):  # noqa: PT012
            for _ in range(400):
                line.sendall(b"x")
                time.sleep(0.05)
        assert not server.server_state.connections


def test_an_answer_that_nobody_reads_is_not_kept():
    with (
        serving(seconds=0.3, arrival=0.3) as (server, listening),
        connected(listening, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"),
    ):
        wait_until(lambda: server.server_state.connections)
        wait_until(lambda: not server.server_state.connections)


@pytest.fixture
def logging_to_standard_error():
    with logged_to_standard_error():
        yield


def test_a_flood_of_errors_is_a_few_lines_in_the_log(capsys, logging_to_standard_error):
    """As many as asyncio tells of in a second when no connection can be accepted any more."""

    async def flood():
        loop = asyncio.get_running_loop()
        tell_of_loop_errors(loop)
        error = OSError(24, "Too many open files\x1b[2J\nsecond line")
        for _ in range(2048):
            about = {"message": "socket.accept() out of system resource", "exception": error}
            loop.call_exception_handler(about)
        for _ in range(2048):
            logging.getLogger("uvicorn.error").error(
                "Exception in ASGI application\n", exc_info=error
            )

    asyncio.run(flood())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == MOST_LINES + 1
    assert lines[0].startswith("regard: socket.accept() out of system resource: OSError: ")
    assert lines[-1] == "regard: further lines are left out for 60 s"
    assert "\x1b" not in "".join(lines)
