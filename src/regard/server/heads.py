"""The measures of a run's heads, made once, by a process of their own: it ablates heads."""

from __future__ import annotations

import sys
from typing import Any

from typing_extensions import override

from regard.core.errors import RegardError
from regard.core.plugins import load_plugins
from regard.server.errors import RefusedError, as_json
from regard.server.processes import CANNOT, OwnProcess
from regard.tasks.opening import load

OF_SEVERAL = "each run of an ensemble has heads of its own: serve one of them alone"


class HeadMeasuring(OwnProcess):
    """The JSON of ``regard heads``, and of pictures ``figures`` beside the map, as SVG.

    Its progress counts the heads that were ablated.
    """

    module = "regard.server.heads"
    doing = "measuring"
    refusal = (
        "the heads of this run cannot be measured: it has none, or its data is not here; "
        "`regard heads` says which"
    )

    def __init__(self, run: Any, *, seconds: float) -> None:
        super().__init__(run, seconds=seconds)
        self._of_several = len(getattr(run, "members", ())) > 1

    @override
    async def result(self) -> bytes:
        if self._of_several:
            raise RefusedError(404, OF_SEVERAL)
        return await super().result()


def _tell(done: int, of: int) -> None:
    """A line that ``HeadMeasuring`` reads."""
    print(f"{done} of {of}", file=sys.stderr, flush=True)


def main(path: str, device: str, *plugins: str) -> int:
    """What the process does: the measures as JSON on standard output."""
    from regard.runs.heads import head_measures
    from regard.visual.patch_figures import head_figures

    load_plugins(plugins)
    try:
        found = head_measures(load(path, device=device), tick=_tell)
    except RegardError as error:
        print(error, file=sys.stderr)
        return CANNOT
    told = found.as_json()
    figures = head_figures(told)[1:]
    sys.stdout.buffer.write(as_json(told | ({"figures": figures} if figures else {})))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
