"""Conversations: the template that a model brings along, and reading what it writes.

A template is somebody else's program, so it runs in a sandbox, in a process of its own. It spells
special tokens out: it writes ``<|im_end|>`` and means one id. A user who writes the same means ten
signs, and must not be able to end their own turn and begin another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import tokenizers

from regard.core.errors import CheckpointError, DataError
from regard.text.template_process import RENDERER, Answer
from regard.text.tokenizer import Tokenizer

TEMPLATE = "chat_template.jinja"
"""The file of a run folder that holds it."""
MOST_TEMPLATE = 2**20
"""Bytes of that file."""
APART = "\ufdd0"
"""Parts what stands on its two sides, and is not text: Unicode will never make it a character."""
_LOST = "\ufffd"
Message = Mapping[str, str]
"""``role`` and ``content``."""


class ChatTemplate:
    """Messages → the text that a model goes on from."""

    def __init__(self, source: str, special: Mapping[str, str], *, where: str) -> None:
        """``special`` are the tokens that a template may ask for, such as ``bos_token``."""
        self._source, self._special, self._where = source, dict(special), where
        answer = RENDERER.ask(source, None)
        if "broken" in answer:
            raise CheckpointError(f"{where} is not a template: {answer['broken']}")
        self._text(answer)

    def render(self, messages: Sequence[Message], *, answer: bool = True) -> str:
        """The whole conversation; with ``answer`` it ends where the model's turn begins."""
        given = {
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": answer,
            "tools": None,
            "documents": None,
            **self._special,
        }
        return self._text(RENDERER.ask(self._source, given))

    def _text(self, answer: Answer) -> str:
        """What was rendered; what went wrong is raised."""
        if "refused" in answer:
            raise DataError(f"the model's template refuses this conversation: {answer['refused']}")
        if "text" not in answer:
            raise CheckpointError(f"{self._where} does not work: {answer['failed']}")
        return str(answer["text"])


class ChatReader:
    """Strings → ids where special tokens may be spelled. (``Tokenizer.encode`` knows only text.)"""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        added = self._inner.get_added_tokens_decoder()
        self.special = {one.content: number for number, one in added.items() if one.special}
        """Token → id."""

    def read(self, text: str) -> list[int]:
        """Ids of a text; what ``APART`` divides is read part by part."""
        safe = text.encode("utf-8", "replace").decode("utf-8")  # JSON can hold half characters
        found = self._inner.encode_batch(safe.split(APART), add_special_tokens=False)
        return [number for part in found for number in part.ids]

    def guarded(self, words: str) -> str:
        """Words of a user, divided so that ``read`` finds no special token in or across them."""
        words = words.replace(APART, _LOST)
        for token in self.special:
            words = words.replace(token, token[0] + APART + token[1:])
        words = self._closed(words)
        numbers = {*self.special.values()}
        found = next((number for number in self.read(words) if number in numbers), None)
        if found is not None:  # one sign, or spelled in signs that are read as others
            raise DataError(
                f"these words hold the special token {self._inner.id_to_token(found)!r}, which "
                "only the model's own template may write; leave it out"
            )
        return words

    def first_special(self, text: str) -> int | None:
        """The special token that a text begins with, white space aside."""
        longest = sorted(self.special, key=len, reverse=True)
        found = re.match(r"\s*(" + "|".join(map(re.escape, longest)) + ")", text)
        return None if found is None or not longest else self.special[found[1]]

    def _closed(self, words: str) -> str:
        """With a border where a template could complete a token. Templates strip white space."""
        core = words.strip()
        begin = words.index(core) if core else 0
        before, after = words[:begin], words[begin + len(core) :]
        cuts = [(token, n) for token in self.special for n in range(1, len(token))]
        inside = any(core in token for token in self.special)
        if core and (inside or any(core.startswith(token[n:]) for token, n in cuts)):
            core = APART + core  # a token may end here, or lie all around
        if core and any(core.endswith(token[:n]) for token, n in cuts):
            core += APART  # a token may begin here
        return before + core + after
