"""``regard lab``: the lectures' claims as experiments."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import claim_names
from regard.cli.terminal import Json, note
from regard.core.errors import ConfigError, RegardError

if TYPE_CHECKING:
    from regard.lab.result import Result


FigureForm = StrEnum("FigureForm", ["svg", "png", "pdf"])


def lab(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Experiments, or all; without a name they are listed.",
            autocompletion=claim_names,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for pictures, numbers and a page.")
    ] = None,
    figures: Annotated[
        FigureForm, typer.Option(help="What pictures are written as, with --out.")
    ] = FigureForm.svg,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a keyword of one experiment."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Put a claim of the lectures to the test."""
    if figures is not FigureForm.svg:
        from regard.visual.figures import figure_form

        figure_form(Path(f"picture.{figures}"))  # or says what is missing
    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; choose another --out")
    asked = list(dict.fromkeys(names or []))
    if "all" in asked and len(asked) > 1:
        raise ConfigError("all stands for every experiment: leave the other names out")
    if not asked and out is not None:
        raise ConfigError("--out needs an experiment: a name, or all")
    if settings and (len(asked) != 1 or asked == ["all"]):
        raise ConfigError("--set needs one experiment; name it")
    if not asked:
        _list(as_json)
    elif asked == ["all"]:
        _run_all(out or Path("lab"), as_json, figures)
    else:
        _run_some(asked, settings or [], out, as_json, figures)


def _list(as_json: bool) -> None:
    from regard.lab import NAMES, claim

    if as_json:
        print(json.dumps([{"name": name, "claim": claim(name)} for name in NAMES]))
        return
    for name in NAMES:
        print(f"{name:14} {claim(name)}")


def _run_some(
    names: Sequence[str], settings: Sequence[str], out: Path | None, as_json: bool, form: FigureForm
) -> None:
    """Those that were named, one after the other; ``settings`` only where there is one."""
    from regard.lab import claim, experiment
    from regard.lab.keywords import keywords
    from regard.lab.result import write_page, write_result

    claims = {name: claim(name) for name in names}  # an unknown name is refused before the first
    asked = {name: keywords(name, settings) for name in names}
    results: list[Result] = []
    for name in names:
        if not as_json:  # before it is measured, which may take a minute
            print("\n" * bool(results) + claims[name], flush=True)
        results.append(experiment(name)(**asked[name]))
        written = [] if out is None else write_result(results[-1], out, form.value)
        if out is not None:
            written.append(write_page(results, out))
        if not as_json:
            _show(results[-1], written)
    if as_json:
        facts = [result.as_json() for result in results]
        print(json.dumps(facts if len(facts) > 1 else facts[0], ensure_ascii=False))


def _show(result: Result, written: Sequence[Path]) -> None:
    """What an experiment found, below its claim, and the files that show it."""
    print(f"\n{_verdict(result)} {result.finding}\n", flush=True)
    width = max(map(len, result.numbers))
    for number, value in result.numbers.items():
        print(f"  {number:{width}}  {_spoken(value)}")
    lesson = result.lesson
    print(f"\nTry it: {lesson.command}\n{lesson.expect}")
    if written:
        print(f"\nwritten: {', '.join(map(str, written))}", flush=True)


def _verdict(result: Result) -> str:
    """The verdict in words; with changed settings they come first, for it is not the claim's."""
    from regard.lab.result import spoken_settings

    if not result.changed:
        return f"The claim {_word(result)}."
    return f"[changed: {spoken_settings(result.changed)}] So changed, the claim {_word(result)}."


def _run_all(out: Path, as_json: bool, figures: FigureForm) -> None:
    """One after the other; an experiment that breaks down is named, and the others go on."""
    from regard.lab import MINUTES, NAMES, experiment
    from regard.lab.result import write_page, write_result

    note(f"{len(NAMES)} experiments: about {MINUTES} minutes on two CPU cores")
    results: list[Result] = []
    failed: list[tuple[str, str]] = []
    for name in NAMES:
        began = time.perf_counter()
        try:
            result = experiment(name)()
        except Exception as error:
            failed.append((name, f"{type(error).__name__}: {error}"))
            word = "broke down"
        else:
            results.append(result)
            write_result(result, out, figures.value)
            word = _word(result)
        page = write_page(results, out, failed=failed)  # each time: the run may be stopped
        print(f"{name:14} {word:14} {time.perf_counter() - began:5.1f} s", file=sys.stderr)
    if as_json:
        print(json.dumps([result.as_json() for result in results], ensure_ascii=False))
    else:
        n_held = sum(result.verdict for result in results)
        print(f"{n_held} of {len(results)} claims hold; {page} shows all")
    if failed:
        raise RegardError("; ".join(f"{name} broke down ({why})" for name, why in failed))


def _spoken(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(_spoken, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _word(result: Result) -> str:
    from regard.visual.report import verdict_word

    return verdict_word(result.verdict)
