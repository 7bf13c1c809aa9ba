"""Conversations: the template that a model brings along, and reading what it writes.

A template is somebody else's program, in the language of Jinja, so it runs in a sandbox, and can
change nothing and read no file. It spells special tokens out: it writes ``<|im_end|>`` and means
one id. A user who writes the same means ten signs, and must not be able to end their own turn and
begin another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import tokenizers
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regard.core.errors import CheckpointError, DataError
from regard.text.tokenizer import Tokenizer

TEMPLATE = "chat_template.jinja"
"""The file of a run folder that holds it."""
MOST_TEMPLATE = 2**20
"""Bytes of that file."""
APART = "\ufdd0"
"""Parts what stands on its two sides, and is no text: Unicode will never make it a character."""
_LOST = "\ufffd"
Message = Mapping[str, str]
"""``role`` and ``content``."""


class ChatTemplate:
    """Messages → the text that a model goes on from."""

    def __init__(self, source: str, special: Mapping[str, str], *, where: str) -> None:
        """``special`` are the tokens that a template may ask for, such as ``bos_token``."""
        self._special, self._where = dict(special), where
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateError as error:
            raise CheckpointError(f"{where} is no template: {_line(error)}") from error

    def render(self, messages: Sequence[Message], *, answer: bool = True) -> str:
        """The whole conversation; with ``answer`` it ends where the model's turn begins."""
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=answer,
                tools=None,
                documents=None,
                **self._special,
            )
        except _RefusedError as refused:
            raise DataError(f"the model's template refuses this conversation: {refused}") from None
        except Exception as error:  # it is a program: anything may go wrong in it
            raise CheckpointError(f"{self._where} does not work: {_line(error)}") from error


class _RefusedError(Exception):
    """A template says what is wrong with a conversation."""


class _Generation(Extension):
    """``{% generation %}`` marks what a model is trained to say; here it is just said."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """What stands inside."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    """With all that public templates expect."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = _to_json
    made.globals |= {
        "raise_exception": _refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
    }
    return made


def _to_json(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
    """Jinja's own writes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def _refuse(message: str) -> NoReturn:
    raise _RefusedError(message)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


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
