"""``regard translate``: a line in, a line out."""

from __future__ import annotations

import json
import sys
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Beam, Device, Json, RunPath
from regard.cli.terminal import chunks, note, note_unknown, stdin_lines
from regard.core.errors import DataError

if TYPE_CHECKING:
    from regard.decoding.hypothesis import Hypothesis
    from regard.runs.kinds.translator import Run

CHUNK = 1024
"""Lines that are sorted by length and translated together."""
MOST_UNKNOWN = 10_000
"""So many unknown words are remembered: input may be endless, memory is not."""


def translate(
    path: RunPath,
    beam: Beam = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="Translations a line.")] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Source tokens at once.")] = 16384,
    device: Device = None,
    engine: Annotated[
        str,
        typer.Option(
            help="native; ctranslate2, with the same weights; or auto: ctranslate2 on a CPU where "
            "it is installed and can run the model."
        ),
    ] = "native",
    compute_type: Annotated[
        str | None,
        typer.Option(help="What ctranslate2 computes in: int8, …; float32 if not given."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Translate the lines of standard input, one by one, to standard output.

    Scores are log-probabilities divided by the length penalty; `regard score` gives plain ones.
    """
    from regard.interop.ctranslate2_engine import engine_for
    from regard.runs.kinds.translator import load_translator

    run = load_translator(path, device=device)  # a bad run fails on empty input too
    write = engine_for(run, engine, compute_type=compute_type)
    unknown: dict[str, None] = {}
    n_before, doubts = 0, run.doubts([], [])
    for chunk in chunks(stdin_lines(), CHUNK):
        lines = list(takewhile(run.fits, chunk))
        found = run.hypotheses(
            lines, beam=beam, n_best=n_best or 1, batch_tokens=batch_tokens, engine=write
        )
        doubts += run.doubts(lines, [one[0] for one in found])
        for line, hypotheses in zip(lines, found, strict=True):
            if len(unknown) < MOST_UNKNOWN:
                unknown |= dict.fromkeys(run.unknown_words(line))
            for text in _shown(run, line, hypotheses, n_best, as_json):
                print(text)
        sys.stdout.flush()
        if len(lines) < len(chunk):
            raise DataError(_too_long(run, chunk[len(lines)], n_before + len(lines) + 1))
        n_before += len(chunk)
    note_unknown(unknown)
    if len(unknown) >= MOST_UNKNOWN:
        note("further unknown words were not counted")
    for told in doubts.lines():
        note(told)


def _too_long(run: Run, line: str, number: int) -> str:
    n_tokens = len(run.tokenizers.source.encode(line)) + 1
    return (
        f"standard input, line {number}: {n_tokens} tokens with the end token, but the model's "
        f"learned positions know {run.model.config.longest}; shorten the line, or train with a "
        "larger model.max_len or sinusoidal positions"
    )


def _shown(
    run: Run, line: str, hypotheses: list[Hypothesis], n_best: int | None, as_json: bool
) -> list[str]:
    described = [_described(run, line, one) for one in hypotheses]
    if as_json:
        result = {"source": line, **described[0]}
        if n_best:
            result["hypotheses"] = described
        return [json.dumps(result, ensure_ascii=False)]
    if n_best:
        return [f"{one['translation']}\t{one['score']:.4f}" for one in described]
    return [described[0]["translation"]]


def _described(run: Run, line: str, hypothesis: Hypothesis) -> dict[str, Any]:
    tokenizer = run.tokenizers.target
    return {
        "translation": run.text(line, hypothesis).replace("\n", " "),  # one line out
        "score": hypothesis.score,
        "tokens": tokenizer.tokens(hypothesis.ids),
    }
