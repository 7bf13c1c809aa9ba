"""``regard translate``: a line in, a line out."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import chunks, stdin_lines
from regard.cli.options import Beam, Device, Json, RunPath

if TYPE_CHECKING:
    from regard.decoding.hypothesis import Hypothesis
    from regard.runs.run import Run

CHUNK = 1024
"""Lines that are sorted by length and translated together."""


def translate(
    path: RunPath,
    beam: Beam = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="Translations a line.")] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Source tokens at once.")] = 4096,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Translate the lines of standard input, one by one, to standard output."""
    from regard.runs.run import load

    run = load(path, device=device)  # a bad run fails on empty input too
    unknown: dict[str, None] = {}
    for lines in chunks(stdin_lines(), 1 if sys.stdin.isatty() else CHUNK):
        found = run.hypotheses(lines, beam=beam, n_best=n_best or 1, batch_tokens=batch_tokens)
        for line, hypotheses in zip(lines, found, strict=True):
            unknown |= dict.fromkeys(run.unknown_words(line))
            for text in _shown(run, line, hypotheses, n_best, as_json):
                print(text)
        sys.stdout.flush()
    if unknown:
        shown = ", ".join(list(unknown)[:10]) + (", …" if len(unknown) > 10 else "")
        print(f"regard: {len(unknown)} unknown words read as <unk>: {shown}", file=sys.stderr)


def _shown(
    run: Run, line: str, hypotheses: list[Hypothesis], n_best: int | None, as_json: bool
) -> list[str]:
    described = [_described(run, one) for one in hypotheses]
    if as_json:
        result = {"source": line, **described[0]}
        if n_best:
            result["hypotheses"] = described
        return [json.dumps(result, ensure_ascii=False)]
    if n_best:
        return [f"{one['translation']}\t{one['score']:.4f}" for one in described]
    return [described[0]["translation"]]


def _described(run: Run, hypothesis: Hypothesis) -> dict[str, Any]:
    tokenizer = run.tokenizers.target
    return {
        "translation": tokenizer.decode(hypothesis.ids).replace("\n", " "),  # one line out
        "score": hypothesis.score,
        "tokens": tokenizer.tokens(hypothesis.ids),
    }
