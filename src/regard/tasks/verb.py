"""What a verb is: how a task is asked, and the form with which the page asks it.

From a verb come a word of the command line, a path of the server and a form of the page. Nothing
here imports torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted

if TYPE_CHECKING:
    from pydantic import BaseModel

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
    before: int = 0
    """Lines that stand before them, where they are a part of a file."""

    def __call__(self, size: int) -> Iterator[list[str]]:
        """Lists of at most ``size`` lines."""
        return self.read(size)

    @contextmanager
    def telling(self, number: int) -> Iterator[None]:
        """Inside the block, an error in the data says in which line it is."""
        try:
            yield
        except DataError as error:
            raise DataError(f"{self.named} {self.before + number}: {error}") from None


class Unit(NamedTuple):
    """One of what a loss is averaged over, and several, in words."""

    one: str
    many: str


TOKEN, TEXT = Unit("token", "tokens"), Unit("text", "texts")


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
    takes: ClassVar[str] = "Texts"
    """What inputs of the command line are, for its help."""
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
