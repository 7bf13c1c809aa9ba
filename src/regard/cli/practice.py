"""``regard practice``: exercises with blanks, checks, hints and solutions."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.terminal import Json, note, write
from regard.core.errors import CheckpointError, ConfigError, RegardError
from regard.core.numbers import counted
from regard.core.plugins import loaded_plugins

if TYPE_CHECKING:
    from regard.practice.findings import Finding, Report

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME] [FILES]...",
        help="An exercise or all, and with --check your files or folders of them; without "
        "anything, exercises are listed.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Write the exercise here: .py or .ipynb; of all, a folder for them."
    ),
]
Check = Annotated[bool, typer.Option("--check", help="Check your files, each by itself.")]
Hint = Annotated[bool, typer.Option("--hint", help="One hint for the first blank that is left.")]
Solution = Annotated[
    bool, typer.Option("--solution", help="Show the solution, once it is solved or hints are used.")
]
Anyway = Annotated[bool, typer.Option("--anyway", help="With --solution: show it at once.")]
Csv = Annotated[bool, typer.Option("--csv", help="With --check: a table, a row for each file.")]
_FORMULAS = ("=", "+", "-", "@", "\t")
"""What a formula begins with in a spreadsheet."""
_ALL = "all"
"""Instead of a name: every exercise."""


def practice(
    words: Words = None,
    out: Out = None,
    check: Check = False,
    hint: Hint = False,
    solution: Solution = False,
    anyway: Anyway = False,
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Fill in blanks, and be told what is not right yet."""
    name, files = _sorted_words(words or [])
    if check + hint + solution > 1:
        raise ConfigError("--check, --hint and --solution are three things: ask for one")
    if as_csv and as_json:
        raise ConfigError("--csv and --json are two forms: ask for one")
    _refuse_alone(as_csv=as_csv and not check, anyway=anyway and not solution)
    if check:
        in_folder = any(Path(word).is_dir() for word in words or [] if word != name)
        _check(name, files, out, as_csv, as_json, in_folder=in_folder)
    elif files:
        raise ConfigError(f"{files[0]}: give --check to have a file checked")
    elif name is None:
        _list(as_json, needs_name=out is not None or hint or solution)
    elif name == _ALL:
        _write_all(out, solved=solution, anyway=anyway, hint=hint)
    elif hint:
        _hint(name, out)
    elif solution:
        _write_out(name, out, solved=True, anyway=anyway)
    elif out is not None:
        _write_out(name, out, solved=False, anyway=True)
    else:
        _show(name)


def _sorted_words(words: Sequence[str]) -> tuple[str | None, list[Path]]:
    """The exercise that is named, if one is, and the files, those of folders too."""
    from regard.practice.catalogue import EXERCISES
    from regard.practice.handout import SUFFIXES

    files, names = [], []
    for word in words:
        if word.endswith(SUFFIXES):
            files.append(Path(word))
        elif word not in (*EXERCISES, _ALL) and Path(word).is_dir():
            files += _submissions(Path(word))
        else:
            names.append(word)
    if len(names) > 1:
        raise ConfigError(
            f"one exercise at a time, and files that end in .py or .ipynb: {names[1]} is neither"
        )
    if not names:
        return None, files
    if names[0] not in EXERCISES and Path(names[0]).exists():
        raise ConfigError(
            f"{names[0]} is neither an exercise nor a file that ends in .py or .ipynb"
        )
    if names[0] != _ALL:
        EXERCISES[names[0]]  # or says which there are
    return names[0], files


def _submissions(folder: Path) -> list[Path]:
    """Learners' files in a folder and below it; hidden ones, as of editors, are not theirs.

    Checking runs them, so those without the line that every handout has are left out, and told.
    """
    from regard.practice.handout import MARK, SUFFIXES

    among = (path for path in sorted(folder.rglob("*")) if path.is_file())
    found = [path for path in among if path.suffix in SUFFIXES]
    shown = [
        one for one in found if not any(part[0] == "." for part in one.relative_to(folder).parts)
    ]
    files = [one for one in shown if _has_line(one, MARK)]
    if strange := [str(one) for one in shown if one not in files]:
        n = counted(len(strange), "file")
        note(f"{n} without a line '{MARK}NAME' left out, {strange[0]} first")
    if not files:
        raise ConfigError(f"there is no exercise in a .py or .ipynb file in the folder {folder}")
    return files


def _has_line(file: Path, mark: str) -> bool:
    """Whether a file has a handout's line; of one that cannot be read its report says why."""
    try:
        return mark in file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True


