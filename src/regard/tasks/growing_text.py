"""The text of ids that come one after another, without reading all of them again each time.

To read ever longer beginnings of a text from its start would take the square of its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

TORN = "\ufffd"
"""What the bytes of half a character are read as."""
WINDOW = 16
"""Ids that are read again, at least, before the new ones: how two words are joined depends on both
of them, and a character may be several ids long."""


class GrowingText:
    """What ids say after a prompt, asked for ever longer beginnings of the same ids.

    ``say`` turns ids into text. The answer is what it says of prompt and ids together, without
    what it says of the prompt; where that does not begin the whole, what it says of the ids alone.
    """

    def __init__(self, say: Callable[[Sequence[int]], str], prompt: Sequence[int] = ()) -> None:
        self._say = say
        self._prompt = list(prompt)
        self._sure, self._ids = "", self._last_of_prompt()
        self._n_known = 0
        """``_sure`` is the text of so many ids; ``_ids`` are those of them, or of the prompt, after
        which the next are read."""

    def __call__(self, ids: Sequence[int]) -> str:
        """The text of ``ids``, which begin with all that were asked for before."""
        before = self._say(self._ids)
        window = [*self._ids, *ids[self._n_known :]]
        whole = self._say(window)
        if not whole.startswith(before):
            return self._from_the_start(ids)
        text = self._sure + whole[len(before) :]
        if len(ids) - self._n_known >= WINDOW and not whole.endswith(TORN):
            self._sure, self._ids = text, window[len(self._ids) :]
            self._n_known = len(ids)
        return text

    def _last_of_prompt(self) -> list[int]:
        """The last ids of the prompt, beginning where no character is torn; else all of it."""
        last, whole = self._prompt[-WINDOW:], self._say(self._prompt)
        said = self._say(last)
        clean = said and not said.startswith(TORN) and whole.endswith(said)
        return last if clean else self._prompt

    def _from_the_start(self, ids: Sequence[int]) -> str:
        before, whole = self._say(self._prompt), self._say([*self._prompt, *ids])
        return whole[len(before) :] if whole.startswith(before) else self._say(ids)
