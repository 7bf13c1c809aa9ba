"""``regard table``: every row of a lecture's table, trained on the same data with the same budget.

Rows are trained as ``regard compare`` trains its systems (``regard.runs.trainings``), so whatever
stops a table, the same command goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError, ConfigError, RegardError, TrainingError
from regard.core.files import read_json, write_whole
from regard.core.registry import did_you_mean
from regard.data.splits import Data, load_records
from regard.data.worlds.registry import WORLDS
from regard.models.presets import resolve_for
from regard.recipes.recipe import builtin_recipes, load_recipe, override_setting, overrides_of
from regard.runs import table_results as results
from regard.runs.compare import Contest, check_tested, claim, system_name
from regard.runs.comparison import SPLIT
from regard.runs.estimate import Budget, parse_budget
from regard.runs.lecture_tables import SHORTEST, SIZES, LectureRow, LectureTable
from regard.runs.rates import least_cost
from regard.runs.side_by_side import (
    ALONE,
    Crew,
    Line,
    SideBySide,
    as_chosen,
    train_side_by_side,
)
from regard.runs.table_results import RowResult, Section
from regard.runs.trainings import (
    Entry,
    FinishedTraining,
    SystemTrainings,
    Until,
    Watching,
    untold,
    unwatched,
)
from regard.tasks.base import TASKS, Evaluation, Task
from regard.tasks.opening import load, pick_device
from regard.tasks.recipe import Recipe, recipe_from

FOLLOWING_SHARE = 0.25
"""Of the budget, for a training that starts from another row's run."""
FOLLOWING_RATE = 0.1
"""Its learning rate, as a share of the one that was chosen for that row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """What is asked of a table."""

    table: LectureTable
    data: tuple[str, ...]
    budget: Budget
    """Of one training, where all have the same."""
    converge: bool
    """Whether each is trained to convergence, too: as long as the recipe of the data says."""
    seeds: tuple[int, ...]
    members: int
    """Runs of an ensemble."""
    size: str
    overrides: tuple[str, ...] = ()

    @property
    def endings(self) -> tuple[Until, ...]:
        """The kinds of budgets."""
        return ("budget", "converged") if self.converge else ("budget",)

    def seeds_of(self, row: LectureRow) -> tuple[int, ...]:
        """Of a row's trainings: more where an ensemble needs them."""
        rows = {one.key: one for one in self.table.rows}
        needed = {one.ensemble_of for one in self.table.rows}
        needed |= {rows[key].follows for key in needed if key is not None}
        more = range(1, self.members + 1) if row.key in needed else ()
        return tuple(dict.fromkeys((*self.seeds, *more)))


def request(
    table: LectureTable,
    *,
    data: Sequence[str] = (),
    budget: str | None = None,
    converge: bool = True,
    seeds: int = 1,
    members: int = 3,
    size: str = "small",
    quick: bool = False,
    overrides: Sequence[str] = (),
) -> TableRequest:
    """A request, checked; ``quick`` is the small table of a built-in world at its own budget."""
    if quick and (data or budget is not None):
        raise ConfigError("--quick has data and a budget of its own: leave out --data and --budget")
    if size not in SIZES:
        raise ConfigError(f"--size {size!r}: a table is {', '.join(SIZES)}")
    if members < 2:
        raise ConfigError(f"--members {members}: an ensemble has two members at least")
    if quick:
        world, *settings = table.quick
        return TableRequest(
            table=table,
            data=(world,),
            budget=parse_budget(table.quick_budget),
            converge=False,
            seeds=(1,),
            members=2,
            size="tiny",
            overrides=(*settings, *overrides),
        )
    return TableRequest(
        table=table,
        data=tuple(data) or table.data,
        budget=parse_budget(budget or "2e14flops"),
        converge=converge,
        seeds=tuple(range(1, seeds + 1)),
        members=members,
        size=size,
        overrides=tuple(overrides),
    )


def row_recipes(asked: TableRequest, data: str) -> dict[str, Recipe]:
    """Recipes of the rows that are trained, by key: the data's, with the row's model.

    A row that cannot be had, for want of its preset or of a setting, is refused by its name.
    """
    table = asked.table
    models = overrides_of(["model"], asked.overrides)
    others = [one for one in asked.overrides if one not in models]
    known = builtin_recipes()
    if data not in WORLDS and data not in known and not Path(data).is_file():
        raise ConfigError(
            f"no data {data!r}{did_you_mean(data, [*WORLDS, *known])}: give a built-in world, or a "
            "recipe that names your files"
        )
    if table.recipe not in known and data in WORLDS:
        raise ConfigError(f"this version has no recipe {table.recipe!r}; name one with --data")
    named = (table.recipe, [f"data.world={data}"]) if data in WORLDS else (data, [])
    base = load_recipe(named[0], [*named[1], *others])
    if base.task != table.task:
        raise ConfigError(f"{data} is a recipe for {base.task}; this table is of {table.task}")
    check_tested(data, base)
    raw = base.model_dump(mode="json")
    given = base.model.given()
    raw["model"] = {"dropout": given["dropout"]} if "dropout" in given else {}
    for override in models:
        override_setting(raw, override)
    found = {}
    for row in table.rows:
        try:
            if row.ensemble_of is None:
                found[row.key] = _row_recipe(asked, row, raw, given.get("rotary_base"))
            elif not hasattr(Task, "ensemble"):
                raise ConfigError("this version makes no ensembles")
        except ConfigError as error:
            raise ConfigError(f"the row {row.title!r} cannot be trained: {error}") from None
    return found


