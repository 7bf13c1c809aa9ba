"""``regard table``: every row of a lecture's table, trained on the same data with the same budget.

Rows are trained as ``regard compare`` trains its systems (``regard.runs.trainings``), so whatever
stops a table, the same command goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError, TrainingError
from regard.runs import table_results as results
from regard.runs.compare import Contest, claim, system_name
from regard.runs.comparison import SPLIT
from regard.runs.ensembles import ScoredEnsemble, score
from regard.runs.jobs import Job
from regard.runs.lecture_tables import LectureRow
from regard.runs.side_by_side import (
    ALONE,
    Crew,
    Line,
    SideBySide,
    as_chosen,
    train_side_by_side,
)
from regard.runs.table_report import write_table
from regard.runs.table_request import (
    FOLLOWING_SHARE,
    TableRequest,
    records_of,
    row_recipes,
)
from regard.runs.table_results import RowResult, Section
from regard.runs.table_verdicts import verdicts
from regard.runs.trainings import (
    Entry,
    FinishedTraining,
    SystemTrainings,
    Until,
    Watching,
    untold,
    unwatched,
)
from regard.tasks.opening import pick_device
from regard.tasks.recipe import Recipe

FOLLOWING_RATE = 0.1
"""Of a training that starts from another row's run: its learning rate, as a share of that row's."""


def make_table(
    asked: TableRequest,
    out: Path,
    *,
    device: str | None = None,
    watching: Watching = unwatched,
    say: Callable[[str], None] = untold,
    crew: Crew = ALONE,
) -> list[Section]:
    """Train all rows on all data sets, and write the table; -> all sections in its folder.

    A signal raises ``Stop``. A row that fails says why, unless all of a section fail. A ``crew``
    trains several rows of a data set at once, which only ``say`` is told of.
    """
    recipes = {data: row_recipes(asked, data) for data in asked.data}  # before anything is trained
    pick_device(device)
    results.check_same_table(asked.table, out)
    for rows in recipes.values():
        records_of(asked, rows)  # are they there? before a folder is taken
    for data, rows in recipes.items():
        folder = out / system_name(data)
        claim(folder, Contest(system_name(data), rows, asked.budget, asked.seeds))
        trainings = SectionTrainings(asked, rows, folder, device, watching, say)

        def write(until: Until, trainings: SectionTrainings = trainings) -> None:
            results.save_section(trainings.section(until), trainings.folder)
            write_table(asked.table, results.load_sections(out), out)

        trainings.train_side_by_side(crew, write)
        for until in asked.endings:
            if until not in trainings.written:
                write(until)
    return results.load_sections(out)


class SectionTrainings:
    """All rows on one data set."""

    def __init__(
        self,
        asked: TableRequest,
        recipes: Mapping[str, Recipe],
        folder: Path,
        device: str | None,
        watching: Watching,
        say: Callable[[str], None],
    ) -> None:
        self.asked, self.recipes, self.folder = asked, recipes, folder
        self.device, self.watching, self.say = device, watching, say
        self.rows = {row.key: row for row in asked.table.rows}
        self.systems: dict[str, SystemTrainings] = {}
        self.lines: dict[str, Line] = {}
        """What is trained side by side, before rows are read back one by one."""
        self.came = SideBySide()
        self.written: set[Until] = set()
        """Kinds of budgets whose section was made while others were still trained."""

    def train_side_by_side(self, crew: Crew, write: Callable[[Until], None]) -> None:
        """Train all rows with every kind of budget, where there is a crew for it.

        ``write`` is called for a kind as soon as all of it is trained.
        """
        for row in self.rows.values():
            if row.ensemble_of is None:
                first = None if row.follows is None else self.lines[row.follows]
                system = self._made(row, None if first is None else first.system)
                rate = as_chosen if first is None else following_rate
                self.lines[row.key] = Line(system, self.asked.endings, first, rate)

        def reached(until: Until, came: SideBySide) -> None:
            self.came = came
            write(until)
            self.written.add(until)

        lines = list(self.lines.values())
        self.came = train_side_by_side(
            lines,
            crew,
            device=self.device,
            say=self.say,
            scorings=self._scorings(),
            reached=reached,
        )

    def section(self, until: Until) -> Section:
        """Train what is left to train with this kind of budget, and lay the rows side by side."""
        settings = next(iter(self.recipes.values())).data
        direction = settings.direction if self.asked.table.directed else ""
        entries: dict[str, Entry] = {}
        found: list[RowResult] = []
        for row in self.rows.values():
            try:
                entry = self.entry(row, until, entries)
                size = row.sizes[self.asked.size] if row.preset else ""
                shown = Entry(entry.trials, entry.lr, entry.runs[: len(self.asked.seeds)])
                result = results.row_result(
                    row,
                    shown,
                    direction=direction,
                    size=size,
                    seeds=self.asked.seeds,
                    reads=self._reads(row),
                )
                found.append(result)
                entries[row.key] = entry
            except Exception as error:  # hours of the others' work must not go with it
                kind = "" if isinstance(error, RegardError) else f"{type(error).__name__}: "
                failed = RowResult(
                    row=row.key,
                    title=row.title,
                    preset=row.preset,
                    kind=row.kind,
                    error=f"{kind}{error}",
                    reads=self._reads(row),
                    published=results.published(row, direction),
                )
                found.append(failed)
                self.say(f"{row.title} failed: {failed.error}")
        if not entries:
            reasons = "; ".join(f"{one.title}: {one.error}" for one in found)
            raise TrainingError(f"no row could be trained: {reasons}")
        return self._section(direction, until, found, entries)

    def _reads(self, row: LectureRow) -> int | None:
        """Tokens of a document that a row reads here, where its paper says how many."""
        if row.max_len is None:
            return None
        max_len: int = self.recipes[row.key].model.given()["max_len"]
        return max_len

    def _section(
        self,
        direction: str,
        until: Until,
        rows: list[RowResult],
        entries: Mapping[str, Entry],
    ) -> Section:
        table, n_seeds = self.asked.table, len(self.asked.seeds)
        best = results.best_row(rows, table.metrics[0])
        shown = {key: entry.runs[:n_seeds] for key, entry in entries.items()}
        references = [one.target for one in records_of(self.asked, self.recipes).splits[SPLIT]]
        significance = results.significance_of(shown, table.metrics[0], references)
        scores = next(iter(entries.values())).runs[0].facts["scores"][SPLIT]
        names = [name for name in table.metrics if f"{name}_signature" in scores]
        return Section(
            data=self.folder.name,
            direction=direction,
            budget=str(self.asked.budget),
            until=until,
            size=self.asked.size,
            seeds=self.asked.seeds,
            members=self.asked.members,
            n=scores["n"],
            best=best,
            signatures={name: scores[f"{name}_signature"] for name in names},
            rows=results.with_significance(rows, best, significance),
            verdicts=verdicts(table, rows, significance),
        )

    def entry(self, row: LectureRow, until: Until, entries: Mapping[str, Entry]) -> Entry:
        """All runs of a row: trained, or read back; of an ensemble, the one that it is."""
        if row.ensemble_of is not None:
            return self._ensemble(row, until, entries)
        if row.follows is not None and row.follows not in entries:
            raise TrainingError(f"the row that it starts from, {row.follows}, has failed")
        self.came.check(self.lines[row.key], until)
        if row.follows is None:
            return self._system(row).entry(until)
        first = entries[row.follows]
        system = self._system(row, lr=following_rate(self.systems[row.follows].search.lr))
        entry = system.entry(until)
        seeds = self.asked.seeds_of(self.rows[row.follows])
        before = dict(zip(seeds, first.runs, strict=True))
        runs = [
            _costing(run, before[seed]) for seed, run in zip(system.seeds, entry.runs, strict=True)
        ]
        return Entry(first.trials, entry.lr, tuple(runs))

    def _system(self, row: LectureRow, lr: float | None = None) -> SystemTrainings:
        """A row's trainings; what is chosen for one kind of budget holds for the other."""
        if row.key not in self.systems:
            first = None if row.follows is None else self.systems[row.follows]
            found = self.came.searches.get(self.lines[row.key].search)
            made = replace(self._made(row, first), watching=self.watching, say=self.say)
            self.systems[row.key] = replace(made, lr=lr, found=found)
        return self.systems[row.key]

    def _made(self, row: LectureRow, first: SystemTrainings | None) -> SystemTrainings:
        """A row's trainings, of which nobody is told; ``first`` are those that they go on from."""
        return SystemTrainings(
            f"{self.folder.name}/{row.key}",
            self.recipes[row.key],
            self.asked.budget.share(1.0 if first is None else FOLLOWING_SHARE),
            self.asked.seeds_of(row),
            (SPLIT,),
            self.folder / row.key,
            self.device,
            init=None if first is None else first.run_path,
        )

    @property
    def _members(self) -> range:
        """Seeds of an ensemble's runs."""
        return range(1, self.asked.members + 1)

    def _scored_ensemble(
        self, row: LectureRow, until: Until, of: SystemTrainings
    ) -> ScoredEnsemble:
        """The ensemble that a row is."""
        paths = tuple(of.run_path(seed, until) for seed in self._members)
        kept = self.folder / row.key / f"ensemble-{until}-{self.asked.members}.json"
        return ScoredEnsemble(f"{self.folder.name}/{row.key}, {until}", paths, kept)

    def _scorings(self) -> dict[Until, list[Job]]:
        """Jobs that score ensembles, each after the runs that it is of."""
        found: dict[Until, list[Job]] = {until: [] for until in self.asked.endings}
        for row in self.rows.values():
            if row.ensemble_of is None:
                continue
            line = self.lines[row.ensemble_of]
            for until, jobs in found.items():
                one, left = self._scored_ensemble(row, until, line.system), line.left()
                needed = [line.training(s, until) for s in self._members if (s, until) in left]
                if not one.finished:
                    jobs.append(Job(one.name, partial(score, one, self.device), tuple(needed)))
        return found

    def _ensemble(self, row: LectureRow, until: Until, entries: Mapping[str, Entry]) -> Entry:
        """Runs of another row as one; it is scored once, and that is kept."""
        assert row.ensemble_of is not None
        if row.ensemble_of not in entries:
            raise TrainingError(f"the row whose runs it averages, {row.ensemble_of}, has failed")
        of = self.systems[row.ensemble_of]
        runs = dict(zip(of.seeds, entries[row.ensemble_of].runs, strict=True))
        members = [runs[seed] for seed in self._members]
        ensemble = self._scored_ensemble(row, until, of)
        if ensemble.name in self.came.errors:
            raise self.came.errors[ensemble.name]
        kept = ensemble.scored(self.device, self.say)
        costs = [one.facts["measured"] for one in members]
        names = ("parameters", "flops", "seconds")
        facts = {
            "scores": {SPLIT: kept["scores"]},
            "measured": {name: sum(cost[name] for cost in costs) for name in names},
        }
        return Entry((), 0.0, (FinishedTraining(facts, [], {SPLIT: kept["outputs"]}),))


def following_rate(rate: float) -> float:
    """The rate of a row that starts from another's runs, given the one chosen for that."""
    return float(f"{FOLLOWING_RATE * rate:.3g}")


def _costing(run: FinishedTraining, before: FinishedTraining) -> FinishedTraining:
    """A run that started from another has cost what that one did, too."""
    earlier = before.facts["measured"]

    def both(cost: Mapping[str, Any]) -> dict[str, Any]:
        names = [name for name in ("flops", "seconds") if name in cost]
        return {**cost, **{name: cost[name] + earlier[name] for name in names}}

    facts = {**run.facts, "measured": both(run.facts["measured"])}
    return FinishedTraining(facts, [both(line) for line in run.metrics], run.translations)
