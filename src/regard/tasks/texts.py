"""What the tasks that read texts have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar

from typing_extensions import override

from regard.core.errors import ConfigError, DataError, RegardError
from regard.tasks.base import TASKS, Evaluation, Task
from regard.tasks.data import check_data, has_data
from regard.tasks.subjects import Scorer

PageExample = dict[str, str]
"""A ``text``, and an ``other`` one where two go in."""
N_EXAMPLES = 5
MOST_CHARACTERS = {"text": 160, "other": 600}
"""Of an example."""
ELSEWHERE = "name a file, or with --data RECIPE a recipe whose data to score on"
"""What to do where a run has no data."""
NO_TEST = "there is no test set: scored on valid, by which the weights were chosen"


class TextTask(Task):
    """A task of runs that read a text, or two."""

    of_sentences: ClassVar[tuple[PageExample, ...]] = ()
    """Examples of the built-in sentences, whose splits take a while to build."""
    well_known: ClassVar[tuple[PageExample, ...]] = ()
    """Examples where a run has no data of its own: weights that came from elsewhere."""
    evaluation_options: ClassVar[frozenset[str]] = frozenset()
    """What an evaluation may be told."""
    head_scores: ClassVar[tuple[str, ...]] = ("loss",)
    """What is told of a run without one of its heads; what does not apply is left out."""

    @override
    def evaluate(
        self, run: Any, split: str | None = None, *, own: bool = True, **options: Any
    ) -> Evaluation:
        given = self.options_of(options)
        if own:
            check_data(run.folder, run.recipe.data, ELSEWHERE)
        notes = () if split is not None or self.has_test(run) else (NO_TEST,)
        found: Evaluation = run.evaluate(split or ("valid" if notes else "test"), **given)
        return replace(found, notes=(*notes, *found.notes))

    def has_test(self, run: Any) -> bool:
        """Whether the run's data has a split that chose nothing."""
        data = run.recipe.data
        return any(one is not None for one in (data.world, data.test, data.hold_out))

    def options_of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of an evaluation that are given; those of other tasks are refused."""
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.evaluation_options:
                users = [
                    known
                    for known, task in TASKS.items()
                    if name in getattr(task, "evaluation_options", ())
                ]
                raise ConfigError(
                    f"--{name} is for runs of the task {' and '.join(users)}, and this is one of "
                    f"the task {self.name}; leave it out"
                )
        return given

    def held_out(self, run: Any) -> Iterator[PageExample]:
        """Examples that nothing was learned from."""
        return iter(())

    @override
    def examples(self, run: Any) -> list[Any]:
        data = run.recipe.data
        if data.world == "sentences" and self.of_sentences:
            return list(self.of_sentences)
        if not has_data(run.folder, data):
            return list(self.well_known)
        try:
            return list(islice(filter(_is_short, self.held_out(run)), N_EXAMPLES))
        except RegardError:  # the files have gone
            return list(self.well_known)

    def scorer(self, scores: Callable[[], Mapping[str, Any]]) -> Scorer:
        """Those of some scores that are told of heads."""
        return lambda: {
            name: found[name] for found in [scores()] for name in self.head_scores if name in found
        }


def _is_short(example: PageExample) -> bool:
    return all(0 < len(text) <= MOST_CHARACTERS[side] for side, text in example.items())


def spoken(texts: Sequence[str], name: str, n: int) -> list[str]:
    """The first ``n`` texts that say something."""
    said = [text for text in texts if text.strip()][:n]
    if not said:
        raise DataError(f"{name} has no text to measure heads on")
    return said
