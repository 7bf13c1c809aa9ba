"""Who may ask, from where, and how much they may send.

A server on this machine alone is still in reach of every web page that its user opens: a foreign
name can be made to point at 127.0.0.1. So on loopback the Host header must name this machine.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.errors import RefusedError, refusal
from regard.server.limits import Limits
from regard.server.listening import is_loopback

SAFE_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; "
     b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)  # fmt: skip
"""Nothing on the page may come from, or go to, another place."""

_bearer = HTTPBearer(auto_error=False, description="The key of `regard serve --api-key`, if any.")


def check_key(expected: str | None, *given: str | None) -> None:
    """Refuse where a key is expected and none of the given ones is it."""
    if expected is None:
        return
    keys = [one for one in given if one]
    if not keys:
        raise RefusedError(
            401,
            "this server asks for a key: send it as the header Authorization: Bearer KEY, or in "
            "the field api_key of the body",
        )
    if not any(_same(expected, one) for one in keys):
        raise RefusedError(401, "that key is wrong: use the one that the server was started with")


def _same(expected: str, given: str) -> bool:
    """How long the answer takes tells nothing about the key."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogatepass"))


def bearer(request: Request) -> str | None:
    """The key in the header ``Authorization: Bearer KEY``, if there is one."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def needs_key(expected: str | None) -> Callable[..., Coroutine[Any, Any, None]]:
    """A dependency for whatever costs work."""

    async def check(
        request: Request,
        header: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> None:
        if expected is not None:
            check_key(expected, header.credentials if header else None, await _in_body(request))

    return check


async def _in_body(request: Request) -> str | None:
    """The key in the field ``api_key`` of a JSON body; what else the body holds is not judged."""
    try:
        fields = json.loads(await request.body())
    except (ValueError, RecursionError):
        return None
    key = fields.get("api_key") if isinstance(fields, dict) else None
    return key if isinstance(key, str) else None


class Guard:
    """Host, number of open requests and size of the body, before anything else is looked at."""

    def __init__(self, app: ASGIApp, *, limits: Limits, loopback: bool) -> None:
        self.app = app
        self.limits = limits
        self.loopback = loopback
        self.n_open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.n_open += 1
        send = _safely(send)
        try:
            body = await self._checked(scope, receive)
            await self.app(scope, _replay(body, receive), send)
        except RefusedError as refused:
            await refusal(refused.status, str(refused))(scope, receive, send)
        finally:
            self.n_open -= 1

    async def _checked(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request that may come in."""
        if self.loopback and not _names_this_machine(scope):
            raise RefusedError(
                421, "this server answers to localhost only; look at the Host header"
            )
        if self.n_open > self.limits.requests:
            raise RefusedError(503, "too many requests are open; ask again later")
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await _body(scope, receive, self.limits.body_bytes)
        except TimeoutError:
            raise RefusedError(408, "the request did not arrive in time") from None


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _names_this_machine(scope: Scope) -> bool:
    hosts = _headers(scope, b"host")
    if len(hosts) != 1:
        return False
    name, colon, port = hosts[0].rpartition(":")
    has_port = bool(colon) and port.isascii() and port.isdigit()
    return is_loopback(name if has_port else hosts[0])


async def _body(scope: Scope, receive: Receive, at_most: int) -> bytes:
    """All of it, so that nothing behind can be made to read without end."""
    lengths = _headers(scope, b"content-length")
    too_large = RefusedError(413, f"a request may have {at_most} bytes at most; send less at once")
    if any(length.isdecimal() and int(length[:20]) > at_most for length in lengths):
        raise too_large
    parts: list[bytes] = []
    n_bytes = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedError(400, "the client went away")
        parts.append(message.get("body", b""))
        n_bytes += len(parts[-1])
        if n_bytes > at_most:
            raise too_large
        more = message.get("more_body", False)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once; after it, whatever else the client does."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


def _safely(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *SAFE_HEADERS]}
        await send(message)

    return sending
