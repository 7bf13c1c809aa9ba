"""Who may ask, from where, and how often: clients, other websites, keys and rates.

A browser lets every page that its user opens send requests to every address, this server's too. It
tells from where they come, though, in headers that no page can forge; where it tells nothing, the
server's own page proves itself by a token that stands in it.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import secrets
import time
from collections import OrderedDict
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from regard.server.batcher import CLIENT
from regard.server.errors import RefusedError, TooOftenError

OPEN_PATHS = frozenset({"/", "/healthz", "/docs", "/openapi.json", "/favicon.ico"})
"""What costs nothing and tells nothing of the data: anybody may ask, as often as they like."""
METRICS = "/metrics"
"""Asked again and again by the same client, which no rate of requests should keep from it."""
TOKEN_HEADER = "x-regard-token"
GUESSES = 10  # wrong keys that a client may send at once
GUESSES_PER_MINUTE = 6.0  # and then one in so much time
MOST_CLIENTS = 4096  # that are remembered; who has not asked for longest is forgotten first


def costs(path: str) -> bool:
    """Whether a path is more than a page or a file."""
    return path not in OPEN_PATHS and not path.startswith("/static/")


def client_of(scope: Scope) -> str:
    """Who asks: an address, or the network that a household has in IPv6.

    >>> client_of({"client": ("2001:db8:1:2:3::4", 5)}), client_of({"client": ("192.0.2.1", 5)})
    ('2001:db8:1:2::/64', '192.0.2.1')
    """
    host = str((scope.get("client") or ("",))[0])
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((address, 64), strict=False))


# ------------------------------------------------------------------ other websites


class OwnPage:
    """Tells the server's own page, and programs, from other websites in a browser."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(16)
        """Stands in the page, where no other website can read it."""

    def check(self, headers: Headers) -> None:
        """Refuse what another website sends."""
        sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
        given = headers.get(TOKEN_HEADER, "").encode("latin-1")
        if hmac.compare_digest(given, self.token.encode()):
            own = True  # the page itself, whatever stands in between
        elif sites:
            own = all(site in ("same-origin", "none") for site in sites)
        elif origins:
            host = headers.get("host", "").lower()
            own = all(urlsplit(one).netloc.lower() == host != "" for one in origins)
        else:  # a program; or a browser that tells nothing, where a form or a link needs no leave
            browser = headers.get("user-agent", "").startswith("Mozilla/")
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            own = not browser or "authorization" in headers or kind == "application/json"
        if not own:
            why = "this server answers its own page and programs, not other websites"
            raise RefusedError(403, f"{why}; ask from a program, or open the server's page")


# ------------------------------------------------------------------ how often


class Rate:
    """How often each client may do something: ``burst`` times at once, then by the minute."""

    def __init__(self, per_minute: float, burst: float) -> None:
        self.per_second = per_minute / 60
        self.burst = burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how many, and when

    def wait(self, client: str) -> float:
        """Seconds until it may; 0 where it may now."""
        return max(0.0, (1 - self._now(client)) / self.per_second)

    def count(self, client: str) -> None:
        """It did it."""
        self._left[client] = (self._now(client) - 1, time.monotonic())
        self._left.move_to_end(client)
        while len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)

    def _now(self, client: str) -> float:
        left, when = self._left.get(client, (self.burst, 0.0))
        return min(self.burst, left + self.per_second * (time.monotonic() - when))


class RequestRate(Rate):
    """Requests of a client, so many a minute; all of a minute's may come at once."""

    def __init__(self, per_minute: int) -> None:
        super().__init__(per_minute, per_minute)

    def check(self, client: str) -> None:
        """Count a request, or refuse it."""
        if (seconds := math.ceil(self.wait(client))) > 0:
            many = f"{self.burst:,} requests a minute"
            raise TooOftenError(f"a client may send {many}; wait {seconds} s", seconds)
        self.count(client)


class Keys:
    """The server's key, if it has one. Whoever guesses wrong again and again has to wait."""

    def __init__(self, expected: str | None) -> None:
        self._expected = expected
        self._guesses = Rate(GUESSES_PER_MINUTE, GUESSES)

    @property
    def asked_for(self) -> bool:
        """Whether there is one."""
        return self._expected is not None

    def check(self, *given: str | None) -> None:
        """Refuse where a key is expected and none of the given ones is it."""
        if self._expected is None:
            return
        keys = [one for one in given if one]
        if not keys:
            raise RefusedError(
                401,
                "this server asks for a key: send it as the header Authorization: Bearer KEY, or "
                "in the field api_key of the body",
            )
        if (seconds := math.ceil(self._guesses.wait(CLIENT.get()))) > 0:
            raise TooOftenError(f"too many wrong keys came from you; wait {seconds} s", seconds)
        # How long the comparison takes tells nothing about the key.
        sent = [one.encode("utf-8", "surrogatepass") for one in keys]
        if not any(hmac.compare_digest(self._expected.encode(), one) for one in sent):
            self._guesses.count(CLIENT.get())
            why = "that key is wrong: use the one that the server was started with"
            raise RefusedError(401, why)
