"""Around every request: who may ask, from where and how much; what is counted; what goes wrong.

A server on this machine alone is still in reach of every web page that its user opens: a foreign
name can be made to point at 127.0.0.1. So on loopback the Host header must name this machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.admission import METRICS, Keys, OwnPage, RequestRate, client_of, costs
from regard.server.batcher import CLIENT
from regard.server.errors import BusyError, RefusedError, refusal
from regard.server.limits import Limits, is_loopback
from regard.server.log import log_error

SAFE_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; "
     b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)  # fmt: skip
"""Nothing on the page may come from, or go to, another place; nothing here is part of others."""
CLIENT_GONE = 499
"""Counted where a client went before it had an answer, as nginx does."""

_bearer = HTTPBearer(auto_error=False, description="The key of `regard serve --api-key`, if any.")

# ------------------------------------------------------------------ the server's key


def bearer(request: Request) -> str | None:
    """The key in the header ``Authorization: Bearer KEY``, if there is one."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def needs_key(keys: Keys) -> Callable[..., Coroutine[Any, Any, None]]:
    """A dependency for whatever costs work."""

    async def check(
        request: Request, header: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
    ) -> None:
        if keys.asked_for:
            keys.check(header.credentials if header else None, await _in_body(request))

    return check


async def _in_body(request: Request) -> str | None:
    """The key in the field ``api_key`` of a JSON body; what else the body holds is not judged."""
    try:
        fields = json.loads(await request.body())
    except (ValueError, RecursionError):
        return None
    key = fields.get("api_key") if isinstance(fields, dict) else None
    return key if isinstance(key, str) else None


# ------------------------------------------------------------------ what may come in


class Guard:
    """Who asks and from where, number of open requests and size of the body, before all else.

    A request whose client goes away is given up.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        loopback: bool,
        own_page: OwnPage,
        rate: RequestRate | None = None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.loopback = loopback
        self.own_page = own_page
        self.rate = rate
        self.n_open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *SAFE_HEADERS]}
            await send(message)

        self.n_open += 1
        CLIENT.set(client_of(scope))
        try:
            body = await self._checked(scope, receive)
            await _while_connected(self.app, scope, body, receive, safely)
        except RefusedError as refused:
            await refused.response(scope["path"])(scope, receive, safely)
        finally:
            self.n_open -= 1

    async def _checked(self, scope: Scope, receive: Receive) -> bytes:
        headers = Headers(scope=scope)
        if self.loopback and not _names_this_machine(headers.getlist("host")):
            why = "this server answers to localhost only; look at the Host header"
            raise RefusedError(421, why)
        if self.n_open > self.limits.requests:
            raise BusyError("too many requests are open; ask again later")
        if costs(scope["path"]):
            self.own_page.check(headers)
            if self.rate is not None and scope["path"] != METRICS:
                self.rate.check(CLIENT.get())
        try:
            async with asyncio.timeout(self.limits.arrival):
                return await _body(headers, receive, self.limits.body_bytes)
        except TimeoutError:
            raise RefusedError(408, "the request did not arrive in time") from None


async def _while_connected(
    app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send
) -> None:
    """Let a request whose body is there be answered, unless its client goes before."""
    left, answered = [body], False
    gone = asyncio.create_task(_disconnected(receive))

    async def again() -> Message:
        """The body once; after it, that the client has gone."""
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        await asyncio.shield(gone)
        return {"type": "http.disconnect"}

    async def noting(message: Message) -> None:
        nonlocal answered
        ends = message["type"] == "http.response.body" and not message.get("more_body", False)
        answered = answered or ends
        await send(message)

    async def answering() -> None:
        await app(scope, again, noting)

    working = asyncio.create_task(answering())
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done() or answered:
            await working
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    """Wait until the client has gone; after its body it has nothing else to say."""
    message = await receive()
    if message["type"] != "http.disconnect":
        await asyncio.Event().wait()


def _names_this_machine(hosts: list[str]) -> bool:
    if len(hosts) != 1:
        return False
    name, colon, port = hosts[0].rpartition(":")
    has_port = bool(colon) and port.isascii() and port.isdigit()
    return is_loopback(name if has_port else hosts[0])


async def _body(headers: Headers, receive: Receive, at_most: int) -> bytes:
    """All of it, so that nothing behind can be made to read without end."""
    too_large = RefusedError(413, f"a request may have {at_most} bytes at most; send less at once")
    lengths = headers.getlist("content-length")
    if any(length.isdecimal() and int(length[:20]) > at_most for length in lengths):
        raise too_large
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedError(400, "the client went away")
        body += message.get("body", b"")
        if len(body) > at_most:
            raise too_large
        more = message.get("more_body", False)
    return body


# ------------------------------------------------------------------ what is counted and logged


class Metrics:
    """Counters of one app, in a registry of its own: two apps do not disturb each other."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        mine: Any = {"registry": self.registry}
        self.requests = Counter("regard_requests", "Requests answered.", ("path", "status"), **mine)
        self.seconds = Histogram("regard_request_seconds", "Time of a request.", ("path",), **mine)
        sizes = (1, 2, 4, 8, 16, 32, 64)
        texts = "Texts translated together."
        self.batches = Histogram("regard_batch_texts", texts, buckets=sizes, **mine)
        self.waiting = Gauge("regard_waiting", "Jobs that wait.", **mine)


class Monitor:
    """Around everything: counts, times, and keeps the server up when something breaks."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. What fails inside becomes a 500 that tells nothing."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except asyncio.CancelledError:  # the server ends and has waited long enough
            if status:
                raise
            ending = refusal(503, "the server is ending", scope["path"])
            await ending(scope, receive, noting)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic in Rust is no Exception
            log_error(f"{scope['method']} {scope['path']!a}", error)
            if status:  # half an answer is out; the connection must not look whole
                raise
            why = "something went wrong; the server's log has more"
            await refusal(500, why, scope["path"])(scope, receive, noting)
        finally:
            # What matches no route is counted together, so that labels stay few.
            static = scope["path"].startswith("/static/")
            path = "/static" if static else getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(path, str(status or CLIENT_GONE)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - began)
