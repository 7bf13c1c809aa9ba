"""Run folders as people type them: the argument RUN, and what is told of a wrong one.

Nothing here imports torch, so that a wrong name answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from regard.checkpoints.lock import check_has_begun
from regard.cli.completion import run_names
from regard.core.errors import CheckpointError, ConfigError
from regard.core.registry import nearest

_SETTINGS = "config.yaml"  # what makes a folder a run
_MOST = 8  # runs that a message names


def check_run(context: typer.Context, path: Path) -> Path:
    """Refuse a wrong name at once, and a text where a run should stand."""
    if " " in str(path) and not _is_folder(path):
        arguments = (one for one in context.command.params if one.param_type_name == "argument")
        words = dict.fromkeys(str(getattr(one, "metavar", "")).strip("[].") for one in arguments)
        raise ConfigError(f"expected RUN first: regard {context.info_name} {' '.join(words)}")
    check_folder(path)
    if not (path / _SETTINGS).exists():
        check_has_begun(path)
        raise CheckpointError(f"{path} is not a run folder: it has no {_SETTINGS}")
    return path


def check_runs(context: typer.Context, paths: list[Path]) -> list[Path]:
    """The same of several."""
    return [check_run(context, path) for path in paths]


def check_folder(path: Path, *, or_file: bool = False) -> None:
    """Refuse a folder that is not there, and say which runs are."""
    if not _is_folder(path):
        beside = _runs_beside(path)
        by_name = {Path(name).name: name for name in [*run_names(""), *beside]}
        near = nearest(path.name, by_name)
        hint = f" (did you mean {by_name[near]!r}?)" if near else _listed(beside) or runs_here()
        missing = "neither a run folder nor a file" if or_file else "no run folder"
        raise CheckpointError(f"there is {missing} {path}{hint}")


def check_no_path(text: str) -> None:
    """Refuse a mistyped run where a text may stand: a word that leads into a folder below this.

    What only has a slash, such as and/or or /help, is a text.
    """
    path = Path(text)
    leads = len(path.parts) > 1 and path.parent not in (Path("/"), Path(".."))
    if " " not in text and leads and _is_folder(path.parent):
        check_folder(path)
        raise CheckpointError(f"{path} is not a run folder: it has no {_SETTINGS}")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a text that is too long for a name
        return False


def runs_here() -> str:
    """The end of a message: the runs below runs and in this folder, if there are any."""
    return _listed(run_names(""))


def _runs_beside(path: Path) -> list[str]:
    """The runs in the folder that a path leads to, where that is another than this."""
    return run_names(f"{path.parent}/") if len(path.parts) > 1 else []


def _listed(names: Sequence[str]) -> str:
    more = ", …" if len(names) > _MOST else ""
    return f"; runs here: {', '.join(names[:_MOST])}{more}" if names else ""


RunPath = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run folder.", callback=check_run, autocompletion=run_names
    ),
]
RunPaths = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...",
        help="A run folder; several translators are an ensemble.",
        callback=check_runs,
        autocompletion=run_names,
    ),
]
