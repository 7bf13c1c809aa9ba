"""Where the server listens, and how much it reads, queues and computes: all its bounds.

Needs neither torch nor a web library.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import ConfigError

MAX_TEXTS = 64  # in one request of another project's API
MAX_ALTERNATIVES = 7  # other translations of a text
MAX_EDITS = 16  # what-ifs in one request
MAX_BEAMS = 16  # hypotheses kept open for a tree
MAX_WORDS = 50  # words that are suggested at once
MIN_KEY, MAX_KEY = 10, 100  # characters of the server's key
KEY_VARIABLE = "REGARD_API_KEY"  # of the environment, where the key may stand


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one server takes on. The defaults suit a small model on a small machine."""

    body_bytes: int = 256 * 1024  # a larger body gets 413
    picture_bytes: int = 12 * 2**20  # the same of a run that reads pictures
    tokens: int = 512  # of a text to translate; a longer one gets 422
    new_tokens: int = 32_768  # written for one request, all its texts together; more get 422
    look_tokens: int = 128  # of a text to look at: weights grow with the square of the length
    connections: int = 512  # open at once; one more takes the place of an idle one, or gets 503
    arrival: float = 20.0  # seconds for a request's head, and as many for its body; then it ends
    requests: int = 512  # open at once; one more gets 503
    queue: int = 512  # texts that may wait for the model; beyond that, 503
    client_queue: int = 256  # those of one client among them
    batch: int = 64  # texts translated together
    batch_characters: int = 8192  # of all of them; a longer text is alone
    window: float = 0.005  # seconds that a text waits for others to share its batch
    seconds: float = 30.0  # that a request may take; beyond that, 503
    stuck: float = 120.0  # seconds at one piece of work after which the server counts as down
    read_seconds: float = 120.0  # that reading the run's data may take, in a process of its own
    search_seconds: float = 60.0  # that texts are looked at, to be searched, before an answer
    measure_seconds: float = 600.0  # that measuring the heads may take, in a process of its own
    drain: float = 10.0  # seconds that open requests have when the server ends


LIMITS = Limits()


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


def read_key(key: str | None, file: Path | None) -> str | None:
    """The server's key: as it is given, or the one line of a file; None where there is none."""
    if file is None:
        return key
    if key is not None:
        raise ConfigError(
            f"there are two keys, one in {file} and one by --api-key or {KEY_VARIABLE}; give one"
        )
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_KEY + 10)  # more is no key
        return raw.decode().removeprefix("\ufeff").strip("\r\n")
    except OSError as error:
        raise ConfigError(f"--api-key-file: cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--api-key-file: {file} is not text; write the key into it") from None


def check_public(host: str, api_key: str | None) -> None:
    """Refuse to be open to everybody, and a key that no client could send or anybody guess."""
    if api_key is None:
        if not is_loopback(host):
            raise ConfigError(
                f"host {host!r} can be reached from other machines: give a key as well "
                f"({KEY_VARIABLE}, --api-key-file or --api-key), or stay with --host 127.0.0.1"
            )
        return
    plain = api_key.isascii() and api_key.isprintable() and " " not in api_key
    if not plain or not MIN_KEY <= len(api_key) <= MAX_KEY:
        raise ConfigError(
            f"the key (--api-key) must be {MIN_KEY} to {MAX_KEY} ASCII letters, digits or signs "
            "without a space, so that it fits into a header and is not guessed; choose another key"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket at the address; port 0 takes one that is free."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((str(address[0]), port), family=family)
    except (OSError, UnicodeError) as error:
        # socket adds the address in its own words
        why = (getattr(error, "strerror", None) or "no such address").partition(" (while")[0]
        told = f"cannot listen at {host}:{port}: {why}; choose another --host or --port"
        raise ConfigError(told) from None


def address_of(listening: socket.socket) -> str:
    """The URL of a socket that listens."""
    return _url(*listening.getsockname()[:2])


def outside_address(listening: socket.socket) -> str | None:
    """The URL for other machines of a socket that listens at every address of this one.

    None where it listens at one address, which is known, or where there is no network.
    """
    host, port = listening.getsockname()[:2]
    anywhere = ipaddress.ip_address(host)
    if not anywhere.is_unspecified:
        return None
    far = "192.0.2.1" if anywhere.version == 4 else "2001:db8::1"  # of documentation: nobody's
    with socket.socket(listening.family, socket.SOCK_DGRAM) as way_out, suppress(OSError):
        way_out.connect((far, 9))  # sends nothing: the way there is chosen, and so our address
        return _url(way_out.getsockname()[0], port)
    return None


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
