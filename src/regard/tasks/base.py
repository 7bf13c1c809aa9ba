"""What a task is: one object that knows all that is particular to it.

A task knows its records and how they become batches, its loss and its scores (``prepare``), how a
trained run is opened, scored and looked into, and the verbs by which it is asked: from a verb come
a word of the command line, a path of the server and a form of the page. Built-in tasks and those
of plug-ins are entries of ``TASKS`` alike. Nothing here assumes that a source is text, and nothing
here imports torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.core.registry import Registry

if TYPE_CHECKING:
    import torch
    from pydantic import BaseModel
    from torch import nn

    from regard.data.stream import Stream
    from regard.evaluation.metrics import Takes
    from regard.models.settings import ModelConfig
    from regard.tasks.settings import Recipe
    from regard.text.tokenizer import Tokenizer
    from regard.training.losses import Objective

Answer = Mapping[str, Any]
"""What a run says to one request, as plain data: the JSON of the server."""
Event = tuple[str, Answer]
"""A kind and its data: one server-sent event of an answer that comes in parts."""
Answered = list[tuple[Any, Answer]]
"""Requests with their answers."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Lines to be answered, as they arrive: at most so many -> lists of lines."""

    read: Callable[[int], Iterator[list[str]]]
    named: str = "standard input, line"
    """What a line is called in messages, before its number."""
    given: bool = False
    """Whether these are inputs of the command line, and no lines of standard input."""

    def __call__(self, size: int) -> Iterator[list[str]]:
        """Lists of at most ``size`` lines."""
        return self.read(size)

    @contextmanager
    def telling(self, number: int) -> Iterator[None]:
        """Inside the block, an error in the data says in which line it is."""
        try:
            yield
        except DataError as error:
            raise DataError(f"{self.named} {number}: {error}") from None


class Unit(NamedTuple):
    """One of what a loss is averaged over, and several, in words."""

    one: str
    many: str


TOKEN, TEXT = Unit("token", "tokens"), Unit("text", "texts")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a run was found to do."""

    scores: dict[str, Any]
    """``task``, ``split``, ``n``, and the scores by name."""
    outputs: list[str]
    """What the model gave for each example, where that is text."""
    notes: tuple[str, ...] = ()
    """What a user should know about how the data was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The words with which the page asks, and what it offers beside the answer."""

    label: str
    """Of the first field that the verb's request asks for."""
    other: str = ""
    """Of the second one; empty where there is none."""
    optional: bool = False
    """Whether the second one may be left out."""
    go: str
    """On the button."""
    answer: str
    """Above the answer."""
    hint: str = ""
    about: str
    """What the run does, in the header."""
    stands: str
    """What is right even where a text is too long for the pictures."""
    language: str = ""
    """Code of the answer's language, where one is known."""
    views: tuple[str, ...] = ("lines", "matrix", "grid", "rollout", "heads")
    edits: tuple[str, ...] = ("ablate", "force", "temperature", "no_positions", "swap")
    verb: str = ""
    """Which of the task's verbs is asked; empty: the first."""
    view: str = ""
    """How the page shows the answer: ``labels``, ``masks``, ``span``, ``nearest``, ``boxes``,
    ``translation`` or ``continuation``; empty: its fields as they are."""
    writes: bool = False
    """Whether the reader chooses how it writes (temperature and so on)."""

    def as_json(self) -> dict[str, Any]:
        """Plain data, for ``/api/info``."""
        return asdict(self)