def _row_recipe(
    asked: TableRequest, row: LectureRow, base: Mapping[str, Any], rotary_base: float | None
) -> Recipe:
    """The recipe of the data with a row's model; rotary positions have the base of the data's."""
    own = dict(row.model)
    if rotary_base is not None and own.get("positions") == "rotary":
        own["rotary_base"] = rotary_base
    if "experts" in own:
        own["experts"] //= asked.table.fewer_experts.get(asked.size, 1)
    model = {"preset": row.preset, "size": row.sizes[asked.size], **own, **base["model"]}
    data, train = base["data"], dict(base["train"])
    if row.max_len is not None:
        shorter = row.max_len // asked.table.shorter.get(asked.size, 1)
        model.setdefault("max_len", max(SHORTEST, shorter))
        data = {**data, "truncate": True}  # a row reads the first so many tokens
    if row.follows is not None:
        train["init"] = row.follows  # each seed's own, later
    if "objective" in row.train:
        train["criterion"] = ""  # that of the objective
    raw = {
        **base,
        "data": data,
        "model": model,
        "train": {**train, **row.train},
        "decode": {**base["decode"], **row.decode},
    }
    recipe = recipe_from(raw, row.key)
    task = TASKS[recipe.task]
    resolve_for(task.name, task.config, recipe.model, **task.stand_ins(raw))
    return recipe


def _records(asked: TableRequest, rows: Mapping[str, Recipe]) -> Data[Any]:
    """What the rows of a data set learn from, which is the same for all."""
    return load_records(next(iter(rows.values())).data, asked.table.records)


def least_work(asked: TableRequest) -> dict[str, float]:
    """Budgets that the trainings of each row take on each data set, at least, by their name."""
    return {
        f"{system_name(data)}/{row.key}": len(asked.seeds_of(row))
        * len(asked.endings)
        * (1.0 if row.follows is None else FOLLOWING_SHARE)
        + (least_cost() if row.follows is None else 0.0)
        for data in asked.data
        for row in asked.table.rows
        if row.ensemble_of is None
    }


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
    for rows in recipes.values():
        _records(asked, rows)  # are they there? before a folder is taken
    for data, rows in recipes.items():
        folder = out / system_name(data)
        claim(folder, Contest(system_name(data), rows, asked.budget, asked.seeds))
        trainings = SectionTrainings(asked, rows, folder, device, watching, say)

        def write(until: Until, trainings: SectionTrainings = trainings) -> None:
            results.save_section(trainings.section(until), trainings.folder)
            results.write_table(asked.table, results.load_sections(out), out)

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
            lines, crew, device=self.device, say=self.say, reached=reached
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
                    row, shown, direction=direction, size=size, seeds=self.asked.seeds
                )
                found.append(result)
                entries[row.key] = entry
            except Exception as error:  # hours of the others' work must not go with it
                kind = "" if isinstance(error, RegardError) else f"{type(error).__name__}: "
                failed = RowResult(
                    row=row.key,
                    title=row.title,
                    preset=row.preset,
                    error=f"{kind}{error}",
                    published=results.published(row, direction),
                )
                found.append(failed)
                self.say(f"{row.title} failed: {failed.error}")
        if not entries:
            reasons = "; ".join(f"{one.title}: {one.error}" for one in found)
            raise TrainingError(f"no row could be trained: {reasons}")
        return self._section(direction, until, found, entries)

    def _section(
        self,
        direction: str,
        until: Until,
        rows: list[RowResult],
        entries: Mapping[str, Entry],
    ) -> Section:
        table, n_seeds = self.asked.table, len(self.asked.seeds)
        best = results.best_row(rows, table.metrics[0])
        if table.bootstrap is not None:
            shown = {
                key: Entry(one.trials, one.lr, one.runs[:n_seeds]) for key, one in entries.items()
            }
            pairs = _records(self.asked, self.recipes).splits[SPLIT]
            rows = results.with_significance(rows, shown, best, [one.target for one in pairs])
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
            rows=rows,
            verdicts=results.verdicts(table, rows),
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

    def _ensemble(self, row: LectureRow, until: Until, entries: Mapping[str, Entry]) -> Entry:
        """Runs of another row as one; it is scored once, and that is kept."""
        assert row.ensemble_of is not None
        if row.ensemble_of not in entries:
            raise TrainingError(f"the row whose runs it averages, {row.ensemble_of}, has failed")
        of = self.systems[row.ensemble_of]
        seeds = range(1, self.asked.members + 1)
        runs = dict(zip(of.seeds, entries[row.ensemble_of].runs, strict=True))
        members = [runs[seed] for seed in seeds]
        path = self.folder / row.key / f"ensemble-{until}-{self.asked.members}.json"
        kept = _read_kept(path)
        if kept is None:
            self.say(f"{of.name}: scoring {self.asked.members} runs as one")
            found = scored_together([of.run_path(seed, until) for seed in seeds], self.device)
            kept = {"scores": found.scores, "outputs": found.outputs}
            write_whole(path, json.dumps(kept, ensure_ascii=False) + "\n")
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


def scored_together(paths: Sequence[Path], device: str | None) -> Evaluation:
    """Runs as an ensemble, on the test set of the first."""
    run = load(paths, device=device)
    return TASKS[run.task].evaluate(run, SPLIT)


def _read_kept(path: Path) -> dict[str, Any] | None:
    try:
        kept: dict[str, Any] = read_json(path)
    except CheckpointError:  # it is not there, or was cut short
        return None
    return kept


def _costing(run: FinishedTraining, before: FinishedTraining) -> FinishedTraining:
    """A run that started from another has cost what that one did, too."""
    cost, earlier = run.facts["measured"], before.facts["measured"]
    both = {name: cost[name] + earlier[name] for name in ("flops", "seconds")}
    facts = {**run.facts, "measured": {**cost, **both}}
    return FinishedTraining(facts, run.metrics, run.translations)
