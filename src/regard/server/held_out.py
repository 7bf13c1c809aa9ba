"""Held-out texts of a run, read once, by a process of its own.

A few are wanted, and all of the run's data is read for them, which may be large. The process gives
its memory back, and its time is bounded.
"""

from __future__ import annotations

import json
import sys

from regard.core.errors import RegardError
from regard.core.plugins import load_plugins
from regard.server.errors import as_json
from regard.server.processes import CANNOT, OwnProcess
from regard.tasks.opening import load
from regard.tasks.search import HeldOutTexts, held_out_texts

SPLIT = "valid"


class HeldOutReading(OwnProcess):
    """The texts of ``SPLIT`` that are searched."""

    module = "regard.server.held_out"
    doing = "reading the data"
    refusal = (  # what went wrong may name files of this machine
        "the texts of this run cannot be searched: it has none, or its data is not here"
    )

    async def texts(self) -> HeldOutTexts:
        """As ``held_out_texts`` finds them."""
        return HeldOutTexts(**json.loads(await self.result()))


def main(path: str, _device: str, *plugins: str) -> int:
    """What the process does: ``HeldOutTexts`` as JSON on standard output."""
    load_plugins(plugins)
    try:  # to read texts no GPU is needed
        found = held_out_texts(load(path, device="cpu"), SPLIT)
    except (RegardError, OSError) as error:
        print(error, file=sys.stderr)
        return CANNOT
    sys.stdout.buffer.write(as_json(found._asdict()))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
