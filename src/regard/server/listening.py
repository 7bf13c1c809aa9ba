"""Where a server listens, and whether it may. Needs neither torch nor a web library."""

from __future__ import annotations

import ipaddress
import socket

from regard.core.errors import ConfigError
from regard.server.limits import MAX_KEY


def is_loopback(host: str) -> bool:
    """Whether an address reaches this machine only.

    >>> is_loopback("localhost"), is_loopback("[::1]"), is_loopback("0.0.0.0"), is_loopback("")
    (True, True, False, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def check_public(host: str, api_key: str | None) -> None:
    """Refuse to be open to everybody, and a key that no client could send."""
    if api_key is None:
        if not is_loopback(host):
            raise ConfigError(
                f"host {host!r} can be reached from other machines: give --api-key KEY as well, "
                "or stay with --host 127.0.0.1"
            )
        return
    plain = api_key.isascii() and api_key.isprintable() and " " not in api_key
    if not plain or not 1 <= len(api_key) <= MAX_KEY:
        raise ConfigError(
            f"--api-key must be 1 to {MAX_KEY} ASCII letters, digits or signs without a space, "
            "so that it fits into a header; choose another key"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket at the address; port 0 takes one that is free."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((str(address[0]), port), family=family)
    except (OSError, UnicodeError) as error:
        # socket adds the address in its own words
        why = (getattr(error, "strerror", None) or "no such address").partition(" (while")[0]
        raise ConfigError(
            f"cannot listen at {host}:{port}: {why}; choose another --host or --port"
        ) from None


def address_of(listening: socket.socket) -> str:
    """What to type into a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
