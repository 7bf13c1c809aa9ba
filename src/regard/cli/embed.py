"""``regard embed``: a line in, its vector out, or the sentences of a file nearest to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Device, Json, RunPath
from regard.cli.terminal import chunks, note, stdin_lines
from regard.core.counting import counted
from regard.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.runs.kinds.encoder_run import EncoderRun, Vectors

CHUNK = 1024
"""Lines that are sorted by length and read together."""


def embed(
    path: RunPath,
    nearest: Annotated[
        Path | None, typer.Option(help="Print the sentences of this file nearest to each line.")
    ] = None,
    n: Annotated[int | None, typer.Option(min=1, help="How many of them; 5 if not given.")] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Turn the lines of standard input into vectors of length 1, numbers divided by spaces.

    With --nearest: `cosine TAB sentence`, the nearest first, and an empty line after each line's.
    """
    run = _load(path, device)
    if n is not None and nearest is None:
        raise ConfigError("--n says how many sentences are printed, and needs --nearest FILE")
    texts = [] if nearest is None else _sentences(nearest)
    among = run.embed(texts) if texts else None
    n_cut = 0
    for lines in chunks(stdin_lines(), CHUNK):
        n_cut += run.n_cut(lines)
        vectors = run.embed(lines)
        for i, line in enumerate(lines):
            if among is None:
                print(_vector(line, vectors[i], as_json))
            else:
                print(_nearest(line, among @ vectors[i], texts, n or 5, as_json))
        sys.stdout.flush()
    if n_cut:
        note(f"{counted(n_cut, 'line')} cut to {run.model.config.max_len} tokens")


def _load(path: Path, device: str | None) -> EncoderRun:
    """Any run of an encoder."""
    from regard.runs.kinds.encoder_run import EncoderRun
    from regard.runs.loading import load
    from regard.runs.verbs import check_task

    run = load(path, device=device)
    if not isinstance(run, EncoderRun):
        check_task(path, run.task, "similarity", "an encoder")
    return run


def _sentences(path: Path) -> list[str]:
    from regard.data.lines import read_lines

    texts = [line.strip() for line in read_lines(path) if line.strip()]
    if not texts:
        raise DataError(f"{path}: empty; expected a sentence a line")
    return texts


def _vector(line: str, vector: Vectors, as_json: bool) -> str:
    if as_json:
        found = {"text": line, "embedding": [float(f"{x:.6g}") for x in vector.tolist()]}
        return json.dumps(found, ensure_ascii=False)
    return " ".join(f"{x:.6g}" for x in vector.tolist())


def _nearest(line: str, cosines: Vectors, texts: list[str], n: int, as_json: bool) -> str:
    from regard.runs.kinds.encoder_run import closest

    found = [(float(cosines[i]), texts[i]) for i in closest(cosines, n)]
    if as_json:
        near = [{"text": text, "score": score} for score, text in found]
        return json.dumps({"text": line, "nearest": near}, ensure_ascii=False)
    return "".join(f"{score:.4f}\t{text}\n" for score, text in found)
