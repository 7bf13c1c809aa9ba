"""A run scored on a split of its data, on that of another recipe, or on files of the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError
from regard.evaluation.metrics import METRICS
from regard.evaluation.systems import Bootstrap, paired_bootstrap
from regard.recipes.recipe import load_recipe
from regard.tasks.base import TASKS, Evaluation


def evaluate(
    run: Any,
    split: str | None = None,
    *,
    file: str | Path | None = None,
    source: str | Path | None = None,
    reference: str | Path | None = None,
    alignments: str | Path | None = None,
    gold: str | Path | None = None,
    data: str | Path | Mapping[str, Any] | None = None,
    own: bool = True,
    **options: Any,
) -> Evaluation:
    """Scores on a split of the run's data, ``test`` by default, or of the ``data`` of a recipe.

    Or on a ``file`` laid out as the training files were; on two files whose lines belong together,
    ``source`` and ``reference``; or, with ``alignments`` and ``gold``, where its attention looks.
    ``options`` are the task's, such as ``beam`` and ``stride``. A run whose data was put in the
    place of its ``own`` may read it.
    """
    check_asked(
        file=file, split=split, source=source, reference=reference, alignments=alignments,
        gold=gold, data=data, beam=options.get("beam"),
    )  # fmt: skip
    run, own = with_data(run, data), own and data is None
    task = TASKS[run.task]
    if alignments is not None and gold is not None:
        return task.score_alignments(run, Path(alignments), Path(gold))
    if source is not None and reference is not None:
        return task.score_pair(run, Path(source), Path(reference), **options)
    if file is not None:
        return task.score_file(run, Path(file), **options)
    return task.evaluate(run, split, own=own, **options)


def with_data(
    run: Any,
    data: str | Path | Mapping[str, Any] | None,
    overrides: Sequence[str] | None = None,
) -> Any:
    """The run as if it had been trained on the data of another recipe."""
    if data is None:
        if overrides:
            raise ConfigError("--set changes the recipe of --data, and none is given")
        return run
    other = load_recipe(data, overrides or ())
    called = "the data is that of" if isinstance(data, Mapping) else f"{data} is"
    _check_task(other.task, run, f"{called} a recipe")
    return replace(run, recipe=run.recipe.model_copy(update={"data": other.data}))


def _check_task(task: str, run: Any, what: str) -> None:
    if task != run.task:
        raise ConfigError(f"{what} for {task}, and this is a run for {run.task}")


def check_asked(**given: object) -> None:
    """Refuse, in words, what cannot be asked at once; what is None was not asked."""
    named = {name for name, value in given.items() if value is not None}
    if len(named & {"source", "reference"}) == 1:
        raise ConfigError("--source and --reference go together (source=, reference=)")
    if len(named & {"alignments", "gold"}) == 1:
        raise ConfigError("--alignments and --gold go together (alignments=, gold=)")
    if {"split", "source"} <= named:
        raise ConfigError(
            "--split (split=) scores the run's own data and --source (source=) your files: give one"
        )
    if "alignments" in named and named & {"split", "source", "beam", "against"}:
        scored = "--alignments scores attention, nothing is translated"
        raise ConfigError(f"{scored}: leave out --split, --source, --beam and --against")
    if "file" in named and named & {"split", "source", "alignments", "data"}:
        others = "--split, --source, --alignments and --data"
        raise ConfigError(f"{given['file']} says what to score on: leave out {others}")


def with_data_of(run: Any, other: Any, against: Path) -> Any:
    """Another run of the same task, as if it had been trained on the same data."""
    _check_task(other.task, run, f"{against} is a run")
    return replace(other, recipe=other.recipe.model_copy(update={"data": run.recipe.data}))


def ahead_of(found: Evaluation, other: Evaluation) -> dict[str, Bootstrap]:
    """How far the texts of the first are ahead, by the metrics that both were scored by."""
    if not found.references:
        task = found.scores["task"]
        raise ConfigError(f"--against compares texts, and a run for {task} writes none")
    able = [name for name, one in METRICS.items() if one.function and one.takes == "texts"]
    names = [name for name in able if name in found.scores and name in other.scores]
    texts = found.outputs, other.outputs, found.references
    return {name: paired_bootstrap(*texts, metric=name) for name in names}
