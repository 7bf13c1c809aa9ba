"""What is asked of a lecture's table: which rows with which budgets, and each row as a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.data.splits import Data, load_records
from regard.data.worlds.registry import WORLDS, check_world
from regard.models.presets import resolve_for
from regard.recipes.recipe import builtin_recipes, load_recipe, override_setting, overrides_of
from regard.runs.compare import check_one_world, check_tested, system_name
from regard.runs.estimate import Budget, parse_budget
from regard.runs.lecture_tables import SHORTEST, SIZES, LectureRow, LectureTable
from regard.runs.trainings import Until, budgets_left
from regard.tasks.base import TASKS, Task
from regard.tasks.recipe import Recipe, recipe_from

FOLLOWING_SHARE = 0.25
"""Of the budget, for a training that starts from another row's run."""
BUDGET, MEMBERS, SIZE = "2e14flops", 3, "small"
"""Of a training, runs of an ensemble, and the models' size, where nothing is said."""


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
    converge: bool | None = None,
    seeds: int | None = None,
    members: int | None = None,
    size: str | None = None,
    quick: bool = False,
    overrides: Sequence[str] = (),
) -> TableRequest:
    """A request, checked; ``quick`` is the small table of a built-in world at its own budget."""
    own = {"data": data or None, "budget": budget, "converge": converge, "seeds": seeds}
    own |= {"members": members, "size": size}
    if quick and (given := [f"--{name}" for name, value in own.items() if value is not None]):
        raise ConfigError(f"--quick has that of its own: leave out {' and '.join(given)}")
    if size is not None and size not in SIZES:
        raise ConfigError(f"--size {size!r}: a table is {', '.join(SIZES)}")
    if members is not None and members < 2:
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
        budget=parse_budget(budget or BUDGET),
        converge=True if converge is None else converge,
        seeds=tuple(range(1, (seeds or 1) + 1)),
        members=members or MEMBERS,
        size=size or SIZE,
        overrides=tuple(overrides),
    )


def row_recipes(asked: TableRequest, data: str) -> dict[str, Recipe]:
    """Recipes of the rows that are trained, by key: the data's, with the row's model.

    A row that cannot be had, for want of its preset or of a setting, is refused by its name.
    """
    models = overrides_of(["model"], asked.overrides)
    base = _base(asked.table, data, [one for one in asked.overrides if one not in models])
    raw = base.model_dump(mode="json")
    given = base.model.given()
    raw["model"] = {"dropout": given["dropout"]} if "dropout" in given else {}
    for override in models:
        override_setting(raw, override)
    found = {}
    for row in asked.table.rows:
        try:
            if row.ensemble_of is None:
                found[row.key] = _row_recipe(asked, row, raw, given.get("rotary_base"))
            elif not hasattr(Task, "ensemble"):
                raise ConfigError("this version makes no ensembles")
        except ConfigError as error:
            raise ConfigError(f"the row {row.title!r} cannot be trained: {error}") from None
    return found


def _base(table: LectureTable, data: str, overrides: Sequence[str]) -> Recipe:
    """The recipe of a data set, whose model is no row's."""
    known = builtin_recipes()
    if data not in WORLDS and data not in known and not Path(data).is_file():
        raise ConfigError(
            f"no data {data!r}{did_you_mean(data, [*WORLDS, *known])}: give a built-in world, or a "
            "recipe that names your files"
        )
    if table.recipe not in known and data in WORLDS:
        raise ConfigError(f"this version has no recipe {table.recipe!r}; name one with --data")
    if data in WORLDS:
        check_world(data, table.records, f"a recipe for {table.task}")
        check_one_world(data, overrides)
    named = (table.recipe, [f"data.world={data}"]) if data in WORLDS else (data, [])
    base = load_recipe(named[0], [*named[1], *overrides])
    if base.task != table.task:
        raise ConfigError(f"{data} is a recipe for {base.task}; this table is of {table.task}")
    check_tested(data, base)
    return base


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
    if train["lr"] is not None and not overrides_of(["train.lr"], asked.overrides):
        train["lr"] *= row.rate
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


def records_of(asked: TableRequest, rows: Mapping[str, Recipe]) -> Data[Any]:
    """What the rows of a data set learn from, which is the same for all."""
    return load_records(next(iter(rows.values())).data, asked.table.records)


def least_work(asked: TableRequest, out: Path) -> dict[str, float]:
    """Budgets that the trainings of each row on each data set still take, at least, by their name.

    What is finished in the table's folder takes nothing.
    """
    found = {}
    for data in map(system_name, asked.data):
        for row in asked.table.rows:
            if row.ensemble_of is None:
                share = None if row.follows is None else FOLLOWING_SHARE
                runs = asked.seeds_of(row), asked.endings
                found[f"{data}/{row.key}"] = budgets_left(out / data / row.key, *runs, share=share)
    return found
