"""What can be done with a run of any task, besides what its verbs do: ``run.heads()`` and its kin.

The doing lies in higher layers, and the command line calls the same functions. So a run knows them
by name alone: a table says where each is at home, and it is fetched from there when it is called,
as public names of ``regard`` are.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regard.tasks.base import Evaluation

HOMES = {
    "evaluate": "regard.runs.evaluating",
    "heads": "regard.runs.heads",
    "search": "regard.tasks.search",
    "export": "regard.runs.export",
    "serve": "regard.server.background",
}
"""Deed -> the module that has a function of its name, which takes the run first."""


def do(deed: str, run: Any, *given: Any, **options: Any) -> Any:
    """Call the function of that name, wherever it is at home."""
    return getattr(import_module(HOMES[deed]), deed)(run, *given, **options)


class Deeds:
    """Methods that runs of all tasks have. What they give, a notebook shows."""

    __slots__ = ()

    def evaluate(
        self,
        split: str | None = None,
        *,
        file: str | Path | None = None,
        source: str | Path | None = None,
        reference: str | Path | None = None,
        alignments: str | Path | None = None,
        gold: str | Path | None = None,
        data: str | Path | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Evaluation:
        """Scores on a split of the run's data, ``test`` by default, or of the ``data`` of a recipe.

        Or on a ``file`` laid out as the training files were; of translators also on two files
        whose lines belong together, ``source`` and ``reference``, and with ``alignments`` and
        ``gold`` by where attention looks. ``beam`` and ``stride`` are for runs that have them.
        """
        files = {"file": file, "source": source, "reference": reference}
        looked = {"alignments": alignments, "gold": gold, "data": data}
        found: Evaluation = do("evaluate", self, split, **files, **looked, **options)
        return found

    def heads(
        self,
        split: str | None = None,
        *,
        texts: str | Path | Sequence[str] | None = None,
        n: int = 200,
    ) -> Any:
        """What each head looks at and what is lost without it: a ``HeadMeasures``.

        Measured on the first ``n`` examples of a split, ``valid`` by default, or on ``texts``: a
        list, or the name of a file of them.
        """
        return do("heads", self, split, texts=texts, n=n)

    def search(
        self,
        row: str,
        column: str,
        *,
        name: str | None = None,
        layer: int = 0,
        head: int = 0,
        by: str = "kind",
        split: str = "valid",
        n: int = 100,
        shown: int = 10,
    ) -> Any:
        """Where else a head looks so: the texts in which its weight is largest, as ``Matches``.

        From a word like ``row`` to one like ``column``: of the same kind (pronoun, noun, …) where
        the built-in world knows kinds, and with ``by="word"`` the very words. The first ``n`` texts
        of a split are looked at, as ``explain`` does, and ``shown`` of them told. Without a name
        the attention is ``decoder.cross``, or the first that there is.
        """
        how = {"name": name, "layer": layer, "head": head, "by": by}
        return do("search", self, row, column, **how, split=split, n=n, shown=shown)

    def export(self, to: str, out: str | Path) -> Any:
        """Write it in the format ``to`` (hf, ctranslate2, onnx, web): an ``Export``.

        ``out`` is a folder, new or empty.
        """
        return do("export", self, to, out)

    def serve(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        api_key: str | None = None,
        rate_limit: int | None = None,
        background: bool | None = None,
        beside: Any = None,
    ) -> Any:
        """Serve the page and the API: until Ctrl-C, or in the ``background``.

        In the background it gives a ``Server`` at once, with a ``url`` and ``close()``, which a
        ``with`` block calls by itself. That is the default where an event loop runs already, as in
        a notebook. Port 0 takes one that is free. A host that others can reach needs an API key.
        ``beside`` is another run of the same task, which the page compares with this one.
        """
        return do(
            "serve",
            self,
            host=host,
            port=port,
            api_key=api_key,
            rate_limit=rate_limit,
            background=background,
            beside=beside,
        )