class Verb(ABC):
    """How a task is asked: ``regard NAME RUN``, ``POST /api/NAME``, a form of the page.

    The fields of ``request`` are the body of the HTTP request; those of ``options`` hold for a
    whole command. A verb that is answered line by line needs ``from_line``, ``answer`` and
    ``as_line``; one whose answers come in pieces has ``events`` as well.
    """

    name: ClassVar[str]
    task: ClassVar[str]
    """The task whose runs it is first of all for."""
    wants: ClassVar[str]
    """What it needs, for a message: "a translator"."""
    summary: ClassVar[str]
    """One line for the command line."""
    help: ClassVar[str] = ""
    """What the command line's help says after the summary."""
    doc: ClassVar[str] = ""
    """One line for the server's manual; the summary where it is empty."""
    command: ClassVar[bool] = True
    """Whether it is a word of the command line."""
    served: ClassVar[bool] = True
    """Whether it is a path of the server; translators have LibreTranslate's instead."""
    streams: ClassVar[bool] = False
    """Whether the server answers by ``events``."""
    unit: ClassVar[str] = "line"
    """What a remark counts."""
    chunk: ClassVar[int] = 1024
    """Lines that the command line answers together."""
    reads_files: ClassVar[bool] = False
    """Whether an input of the command line names a file, such as a picture's; else it is a text."""
    unasked: ClassVar[tuple[str, ...]] = ()
    """Lines that are answered where nobody pipes anything in; none: they are waited for."""

    @property
    @abstractmethod
    def request(self) -> type[BaseModel]:
        """What may be asked: fields with bounds and descriptions."""

    @property
    def options(self) -> type[BaseModel] | None:
        """What the command line may be told besides the lines; None: nothing."""
        return None

    @abstractmethod
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        """What the run says to each request."""

    def check(self, run: Any, request: Any, at_most: int) -> None:
        """Refuse, as a DataError, what is longer than ``at_most`` or than the run can read."""
        return  # most sources have no length that could be too much

    def beside(self, run: Any, request: Any) -> Answer:
        """What the server tells beside an answer, such as words that the model does not know."""
        return {}

    def events(
        self, run: Any, request: Any, dropped: Callable[[], bool] | None = None
    ) -> Iterator[Event]:
        """The answer in pieces, and ``done`` with all of it; it ends early once ``dropped``."""
        (answer,) = self.answer(run, [request])
        yield "done", answer

    def from_line(self, run: Any, line: str, options: Any) -> Any:
        """The request that a line of standard input is."""
        raise ConfigError(f"{self.name} reads no lines: it is asked over HTTP")

    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        """An answer as the command line prints it."""
        raise NotImplementedError

    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        """An answer as the command line prints it with ``--json``."""
        return {**request.model_dump(exclude_none=True), **answer}

    def remark(self, run: Any, requests: Sequence[Any]) -> tuple[int, str]:
        """Of how many something is to be told after the last line, and what: cut, for example."""
        return 0, ""

    def tell(self, n: int, remark: str, note: Callable[[str], None]) -> None:
        """Tell it, if there are any."""
        if n:
            note(f"{counted(n, self.unit)} {remark}")

    def lines(
        self, run: Any, chunks: Chunks, options: Any, *, note: Callable[[str], None]
    ) -> Iterator[Answered]:
        """Requests with their answers, one list a chunk of lines.

        What a user should know goes to ``note``. An error comes after all that was answered before
        it.
        """
        n_before, n_remarked, remark = 0, 0, ""
        for chunk in chunks(self.chunk):
            requests = []
            for number, line in enumerate(chunk, start=n_before + 1):
                with chunks.telling(number):
                    requests.append(self.from_line(run, line, options))
            # Of several requests it is not known whose error it is.
            with chunks.telling(n_before + 1) if len(chunk) == 1 else nullcontext():
                answers = self.answer(run, requests)
            yield list(zip(requests, answers, strict=True))
            n, remark = self.remark(run, requests)
            n_remarked += n
            n_before += len(chunk)
        self.tell(n_remarked, remark, note)

    def pieces(
        self, run: Any, chunks: Chunks, options: Any, *, note: Callable[[str], None]
    ) -> Iterator[str]:
        """What is printed as it comes, where the options ask to ``stream``."""
        raise ConfigError(f"{self.name} prints whole answers alone")


SHORT = 1000
"""Fewer steps than this are over before compiling has paid."""


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
        samples that are rewarded: no two batches of them are of one shape.
        """
        settings = self.recipe.train
        if getattr(self.config, "experts", None) is not None:
            if settings.compile is True:
                raise ConfigError(
                    "train.compile=true: a model with experts cannot be compiled; leave it at auto"
                )
            return False
        if settings.rewards:
            return False
        if settings.compile != "auto":
            return settings.compile
        return self.same_shapes and (settings.max_steps or SHORT) >= SHORT

    @property
    def few_shapes(self) -> bool:
        """Whether batches have one of few shapes, on a GPU: so that updates can be recorded."""
        return False

    @property
    def captured(self) -> bool:
        """Whether updates are recorded, as one graph for each shape."""
        recorded = self.few_shapes or (self.same_shapes and self.compiled)
        return recorded and self.recipe.train.accumulate == 1

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
        """What a training step on a batch costs, its padding included."""

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

    def judged(self, out: Path, test_sets: Sequence[str] | None) -> JudgedRun:
        """The trained run in a folder, scored on test sets; on all there are if none are named."""
        run = TASKS[self.recipe.task].load(out, device=str(self.device))
        names = self.test_sets if test_sets is None else test_sets
        return JudgedRun(run, {name: self.scored(run, name) for name in names})

    def report(self, judged: JudgedRun, facts: Mapping[str, Any]) -> None:
        """Write a page for people into the run's folder; ``facts`` are those of scores.json."""
        from regard.tasks.report import write_report

        write_report(judged, facts, TASKS[self.recipe.task])


