"""What the verbs of texts share: checks of what goes in, and notes on what was not read.

Importing it needs neither torch nor pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from regard.core.errors import DataError
from regard.core.numbers import counted
from regard.tasks.verb import Answer, Chunks, Verb

if TYPE_CHECKING:
    from pydantic import BaseModel

MASK = "<mask>"
MOST_UNKNOWN = 10_000
"""So many unknown words are remembered: input may be endless, memory is not."""
Note = Callable[[str], None]


def unknown_note(words: Iterable[str], run: Any = None) -> list[str]:
    """A line that names the first of the words that a model has never seen, if there are any.

    Where the ``run`` knows one of them in small letters, the line says so, and the way out.
    """
    unknown = list(dict.fromkeys(words))
    shown = ", ".join(unknown[:10]) + (", …" if len(unknown) > 10 else "")
    told = f"{counted(len(unknown), 'unknown word')} read as <unk>: {shown}"
    small = [] if run is None else [one.lower() for one in unknown if _is_known_small(run, one)]
    if small:
        told += f"; `{small[0]}` is known: set text.lowercase=true and train again"
    return [told] if unknown else []


def _is_known_small(run: Any, word: str) -> bool:
    return word != word.lower() and not run.unknown_words(word.lower())


def readable(
    run: Any, chunks: Chunks, size: int, note: Note, *, cut: bool = False
) -> Iterator[list[str]]:
    """Lists of lines that a run can read, as they arrive; the first that it cannot is an error.

    After the last line the words are told that the model has never seen. Where lines are ``cut``,
    none is too long.
    """
    n_before, unknown, changed = 0, dict[str, None](), ReadOtherwise()
    for chunk in chunks(size):
        lines = chunk if cut else list(takewhile(lambda one: run.unreadable(one) is None, chunk))
        yield lines
        for line in lines:
            changed.add(run, line)
            if len(unknown) < MOST_UNKNOWN:
                unknown |= dict.fromkeys(run.unknown_words(run.read_as(line)))
        if len(lines) < len(chunk):
            with chunks.telling(n_before + len(lines) + 1):
                raise DataError(run.unreadable(chunk[len(lines)]))
        n_before += len(chunk)
    for told in (*changed.lines(), *unknown_note(unknown, run)):
        note(told)
    if len(unknown) >= MOST_UNKNOWN:
        note("further unknown words were not counted")


class ReadOtherwise:
    """How many texts were read otherwise than they were typed, and the first of them."""

    def __init__(self) -> None:
        self.n, self.first = 0, ""

    def add(self, run: Any, text: str) -> None:
        """One more text."""
        read = run.read_as(text)
        if read != text:
            self.first = self.first or read
            self.n += 1

    def lines(self) -> list[str]:
        """What a user should know; nothing, if all were read as they stand."""
        how = "in small letters and without punctuation, as the model knows texts"
        which = "read" if self.n == 1 else f"{self.n:,} texts read"
        first = "" if self.n == 1 else "the first "
        return [f"{which} {how}; {first}as: {self.first}"] if self.n else []


def read_note(run: Any, *texts: str) -> list[str]:
    """A line on the texts that were read otherwise than they were typed, if there are any."""
    found = ReadOtherwise()
    for text in texts:
        found.add(run, text)
    return found.lines()


def read_otherwise(run: Any, *texts: str | None) -> list[dict[str, str]]:
    """The texts that are read otherwise than they were ``typed``, and how they are ``read``."""
    pairs = [(text, run.read_as(text)) for text in texts if text]
    return [{"typed": text, "read": read} for text, read in pairs if read != text]


def unknown_words(run: Any, *texts: str | None) -> list[str]:
    """The words of texts that a run reads as unknown; a mask is none."""
    parts = [part for text in texts if text for part in text.split(MASK)]
    return [word for part in parts for word in run.unknown_words(part)]


def told_beside(run: Any, *texts: str | None) -> dict[str, Any]:
    """What a server tells beside an answer: words that are unknown, and texts read otherwise."""
    return {"unknown": unknown_words(run, *texts), "changed": read_otherwise(run, *texts)}


def check_length(
    run: Any, at_most: int, text: str, other: str | None = None, *, able: str = "go in"
) -> None:
    """Refuse a text, or a pair, of more tokens than ``at_most`` or than an encoder can read."""
    ends = 3 if other else 2  # begin and end, and one more end between two texts
    most = min(at_most, run.model.config.max_len - ends)
    n_tokens = sum(len(run.tokenizer.encode(one)) for one in (text, other) if one)
    if n_tokens > most:
        named = "pair" if other else "text"
        raise DataError(f"the {named} has {n_tokens} tokens, at most {most} {able}; shorten it")


def check_side(run: Any, at_most: int, tokenizer: Any, text: str, *, able: str = "go in") -> None:
    """Refuse a source or a target of more tokens than ``at_most`` or than a translator knows."""
    longest = run.model.config.longest
    most = at_most if longest is None else min(at_most, longest - 1)  # the end takes a place
    n_tokens = len(tokenizer.encode(text))
    if n_tokens > most:
        raise DataError(f"the text has {n_tokens} tokens, at most {most} {able}; shorten it")


def check_source(run: Any, at_most: int, text: str) -> None:
    """The same of a source, which also needs a word that the translator knows."""
    for member in run.members:
        check_side(member, at_most, member.tokenizers.source, text)
    if (why := run.unreadable(text)) is not None:
        raise DataError(why)


def cut_note(run: Any) -> str:
    """What is told of lines that are longer than an encoder reads."""
    return f"cut to {run.model.config.max_len} tokens"


class BuiltinVerb(Verb):
    """A verb whose fields are in ``tasks/requests.py``: those of ``Fill`` are ``FillRequest``."""

    read: ClassVar[tuple[str, ...]] = ()
    """Fields of a request whose unknown words the server tells beside an answer."""

    @override
    def beside(self, run: Any, request: Any) -> Answer:
        texts = [getattr(request, name) for name in self.read]
        return told_beside(run, *texts) if texts else {}

    @property
    @override
    def request(self) -> type[BaseModel]:
        return self._fields("Request")

    @property
    @override
    def options(self) -> type[BaseModel] | None:
        return self._fields("Options")

    def _fields(self, kind: str) -> Any:
        from regard.tasks import requests

        return getattr(requests, f"{self.name.capitalize()}{kind}", None)
