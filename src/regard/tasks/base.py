"""What a task is: one object that knows all that is particular to it.

A task knows its records and how they become batches, its loss and its scores (``prepare``), how a
trained run is opened, scored and looked into, and the verbs by which it is asked. Built-in tasks
and those of plug-ins are entries of ``TASKS`` alike. Nothing here assumes that a source is text,
and nothing here imports torch.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.tasks.examples import (
    EXAMPLES,
    MOST_READ,
    N_EXAMPLES,
    PageExample,
    distinct,
    save_examples,
    saved_examples,
)
from regard.tasks.picture_verbs import ASK, CAPTION, DETECT
from regard.tasks.reading_verbs import ANSWER, CLASSIFY, EMBED, FILL, NEAREST, NEIGHBOURS
from regard.tasks.verb import TEXT, Form, Unit, Verb
from regard.tasks.writing_verbs import GENERATE, SUMMARIZE, TRANSLATE

if TYPE_CHECKING:
    import torch
    from torch import nn

    from regard.data.shards import Manifest
    from regard.data.stream import Stream
    from regard.evaluation.metrics import Takes
    from regard.models.settings import ModelConfig
    from regard.tasks.settings import Recipe
    from regard.text.tokenizer import Tokenizer
    from regard.training.losses import Objective


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a run was found to do."""

    scores: dict[str, Any]
    """``task``, ``split``, ``n``, and the scores by name."""
    outputs: list[str]
    """What the model gave for each example, where that is text."""
    notes: tuple[str, ...] = ()
    """What a user should know about how the data was read."""
    references: Sequence[str] = ()
    """The right text of each example, where the task is to write one."""

    def __repr__(self) -> str:
        from regard.evaluation.metrics import score_text, titles

        scores = self.scores
        told = [
            f"{title} {score_text(name, scores[name])}" for name, title in titles(scores).items()
        ]
        on = f"{scores['task']} on {scores['split']}, n = {scores['n']:,}"
        return f"<Evaluation of {on}: {', '.join(told) or 'no scores'}>"

    def _repr_html_(self) -> str:
        """The tables of a run's report, in a notebook."""
        from regard.tasks.report import evaluation_html

        return evaluation_html(self.scores, self.notes)


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A trained run, and what it can do: its evaluations by test set."""

    run: Any
    evaluations: dict[str, Evaluation]
    samples: Sequence[tuple[str, str, str | None]] = ()
    """Some sources with what the run made of them, and what should have come out."""
    figures: Sequence[str] = ()
    """Drawings for the report: trusted SVG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(ABC):
    """Data and a fresh model; each task adds what it reads and writes with."""

    recipe: Recipe
    config: ModelConfig
    model: nn.Module
    notes: tuple[str, ...]
    """What a user should know about the data."""
    device: torch.device
    validated_on: ClassVar[str] = "example"
    """One of what a validation counts."""
    takes: ClassVar[Takes | None] = None
    """What its metrics compare, and so which ones ``train.metrics`` may name."""

    @property
    def same_shapes(self) -> bool:
        """Whether all batches have one shape, on a GPU: so that compiling pays by default."""
        return False

    @property
    def compiled(self) -> bool:
        """Whether kernels are made to measure; by default where that pays in a run so long.

        Experts are never compiled: how many tokens each has is known to nobody before. Nor are
        samples that are rewarded: no two batches of them are of one shape. Nor are sharded models,
        whose blocks gather their weights while they are called.
        """
        settings = self.recipe.train
        if getattr(self.config, "experts", None) is not None:
            if settings.compile is True:
                raise ConfigError(
                    "train.compile=true: a model with experts cannot be compiled; leave it at auto"
                )
            return False
        if settings.rewards or settings.parallel == "shard":
            return False
        if settings.compile != "auto":
            return settings.compile
        short = settings.max_steps is not None and settings.max_steps < self.config.compiles_from
        return self.same_shapes and not short

    @property
    def few_shapes(self) -> bool:
        """Whether batches have one of few shapes, on a GPU: so that updates can be recorded."""
        return False

    @property
    def captured(self) -> bool:
        """Whether updates are recorded, as one graph for each shape."""
        one_shape = self.same_shapes and (self.compiled or self.config.records)
        return (self.few_shapes or one_shape) and self.recipe.train.accumulate == 1

    @property
    def criteria(self) -> tuple[str, ...]:
        """By which of its scores a validation may choose the best weights."""
        return ("loss",)

    @property
    def unit(self) -> str:
        """What a loss is averaged over, for people."""
        return TASKS[self.recipe.task].unit.one

    @property
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        """What ids stand for: one for all texts, or one for the source and one for the target."""
        return ()

    @property
    @abstractmethod
    def size(self) -> Mapping[str, int]:
        """How much there is to learn from, and with: numbers by name."""

    @abstractmethod
    def stream(self) -> Stream:
        """The batches of this recipe, from the first."""

    @abstractmethod
    def objective(self) -> Objective:
        """What training makes small."""

    @abstractmethod
    def validation(self) -> Validation:
        """The evaluator that training is given."""

    @abstractmethod
    def flops(self, batch: Any) -> float:
        """What a training step on a batch costs."""

    @abstractmethod
    def example(self, number: int) -> str:
        """A training example by its number, for people."""

    @property
    @abstractmethod
    def test_sets(self) -> Sequence[str]:
        """The splits on which the trained run is scored."""

    @abstractmethod
    def scored(self, run: Any, split: str) -> Evaluation:
        """The trained run's scores on a split, which is in memory already."""

    def save(self, folder: Path) -> None:
        """Write into the run's folder what its examples are read with, such as a tokenizer."""
        return

    def held_out(self) -> Sequence[Any]:
        """Records that nothing was learned from; those of ``valid``, if there are."""
        return ()

    def n_validated_on(self) -> int:
        """How much chooses the best weights."""
        return len(self.held_out())

    def learned_from(self) -> Sequence[Any]:
        """Records of ``train`` that a page may show where few are held out."""
        return ()

    def judged(self, out: Path, test_sets: Sequence[str] | None) -> JudgedRun:
        """The trained run in a folder, scored on test sets; on all there are if none are named."""
        run = TASKS[self.recipe.task].load(out, device=str(self.device))
        names = self.test_sets if test_sets is None else test_sets
        return JudgedRun(run, {name: self.scored(run, name) for name in names})

    def report(self, judged: JudgedRun, facts: Mapping[str, Any]) -> None:
        """Write a page for people into the run's folder; ``facts`` are those of scores.json.

        What a server's page may show of the data is written beside it.
        """
        from regard.tasks.report import write_report

        task = TASKS[self.recipe.task]
        examples = [*task.examples_of(judged.run, self.held_out())]
        write_report(judged, facts, task, examples)
        if len(examples) < N_EXAMPLES:
            few = list(islice(self.learned_from(), MOST_READ))  # there may be millions, none short
            more = task.examples_of(judged.run, few)
            examples = [*islice(distinct(chain(examples, more)), N_EXAMPLES)]
        save_examples(judged.run.folder.path, examples)


