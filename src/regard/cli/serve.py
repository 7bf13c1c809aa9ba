"""``regard serve``: the page and the API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.completion import run_names
from regard.cli.run_paths import check_folder
from regard.cli.terminal import Device, note
from regard.core.signals import Stop

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")]


def serve(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="A run folder; several translators are an ensemble.",
            autocompletion=run_names,
        ),
    ],
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Port = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="REGARD_API_KEY",
            show_envvar=False,
            help="Asked of every client, 10 characters at least; better in REGARD_API_KEY, as "
            "others may see the words of a command.",
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="A file that holds the key, in one line.")
    ] = None,
    rate_limit: Annotated[
        int | None, typer.Option(min=1, help="Requests that a client may send in a minute.")
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            help="Another run of the same task: the page compares both.", autocompletion=run_names
        ),
    ] = None,
    device: Device = None,
) -> None:
    """Serve the page and the API for a run, or for an ensemble of runs, until Ctrl-C.

    A host that other machines can reach needs an API key.
    """
    from regard.server.limits import check_public, listen, read_key

    api_key = read_key(api_key, api_key_file)
    check_public(host, api_key)
    others = [] if beside is None else [beside]
    for path in [*paths, *others]:  # a wrong name is worse than a port that is taken
        check_folder(path)
    with listen(host, port) as listening:  # a port that is taken shows before torch is loaded
        from regard.tasks.opening import load

        run = load(paths, device=device)
        other = next((load(one, device=device) for one in others), None)
        run_server(run, listening, api_key=api_key, rate_limit=rate_limit, beside=other)


def run_server(
    run: Any,
    listening: socket.socket,
    *,
    api_key: str | None = None,
    rate_limit: int | None = None,
    then: Callable[[str], None] = lambda _address: None,
    beside: Any = None,
) -> None:
    """Serve until the program is told to end, which is how serving ends well."""
    from regard.server.limits import outside_address
    from regard.server.serve import serve

    def started(address: str) -> None:
        print(f"serving {run.folder.path} at {address} (Ctrl-C ends)", flush=True)
        if outside := outside_address(listening):
            print(f"from other machines: {outside}", flush=True)
        then(address)

    try:
        how: dict[str, Any] = {"api_key": api_key, "rate_limit": rate_limit}
        serve(run, listening, **how, on_start=started, beside=beside)
    except Stop:  # what was open is answered by now
        note("stopped")
