"""The template that a model brings along for its conversations, in the language of Jinja.

It is somebody else's program, so it runs in a sandbox, and can change nothing and read no file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regard.core.errors import CheckpointError, DataError

TEMPLATE = "chat_template.jinja"
"""The file of a run folder that holds it."""
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
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, "jinja2.ext.loopcontrols"],
    )
    made.filters["tojson"] = _to_json
    made.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return made


def _to_json(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
    """Jinja's own writes HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def _refuse(message: str) -> NoReturn:
    raise _RefusedError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
