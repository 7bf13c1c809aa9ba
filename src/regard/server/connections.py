"""Open connections: how many there may be, and how long each may take.

uvicorn bounds requests, not connections: one that sends nothing stays open for ever, and so does
one that sends its head a letter a minute or never reads its answer. Here each has a deadline, and
where there are as many as may be, a new one takes the place of one that is doing nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.server.errors import RETRY_AFTER, as_json
from regard.server.limits import LIMITS, Limits

_FULL = as_json({"error": "too many connections are open; ask again later"})
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Retry-After: %b\r\nContent-Length: %d\r\n\r\n%b" % (RETRY_AFTER.encode(), len(_FULL), _FULL)
)
"""What a connection is told that finds all places taken by requests."""


def bounded_protocol(limits: Limits) -> type[BoundedProtocol]:
    """The protocol of a server with these limits, as uvicorn takes it."""
    fewer = min(limits.connections, most_open_files() // 2)
    return type("BoundedProtocol", (BoundedProtocol,), {"limits": limits, "most": fewer})


def backlog() -> int:
    """Connections that the system keeps for us: asyncio accepts so many before one is looked at."""
    return max(1, min(100, most_open_files() // 8))


def most_open_files() -> int:
    """Files and connections that the system allows this process to have open."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return 2**16
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**16 if soft == resource.RLIM_INFINITY else soft


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 over one connection of a bounded number, each step of which has a deadline.

    ``limits.arrival`` seconds are given to a request's head, from the moment when it might come,
    and ``limits.seconds`` to a client that does not read its answer. The body's are the guard's.
    """

    limits: ClassVar[Limits] = LIMITS
    most: ClassVar[int] = LIMITS.connections

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._idle_since = self.loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def host(self) -> str:
        """Where the client is."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection if there is a place, or one can be made; else say why not."""
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > self.most and not self._made_room():
            transport.write(FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        _cancel(self._deadline)
        _cancel(self._unread)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """A head that has arrived is no longer waited for."""
        super().handle_events()
        if not self.idle:
            _cancel(self._deadline)

    def on_response_complete(self) -> None:
        """The next head may come; where it never does, what was not read by then is dropped."""
        self._wait_for_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client reads no more: not for long."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.limits.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        _cancel(self._unread)
        super().resume_writing()

    def _wait_for_head(self) -> None:
        self._idle_since = self.loop.time()
        _cancel(self._deadline)
        self._deadline = self.loop.call_later(self.limits.arrival, self.transport.abort)

    def _made_room(self) -> bool:
        """End the idle connection that has been so longest, of the client that has most of them."""
        others = cast("set[BoundedProtocol]", self.connections) - {self}
        idle = [one for one in others if one.idle]
        if not idle:
            return False
        having = Counter(one.host for one in idle)
        longest = min(idle, key=lambda one: (-having[one.host], one._idle_since))
        self.connections.discard(longest)  # it counts no more, though its end comes a moment later
        longest.transport.abort()
        return True


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
