"""``regard chat``: a conversation with a language model that was made for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.terminal import stdin_lines
from regard.core.errors import DataError

if TYPE_CHECKING:
    from regard.tasks.chat import Conversation
    from regard.tasks.requests import ChatOptions

ASK = "> "


def chat(path: Path, options: ChatOptions, device: str | None, as_json: bool) -> None:
    """Talk with a model in the words of its own template; each line is a turn, Ctrl-D ends it.

    Answers are printed while they are written. With --json one object a turn: message, answer,
    finished.
    """
    from regard.tasks.writer import load_writer

    run = load_writer(path, device=device)  # a bad run fails on empty input too
    how = options.model_dump(exclude={"message", "system"})
    before = [] if options.system is None else [{"role": "system", "content": options.system}]
    talk = run.conversation(before, **how)
    if options.message is not None:
        _answer(talk, options.message, as_json)
        return
    typed = sys.stdin.isatty()
    for number, words in enumerate(_typed() if typed else stdin_lines(), start=1):
        if not words.strip():
            continue
        try:
            _answer(talk, words, as_json)
        except DataError as error:
            if not typed:
                raise DataError(f"standard input, line {number}: {error}") from None
            print(f"regard: {error}", file=sys.stderr)  # who sits there can say something else


def _typed() -> Iterator[str]:
    """Lines from the keyboard, until it is closed."""
    with suppress(ImportError):  # where there is one, `input` lets a line be edited
        import_module("readline")
    while True:
        try:
            yield input(ASK)
        except EOFError:
            print()
            return


def _answer(talk: Conversation, words: str, as_json: bool) -> None:
    if as_json:
        told = {"message": words, "answer": talk.say(words), "finished": talk.finished}
        print(json.dumps(told, ensure_ascii=False), flush=True)
        return
    for piece in talk.stream(words):
        print(piece, end="", flush=True)
    print(flush=True)
