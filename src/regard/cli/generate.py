"""``regard generate``: a prompt in, a text out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import (
    Device,
    Json,
    RunPath,
    Seed,
    Side,
    Stops,
    Temperature,
    TopK,
    TopP,
)
from regard.cli.terminal import chunks, note_unknown, stdin_lines
from regard.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    import torch

    from regard.decoding.continuing import Manner
    from regard.runs.kinds.writer import Writer
    from regard.runs.writing.chat_prompts import Truncate

CHUNK = 64
"""Texts that are written together, or all of one prompt."""
MOST_UNKNOWN = 10_000
"""So many unknown words are remembered: input may be endless, memory is not."""


def generate(
    path: RunPath,
    max_new: Annotated[int, typer.Option(min=1, help="Most tokens to write.")] = 200,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Texts a prompt.")] = 1,
    stop: Stops = None,
    truncate: Annotated[
        Side | None, typer.Option(help="Cut off the beginning of a prompt that is too long.")
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Print while writing.")] = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Write on after each line of standard input; from nothing if nobody pipes anything in.

    Prints what follows the prompt, as it is, and a line break. With --json one object a text:
    prompt, text, tokens, finished.
    """
    from regard.runs.kinds.writer import load_writer
    from regard.runs.writing.pen import seeded

    if stream and (as_json or n > 1):
        raise ConfigError("--stream prints one text as it comes: leave out --json and --n")
    run = load_writer(path, device=device)  # a bad run fails on empty input too
    manner = run.manner(max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p)
    cut: Truncate = None if truncate is None else "left"
    desk = _Desk(run, manner, seeded(seed), tuple(stop or ()), cut)
    for prompts in _prompts(1 if stream else max(1, CHUNK // n)):
        if stream:
            desk.stream(prompts[0])
        else:
            desk.write(prompts, n, as_json)
    note_unknown(desk.unknown)


def _prompts(size: int) -> Iterator[list[str]]:
    if sys.stdin.isatty():
        return iter([[""]])
    return chunks(stdin_lines(), size)


class _Desk:
    """Writes on after prompts, one list after the other."""

    def __init__(
        self,
        run: Writer,
        manner: Manner,
        rng: torch.Generator,
        stop: tuple[str, ...],
        truncate: Truncate,
    ) -> None:
        self.run, self.manner, self.rng, self.stop = run, manner, rng, stop
        self.truncate: Truncate = truncate
        self.n_read = 0
        self.unknown: dict[str, None] = {}

    def stream(self, prompt: str) -> None:
        """One text, as it comes."""
        if not self._readable(prompt):
            raise DataError(self._too_long(prompt, 1))
        self._take([prompt])
        ids = self.run.prompt_ids(prompt, self.manner.max_new, self.truncate)
        for piece in self.run.pen.pieces(ids, self.manner, rng=self.rng, stop=self.stop):
            print(piece, end="", flush=True)
        print(flush=True)

    def write(self, prompts: list[str], n: int, as_json: bool) -> None:
        """All of them, or those before the first that is too long."""
        readable = list(takewhile(self._readable, prompts))
        written = self.run.written(
            readable, self.manner, rng=self.rng, n=n, stop=self.stop, truncate=self.truncate
        )
        for prompt, texts in zip(readable, written, strict=True):
            for one in texts:
                facts = {"prompt": prompt, "text": one.text, "tokens": one.tokens}
                told = {**facts, "finished": one.finished}
                print(json.dumps(told, ensure_ascii=False) if as_json else one.text)
        sys.stdout.flush()
        if len(readable) < len(prompts):
            raise DataError(self._too_long(prompts[len(readable)], len(readable) + 1))
        self._take(prompts)

    def _readable(self, prompt: str) -> bool:
        return self.truncate is not None or self.run.fits(prompt)

    def _too_long(self, prompt: str, number: int) -> str:
        return f"standard input, line {self.n_read + number}: {self.run.too_long(prompt)}"

    def _take(self, prompts: list[str]) -> None:
        self.n_read += len(prompts)
        for prompt in prompts:
            if len(self.unknown) < MOST_UNKNOWN:
                self.unknown |= dict.fromkeys(self.run.unknown_words(prompt))
