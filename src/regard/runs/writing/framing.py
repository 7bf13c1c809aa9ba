"""How the texts of a language model and its ids go together: what stands before, between, after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import tokenizers

from regard.data.examples import Ids
from regard.data.language_windows import laid
from regard.data.plain_texts import lines_go_on
from regard.data.settings import DataSettings
from regard.text.pretrained import PretrainedTokenizer
from regard.text.tokenizer import Tokenizer

BREAK = "\n"


@dataclass(frozen=True, slots=True)
class Framing:
    """A tokenizer, and the ids around texts."""

    tokenizer: Tokenizer
    opening: tuple[int, ...]
    """Before the first text: the end of another, or what a foreign tokenizer puts there."""
    closed: bool
    """Whether a text that is scored ends with the end token."""
    lines: bool
    """Whether the end token is a line break, after which the text goes on."""

    @property
    def end(self) -> int:
        """The end token."""
        return self.tokenizer.marks.end

    @property
    def end_ids(self) -> frozenset[int]:
        """What ends a text that is written."""
        marks = self.tokenizer.marks
        return frozenset() if self.lines else frozenset({marks.end, *marks.other_ends})

    @property
    def hidden_ids(self) -> tuple[int, ...]:
        """What is never written: all that is no text, unless it is the end as well."""
        marks = self.tokenizer.marks
        silent = {marks.pad, marks.begin, marks.unknown} - {None, marks.end, *marks.other_ends}
        return tuple(sorted(number for number in silent if number is not None))

    def laid(self, texts: Sequence[str]) -> Ids:
        """Texts of a corpus end to end, as they are learned."""
        return laid(texts, self.tokenizer, opening=self.opening)

    def scored(self, texts: Sequence[str]) -> Ids:
        """Texts end to end, as they are scored."""
        return laid(self._lines(texts), self.tokenizer, opening=self.opening, closed=self.closed)

    def read(self, prompt: str) -> list[int]:
        """A text to go on from; at least one id."""
        ids = laid(self._lines([prompt]), self.tokenizer, opening=self.opening, closed=False)
        return ids.tolist() or [self.end]

    def inside(self, text: str) -> list[int]:
        """What follows a prompt: nothing is added."""
        return laid(self._lines([text]), self.tokenizer, opening=(), closed=False).tolist()

    def say(self, ids: Iterable[int]) -> str:
        """Ids to text; where lines go on, an end is a line break."""
        if not self.lines:
            return self.tokenizer.decode(ids)
        parts: list[list[int]] = [[]]
        for number in ids:
            if number == self.end:
                parts.append([])
            else:
                parts[-1].append(number)
        return BREAK.join(map(self.tokenizer.decode, parts))

    def said_after(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """What ids say after a prompt, with the space that may belong between them."""
        before, whole = self.say(prompt), self.say([*prompt, *ids])
        return whole[len(before) :] if whole.startswith(before) else self.say(ids)

    def _lines(self, texts: Sequence[str]) -> list[str]:
        if not self.lines:
            return list(texts)
        return [line for text in texts for line in text.split(BREAK)]


def framing_for(tokenizer: Tokenizer, data: DataSettings) -> Framing:
    """As a run with such data has it. Foreign texts stand alone, and nothing closes them."""
    if isinstance(tokenizer, PretrainedTokenizer):
        return Framing(tokenizer, _put_before(tokenizer), closed=False, lines=False)
    return Framing(tokenizer, (tokenizer.marks.end,), closed=True, lines=lines_go_on(data))


def _put_before(tokenizer: PretrainedTokenizer) -> tuple[int, ...]:
    """Special ids that a foreign tokenizer itself puts before a text, as its template says."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    found = inner.encode("a", add_special_tokens=True)
    marked = zip(found.ids, found.special_tokens_mask, strict=True)
    return tuple(number for number, _ in takewhile(lambda pair: pair[1] == 1, marked))