def _refuse_alone(*, as_csv: bool, anyway: bool) -> None:
    if as_csv:
        raise ConfigError("--csv is for --check")
    if anyway:
        raise ConfigError("--anyway is for --solution")


# ------------------------------------------------------------------ list and statement


def _list(as_json: bool, needs_name: bool) -> None:
    from regard.practice.catalogue import EXERCISES
    from regard.practice.progress import Progress, progress_file

    if needs_name:
        raise ConfigError(f"name an exercise: {', '.join(EXERCISES)}")
    progress, rows = Progress(), []
    for name, exercise in EXERCISES.items():
        handout, done = exercise.handout(), progress.of(name)
        n_passed = sum(blank.name in done.passed for blank in handout.blanks)
        n_hints = sum(done.hints.values())
        facts = {"name": name, "title": handout.title, "passed": n_passed}
        rows.append({**facts, "of": len(handout.blanks), "hints": n_hints})
    if as_json:
        print(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        print(f"{row['name']:12} {row['passed']} of {row['of']}  {row['title']}")
    print(f"\nBegin: regard practice {rows[0]['name']} --out {rows[0]['name']}.py")
    print(f"Progress is kept in {progress_file()}")


def _show(name: str) -> None:
    from regard.practice.catalogue import EXERCISES
    from regard.practice.progress import Progress

    handout, done = EXERCISES[name].handout(), Progress().of(name)
    print(f"{handout.statement}\n")
    for blank in handout.blanks:
        state = "passed" if blank.name in done.passed else "open"
        print(f"  {state:7} {blank.name}")
    print(f"\nBegin: regard practice {name} --out {name}.py")
    print(f"Then:  regard practice --check {name}.py")


# ------------------------------------------------------------------ handouts, hints, solutions


def _write_out(name: str, out: Path | None, *, solved: bool, anyway: bool) -> None:
    from regard.practice.catalogue import EXERCISES
    from regard.practice.handout import SUFFIXES, as_text

    handout = EXERCISES[name].handout()
    if not anyway:
        _check_may_see(name)
    if out is not None and out.suffix not in SUFFIXES:
        raise ConfigError(f"--out {out}: name a file that ends in .py or .ipynb")
    if out is not None and out.exists():
        raise ConfigError(f"{out} is there already, and nobody's work is overwritten; name another")
    write(as_text(name, handout, out.suffix if out else ".py", solved=solved), out)
    if out is not None and not solved:
        blanks = counted(len(handout.blanks), "blank")
        plugins = "".join(f"--plugin {one} " for one in loaded_plugins())
        print(f"{out}: {blanks}. Then: regard practice {plugins}--check {out}")


def _check_may_see(name: str) -> None:
    """Refuse a solution to who has neither solved the exercise nor taken all its hints."""
    from regard.practice.catalogue import EXERCISES
    from regard.practice.progress import Progress

    if not Progress().of(name).may_see_solution(EXERCISES[name].handout()):
        raise ConfigError(
            f"{name} is not solved, and there are hints left: regard practice {name} --hint, or "
            "--solution --anyway"
        )


def _write_all(out: Path | None, *, solved: bool, anyway: bool, hint: bool) -> None:
    """Every exercise as a file NAME.py in a folder; none where one of them is there already."""
    from regard.practice.catalogue import EXERCISES
    from regard.practice.handout import SUFFIXES

    if hint:
        raise ConfigError("--hint is for one exercise: name it")
    if out is None or out.suffix in SUFFIXES:
        raise ConfigError("all exercises are written into a folder: give --out DIR")
    files = {name: out / f"{name}.py" for name in EXERCISES}
    if there := [file for file in files.values() if file.exists()]:
        raise ConfigError(
            f"{there[0]} is there already, and nobody's work is overwritten; name another folder"
        )
    if solved and not anyway:
        for name in files:
            _check_may_see(name)
    for name, file in files.items():
        _write_out(name, file, solved=solved, anyway=True)


def _hint(name: str, out: Path | None) -> None:
    from regard.practice.catalogue import EXERCISES
    from regard.practice.progress import Progress

    if out is not None:
        raise ConfigError("--hint prints a hint and writes no file: leave --out out")
    handout, progress = EXERCISES[name].handout(), Progress()
    done = progress.of(name)
    blank = done.next_blank(handout)
    if blank is None:
        print(f"{name} is solved: there is nothing left to hint at")
        return
    n_given = min(done.hints.get(blank.name, 0) + 1, len(blank.hints))
    for number, text in enumerate(blank.hints[:n_given], start=1):
        print(f"{blank.name}, hint {number} of {len(blank.hints)}: {text}")
    if done.hints.get(blank.name, 0) >= len(blank.hints):
        print(f"No more hints for {blank.name}. The end: regard practice {name} --solution")
    done.hints[blank.name] = n_given
    progress.save()


# ------------------------------------------------------------------ checks


def _check(
    name: str | None,
    files: Sequence[Path],
    out: Path | None,
    as_csv: bool,
    as_json: bool,
    *,
    in_folder: bool,
) -> None:
    if not files:
        raise ConfigError("--check needs a file, a .py or an .ipynb")
    if out is not None:
        raise ConfigError("--check writes no file: leave --out out")
    name = None if name == _ALL else name
    several = as_csv or in_folder or len(files) > 1
    reports = _Class(_reports(name, files, several))
    if as_csv:
        _print_table(reports, _parts(name, files))
    else:
        for report in reports:
            _tell(report, as_json, several)
    if len(files) > 1:
        say = note if as_csv or as_json else print
        say(reports.told())
    if reports.n_solved < reports.n:
        raise typer.Exit(1)


class _Class:
    """Reports as they come, counted: how many are solved, and what was missed how often."""

    def __init__(self, reports: Iterable[Report]) -> None:
        self._reports = reports
        self.n = self.n_solved = 0
        self._missed: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Report]:
        for report in self._reports:
            self.n += 1
            self.n_solved += report.solved
            self._missed.update(one.part for one in report.findings if one.state != "passed")
            yield report

    def told(self) -> str:
        """A line for a teacher."""
        most = "".join(f"; most missed: {part}" for part, _ in self._missed.most_common(1))
        return f"{self.n_solved} of {self.n} solved{most}"