class Validation(Protocol):
    """An evaluator for the training loop."""

    def __call__(self, model: Any) -> Mapping[str, float]:
        """Scores by name; ``loss`` is among them."""
        ...

    def rehearse(self, model: Any) -> None:
        """Do what a validation will cost, with a model that knows nothing yet."""
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

    def rehearse(self, model: Any) -> None:
        """Validate: a fresh model takes no longer."""
        self(model)


class Task(ABC):
    """Something that models are trained to do."""

    name: ClassVar[str]
    verbs: ClassVar[tuple[Verb, ...]]
    """The first is what its runs are for; the others are asked of it as well."""
    unit: ClassVar[Unit] = TEXT
    loss_unit: ClassVar[str] = "nats a {}"
    """What a loss is counted in, for people."""
    heeds: ClassVar[frozenset[str]] = frozenset()
    """Settings that some tasks use and this one does, as ``section.key``; others are refused."""
    smallest: ClassVar[Mapping[str, Any]] = {}
    """Stands in for what the data decides about a model, to see whether its settings fit."""
    looks: ClassVar[frozenset[str]] = frozenset()
    """What a look takes besides the source: ``other``, ``target``, ``max_tokens``, ``question``."""
    config: ClassVar[type[Any]]
    """The configuration that models of this task have; a family with it can learn the task."""
    files: ClassVar[tuple[str, ...]] = ()
    """What ``Prepared.save`` may write into a run's folder, by name: a run that replaces it deletes
    them."""
    attends: ClassVar[str]
    """Presets of this task whose models have heads, for a message."""
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
            "leave out --source and --alignments"
        )

    def score_alignments(self, run: Any, sentences: Path, gold: Path) -> Evaluation:
        """Whether attention finds the words that people aligned."""
        return self.score_pair(run, sentences, gold)

    def explain(self, run: Any, source: Any, *, edit: Any = (), **more: Any) -> Any:
        """A look at a run while it reads ``source``, and perhaps ``other``, or writes ``target``.

        ``more`` are named in ``looks``; what is not there is refused.
        """
        given = {name: value for name, value in more.items() if value is not None}
        for name in given:
            if name not in self.looks:
                raise ConfigError(f"a run of the task {self.name} {_NO_USE[name]}")
        return run.explain(source, edit=edit, **given)

    def subject(self, run: Any, split: str, n: int) -> Any:
        """What its heads are measured on: the first ``n`` examples of a split."""
        raise ConfigError(f"heads of the task {self.name} are not measured")

    def given_subject(self, run: Any, texts: Sequence[str], name: str, n: int) -> Any:
        """The same of texts that a user gives, which have no labels."""
        raise ConfigError(f"heads of the task {self.name} are not measured on texts")

    def check_look(self, run: Any, at_most: int, source: Any, **more: Any) -> int | None:
        """Refuse, as a DataError, a look at more than ``at_most`` tokens.

        -> how many tokens may be written after the source; None where nothing limits them.
        """
        return None

    @abstractmethod
    def form(self, run: Any) -> Form:
        """How the page asks."""

    def examples(self, run: Any) -> list[Any]:
        """What to begin with: texts, or objects with a ``text`` and perhaps an ``other``."""
        return []

    def tokenizers(self, run: Any) -> tuple[Tokenizer | None, Tokenizer | None]:
        """What reads and what writes; None where that is no text."""
        return None, None

    def info(self, run: Any) -> Mapping[str, Any]:
        """What else ``/api/info`` tells of a run of this task."""
        return {}


_NO_USE = {
    "other": "reads one text: give one, not two",
    "target": "writes nothing: leave out --target",
    "max_tokens": "writes no text of any length: leave out --max-tokens",
    "question": "answers no questions about pictures: leave out --question",
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