class Validation(Protocol):
    """An evaluator for the training loop."""

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Scores by name; ``loss`` is among them."""
        ...

    def rehearse(self, model: Any) -> float:
        """Seconds that a validation takes: by one, or a part, of a model that knows nothing yet."""
        ...


class Scoring(Validation):
    """An evaluator for the training loop that gives what a function finds."""

    def __init__(self, scores: Callable[[Any], Mapping[str, float]]) -> None:
        self.scores = scores

    def __call__(self, model: Any) -> Mapping[str, float]:
        """What the function finds."""
        import torch

        with torch.inference_mode():
            return self.scores(model)

    def rehearse(self, model: Any) -> float:
        """Validate: a fresh model takes no longer."""
        began = time.perf_counter()
        self(model)
        return time.perf_counter() - began


REHEARSED = 2.0
"""Seconds after which what is left of a rehearsal is reckoned by what was done."""
P = TypeVar("P")


def rehearsed(parts: Sequence[P], do: Callable[[P], Any], size: Callable[[P], float]) -> float:
    """Seconds that doing all parts takes: by as many as are done within ``REHEARSED``, or two.

    Parts take as long as they are large, but for the first, where kernels may be compiled. They
    come in an order of chance, since theirs may be by length.
    """
    if not parts:
        return 0.0
    first, *others = random.Random(0).sample(parts, len(parts))
    began = time.perf_counter()
    do(first)
    ready = time.perf_counter()
    done = 0.0
    for part in others:
        do(part)
        done += size(part)
        if time.perf_counter() - ready > REHEARSED:
            break
    rate = (time.perf_counter() - ready) / done if others else 0.0
    return ready - began + rate * sum(map(size, others))


class Task(ABC):
    """Something that models are trained to do."""

    name: ClassVar[str]
    verbs: ClassVar[tuple[Verb, ...]]
    """The first is what its runs are for; the others are asked of it as well."""
    unit: ClassVar[Unit] = TEXT
    loss_unit: ClassVar[str] = "nats per {}"
    """What a loss is counted in, for people."""
    heeds: ClassVar[frozenset[str]] = frozenset()
    """Settings that some tasks use and this one does, as ``section.key``; others are refused."""
    smallest: ClassVar[Mapping[str, Any]] = {}
    """Stands in for what the data decides about a model, to see whether its settings fit."""
    looks: ClassVar[frozenset[str]] = frozenset()
    """What a look takes besides the source: ``other``, ``target``, ``max_tokens``, ``question``."""
    searchable: ClassVar[bool] = False
    """Whether the texts of its runs' data can be searched, by ``records_of``."""
    config: ClassVar[type[Any]]
    """The configuration that models of this task have; a family with it can learn the task."""
    files: ClassVar[tuple[str, ...]] = (EXAMPLES,)
    """What ``Prepared`` may write into a run's folder, by name: a run that replaces it deletes
    them."""
    attends: ClassVar[str]
    """Presets of this task whose models have heads, for a message."""
    hub_task: ClassVar[str | None] = None
    """What model hubs call it (``pipeline_tag``); None where they have no word for it."""
    plain_name: ClassVar[str] = ""
    """The task that a recipe may name instead, where the preset of its model is one of this."""

    @property
    def verb(self) -> Verb:
        """What its runs are for."""
        return self.verbs[0]

    def stand_ins(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """``smallest`` for a recipe that is not checked yet."""
        return self.smallest

    @abstractmethod
    def prepare(
        self,
        recipe: Recipe,
        device: torch.device,
        *,
        begun: Path | None = None,
        cache: Path | None = None,
    ) -> Prepared:
        """Data and a fresh model: all that training needs before the first step.

        A run that was ``begun`` keeps its tokenizers. What can be kept of the data goes into
        ``cache``. Draws from torch's default generator, which is left where the first step begins.
        """

    def shard(self, recipe: Recipe, *, n_workers: int, say: Callable[[str], None]) -> Manifest:
        """Tokenise the training texts into the folder ``data.shards``, or go on with it."""
        raise ConfigError(
            f"the task {self.name} reads its training data whole: leave out data.shards"
        )

    @abstractmethod
    def load(self, path: str | Path, *, device: str | None = None) -> Any:
        """Open a run folder. Nothing in it is executed."""

    def ensemble(self, runs: Sequence[Any]) -> Any:
        """Several runs as one, which answers by the mean of their probabilities."""
        raise ConfigError(f"runs of the task {self.name} make no ensemble; name one run")

    @abstractmethod
    def evaluate(self, run: Any, split: str | None = None, **options: Any) -> Evaluation:
        """Scores on a split of the run's data; ``test`` by default."""

    @abstractmethod
    def score_file(self, run: Any, path: Path, **options: Any) -> Evaluation:
        """Scores on a file of the user's, laid out as the training files were."""

    def score_pair(self, run: Any, source: Path, reference: Path, **options: Any) -> Evaluation:
        """Scores on two files whose lines belong together."""
        raise ConfigError(
            f"a run of the task {self.name} is scored on splits of its own data or on one file: "
            "leave out --source and --alignments (source=, alignments=)"
        )

    def score_alignments(self, run: Any, sentences: Path, gold: Path) -> Evaluation:
        """Whether attention finds the words that people aligned."""
        return self.score_pair(run, sentences, gold)

    def explain(self, run: Any, source: Any, *, edit: Any = (), **more: Any) -> Any:
        """A look at a run while it reads ``source``, and perhaps ``other``, or writes ``target``.

        ``more`` are named in ``looks``; what is not there is refused.
        """
        return run.explain(source, edit=edit, **self._looked_with(more))

    def fixed_answer(self, run: Any, source: Any, *, edit: Any = (), **more: Any) -> Any:
        """What is asked as in ``explain``, with its answer, so that heads can be weighed."""
        return run.fixed_answer(source, edit=edit, **self._looked_with(more))

    def _looked_with(self, more: Mapping[str, Any]) -> dict[str, Any]:
        """What is given besides a source; what this task has no use for is refused."""
        given = {name: value for name, value in more.items() if value is not None}
        for name in given:
            if name not in self.looks:
                raise ConfigError(f"a run of the task {self.name} {_NO_USE[name]}")
        return given

    def found_at(self, run: Any, look: Any, output: Any, row: int) -> Mapping[str, Any] | None:
        """What the model's output says of a row of the target, where that is no token; for stories.

        -> plain data; None where tokens are written, or nothing is.
        """
        return None

    def subject(self, run: Any, split: str, n: int) -> Any:
        """What its heads are measured on: the first ``n`` examples of a split."""
        raise ConfigError(f"heads of the task {self.name} are not measured")

    def given_subject(self, run: Any, texts: Sequence[str], name: str, n: int) -> Any:
        """The same of texts that a user gives, which have no labels."""
        raise ConfigError(f"heads of the task {self.name} are not measured on texts")

    def records_of(self, run: Any, split: str) -> Sequence[Any]:
        """The records of a split of the run's data, to be searched; only of files of its own."""
        raise ConfigError(f"a run of the task {self.name} has no texts to search")

    def explained_with(self, run: Any, records: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        """What ``explain`` is given for each record: a ``source``, and perhaps an ``other``."""
        return iter(())

    def check_look(self, run: Any, at_most: int, source: Any, **more: Any) -> int | None:
        """Refuse, as a DataError, a look at more than ``at_most`` tokens.

        -> how many tokens may be written after the source; None where nothing limits them.
        """
        return None

    @abstractmethod
    def form(self, run: Any) -> Form:
        """How the page asks."""

    def examples_of(self, run: Any, records: Sequence[Any]) -> Iterable[PageExample]:
        """What of some held-out records a page may begin with."""
        return ()

    def examples(self, run: Any) -> list[Any]:
        """What to begin with: texts, or objects with a ``text`` and perhaps an ``other``.

        They are a part of Regard or lie in the run's folder; nothing else is read.
        """
        return saved_examples(run.folder.path) or []

    def scenes(self, run: Any, records: Sequence[Any]) -> Iterable[Mapping[str, Any]]:
        """What of some held-out records can be looked at again and again while a run is trained:
        arguments of ``explain``, a ``source`` among them. Those with a ``target`` are better: the
        picture has the same rows each time.
        """
        for one in self.examples_of(run, records):
            other = {"other": one["other"]} if "other" in one and "other" in self.looks else {}
            yield {"source": one["text"], **other}

    def tokenizers(self, run: Any) -> tuple[Tokenizer | None, Tokenizer | None]:
        """What reads and what writes; None where that is not text."""
        return None, None

    def info(self, run: Any) -> Mapping[str, Any]:
        """What else ``/api/info`` tells of a run of this task."""
        return {}


_NO_USE = {
    "other": "reads one text: give one, not two",
    "target": "writes nothing: leave out --target (target=)",
    "max_tokens": "writes no text of any length: leave out --max-tokens (max_tokens=)",
    "question": "answers no questions about pictures: leave out --question (question=)",
}


class TaskRegistry(Registry[Task]):
    """Tasks by name; built-in ones are imported when somebody asks."""

    builtin: tuple[str, ...] = (
        *(
            "translation",
            "summarization",
            "language",
            "classification",
            "masked",
            "similarity",
            "answers",
            "vectors",
        ),
        *("image_classification", "captioning", "visual_questions", "detection"),
    )
    """Modules beside this one, each of which enters the task of its name."""

    def __contains__(self, name: object) -> bool:
        if name in self.builtin and name not in self._things:
            import_module(f"regard.tasks.{name}")
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        for name in self.builtin:
            assert name in self
            yield name
        yield from (name for name in self._things if name not in self.builtin)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def entered(self) -> Iterable[Task]:
        """Those that are in memory: of plug-ins that were loaded, all."""
        return self._things.values()


TASKS = TaskRegistry("task")


def verbs() -> dict[str, Verb]:
    """All verbs by name: the built-in ones, and those of plug-ins that were loaded."""
    texts = (TRANSLATE, SUMMARIZE, GENERATE, CLASSIFY, ANSWER, EMBED, NEAREST, FILL, NEIGHBOURS)
    builtin = (*texts, CAPTION, ASK, DETECT)
    others = (verb for task in TASKS.entered() for verb in task.verbs)
    return {verb.name: verb for verb in (*others, *builtin)}
