"""What the tasks that read texts have in common, and what their heads are measured on."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError, DataError
from regard.data.file_patterns import is_pattern
from regard.data.lines import present
from regard.data.settings import DataSettings
from regard.inspection.capture import POOL
from regard.inspection.heads import Ids
from regard.tasks.base import TASKS, Evaluation, Task
from regard.tasks.examples import EXAMPLES, N_EXAMPLES, PageExample, distinct, saved_examples
from regard.tasks.opening import TOKENIZER_FILES
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID, SpecialIds

NOBODYS = ("train.txt", "train.tsv")
"""What the recipe of an imported run names; a file of that name may lie here by chance."""
MOST_CHARACTERS = {"text": 160, "other": 600}
"""Of an example."""
ELSEWHERE = "name a file, or with --data RECIPE (data=) a recipe whose data to score on"
TEXTS_INSTEAD = "measure on other texts: regard heads … --texts FILE, or run.heads(texts=[…])"
"""What to do where a run has no data to be scored on, or to measure heads on."""
NO_TEST = "there is no test set: scored on valid, by which the weights were chosen"
WEIGHTS = 2**24
"""Of all heads together in one batch; measuring takes about 40 bytes for each."""
Scorer = Callable[[], dict[str, float]]
"""The scores of the model as it is when asked, by name."""
Numbered = tuple[int, Sequence[int]]
"""Which of the texts, and its ids."""


def check_data(folder: RunFolder, data: DataSettings, remedy: str) -> None:
    """Refuse a run that has no data, or names a stranger's."""
    if not _names_data(folder, data):
        raise DataError(f"the run {folder.path} was imported and has no data of its own; {remedy}")
    data.check_trusted()


def has_data(folder: RunFolder, data: DataSettings) -> bool:
    """Not so where a run was never trained here, and names files that are nowhere, or nobody's.

    Files that may not be read are none. Whoever names a world or a folder has data; what that lacks
    is told elsewhere.
    """
    return data.is_trusted and _names_data(folder, data)


def _names_data(folder: RunFolder, data: DataSettings) -> bool:
    if folder.metrics.exists() or data.world is not None or data.folder is not None:
        return True
    corpora = [data.train, *(one.train for one in data.mix or ())]
    names = [name for one in corpora for name in ([one] if isinstance(one, str) else one or ())]
    return any(is_pattern(name) or present(Path(name)) for name in names if name not in NOBODYS)


class TextTask(Task):
    """A task of runs that read a text, or two."""

    searchable = True
    files: ClassVar[tuple[str, ...]] = (*TOKENIZER_FILES, EXAMPLES)
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
        name = split or ("valid" if notes else "test")
        found: Evaluation = run.evaluate_split(name, **given)
        return replace(found, notes=(*notes, *found.notes))

    def has_test(self, run: Any) -> bool:
        """Whether the run's data has a split that chose nothing."""
        data = run.recipe.data
        return any(one is not None for one in (data.world, data.test, data.hold_out))

    def options_of(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of an evaluation that are given; those of other tasks are refused."""
        given = {name: value for name, value in options.items() if value is not None}
        wrong = next((name for name in given if name not in self.evaluation_options), None)
        if wrong is not None:
            users = [
                name
                for name, task in TASKS.items()
                if wrong in getattr(task, "evaluation_options", ())
            ]
            raise ConfigError(
                f"--{wrong} is for runs of the task {' and '.join(users)}, and this is one of the "
                f"task {self.name}; leave it out"
            )
        return given

    def asked_of(self, run: Any, records: Sequence[Any]) -> Iterator[PageExample]:
        """What is asked of the run where it is to answer the records."""
        return iter(())

    @override
    def explained_with(self, run: Any, records: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        pairs = bool(getattr(run, "takes_pairs", False))
        for one in self.asked_of(run, records):
            yield {"source": one["text"], **({"other": one["other"]} if pairs else {})}

    @override
    def examples_of(self, run: Any, records: Sequence[Any]) -> Iterator[PageExample]:
        """The first short ones, each once."""
        return islice(distinct(filter(_is_short, self.asked_of(run, records))), N_EXAMPLES)

    @override
    def examples(self, run: Any) -> list[Any]:
        if run.recipe.data.world == "sentences" and self.of_sentences:
            return list(self.of_sentences)
        return saved_examples(run.folder.path) or list(self.well_known)

    def scorer(self, scores: Callable[[], Mapping[str, Any]]) -> Scorer:
        """Those of some scores that are told of heads."""
        return lambda: {
            name: found[name] for found in [scores()] for name in self.head_scores if name in found
        }


def _is_short(example: PageExample) -> bool:
    return all(0 < len(text) <= MOST_CHARACTERS[side] for side, text in example.items())


class PatchGrid(NamedTuple):
    """Rows and columns of an attention that are the patches of a picture."""

    grid: tuple[int, int]
    size: float
    """Pixels from one patch to the next."""
    n_before: int = 0
    """Positions before the first patch: a class token."""


class Reading(NamedTuple):
    """A batch as a model reads it."""

    inputs: tuple[Tensor, ...]
    ids: Callable[[str], tuple[Ids, Ids]]
    """Name of an attention -> ids of its rows (B, T) and columns (B, S), with our special ids."""
    patches: Mapping[str, PatchGrid] = {}
    """Attentions from patches to patches."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What heads are measured on: examples, how a model reads them, and how it is judged."""

    model: nn.Module
    device: torch.device
    readings: Callable[[], Iterator[Reading]]
    judge: Scorer
    split: str
    n: int
    """Examples."""
    notes: tuple[str, ...] = ()
    """What a user should know about the data."""
    known: Callable[[], Mapping[str, Mapping[Hashable, float]]] = dict
    """What the data knows of heads: name of a measure -> label of a head -> its value."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is told of the measuring."""


def given_texts(texts: Sequence[str], name: str, n: int) -> list[str]:
    """The first ``n`` texts that are not blank, to measure heads on."""
    found = [text for text in texts if text.strip()][:n]
    if not found:
        raise DataError(f"{name} has no text to measure heads on")
    return found


def batched(texts: Sequence[Sequence[int]], n_heads: int) -> Iterator[list[Numbered]]:
    """Texts with their numbers, longest first; what is too long to be watched is cut."""
    most = math.isqrt(WEIGHTS // n_heads) if n_heads else None
    left = sorted(((i, ids[:most]) for i, ids in enumerate(texts)), key=lambda one: -len(one[1]))
    while left:
        longest = len(left[0][1])
        n_rows = max(1, WEIGHTS // (n_heads * longest**2 or longest))
        yield left[:n_rows]
        left = left[n_rows:]


def padded(rows: Sequence[Sequence[int]], n: int, fill: int) -> Tensor:
    """Rows of ids -> (B, n), filled up at their ends."""
    return torch.tensor([[*row, *[fill] * (n - len(row))] for row in rows])


def special_ids(some: Sequence[Numbered], marks: SpecialIds) -> Callable[[str], tuple[Ids, Ids]]:
    """Rows and columns are the same tokens, told by our ids of special tokens; others are words.

    Padding is told by where it stands: its id may mean something else too. What pools a text has
    one row.
    """
    ours = {marks.begin: BEGIN_ID, marks.end: END_ID}
    known = [[ours.get(number, UNKNOWN_ID) for number in ids] for _, ids in some]
    ids = padded(known, len(known[0]), PAD_ID).numpy()
    one = np.full_like(ids[:, :1], UNKNOWN_ID)
    return lambda name: (one if name == POOL else ids, ids)