def _parts(name: str | None, files: Iterable[Path]) -> list[tuple[str, str]]:
    """(exercise, function) of all exercises that the files are of, in the order of the list."""
    from regard.practice.catalogue import EXERCISES
    from regard.practice.submission import exercise_of, read_submission

    asked = {name}
    for file in files if name is None else ():
        with suppress(RegardError):  # its row says what is wrong with it
            asked.add(exercise_of(read_submission(file)))
    return [
        (exercise, blank.name)
        for exercise in EXERCISES
        if exercise in asked
        for blank in EXERCISES[exercise].handout().blanks
    ]


def _reports(name: str | None, files: Iterable[Path], several: bool) -> Iterator[Report]:
    """A report of each file; among several, one that cannot be read does not end the others."""
    from regard.practice.findings import Report
    from regard.practice.process import check_file

    for file in files:
        try:
            yield check_file(file, name)
        except RegardError as error:
            if not several:
                raise
            yield Report(str(file), name or "", failure=str(error))


def _print_table(reports: Iterable[Report], parts: Sequence[tuple[str, str]]) -> None:
    """A row for each file as it is done, with the state of each function in a column."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    one = len({exercise for exercise, _ in parts}) == 1
    columns = [part if one else f"{exercise}.{part}" for exercise, part in parts]
    table.writerow(["file", "exercise", "passed", "of", "first failure", *columns])
    for report in reports:
        file, exercise, failure = map(_cell, (report.file, report.exercise, report.first_failure))
        states = {(report.exercise, one.part): one.state.value for one in report.findings}
        cells = [states.get(part, "") for part in parts]
        table.writerow([file, exercise, report.n_passed, report.of, failure, *cells])
        sys.stdout.flush()


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULAS) else text


def _tell(report: Report, as_json: bool, several: bool) -> None:
    """Print a report, and keep progress where it is the learner's own."""
    if not several:
        _keep(report)
    if as_json:
        print(json.dumps(report.as_json(), ensure_ascii=False))
        return
    print(f"{report.exercise}: {report.file}")
    if report.failure:
        print(f"  {report.failure}")
    for finding in report.findings:
        _print_finding(finding)
    if report.printed:
        print("  Your code printed:\n" + report.printed.rstrip("\n"))
    if report.findings:
        print(f"{report.n_passed} of {report.of} passed")


def _print_finding(finding: Finding) -> None:
    print(f"  {finding.state:7} {finding.part}" + f": {finding.message}" * bool(finding.message))
    if finding.where:
        print(f"          in {finding.where}")
    for argument, value in finding.example.items():
        print(f"          {argument} = {value}")
    if finding.yours:
        print(f"          yours: {finding.yours}")
    if finding.right:
        print(f"          right: {finding.right}")


def _keep(report: Report) -> None:
    from regard.practice.progress import Progress

    try:
        progress = Progress()
        progress.take(report)
        progress.save()
    except CheckpointError as error:  # a check is worth something without it
        note(f"progress is not kept: {error}")
