"""``regard evaluate``: scores with their signatures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Beam, Device, Json, RunPath
from regard.core.errors import ConfigError


def evaluate(
    path: RunPath,
    split: Annotated[str, typer.Option(help="A split of the run's own data.")] = "test",
    source: Annotated[Path | None, typer.Option(help="Source sentences, one a line.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Their translations, one a line.")] = None,
    beam: Beam = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Score a run on a split of its data, or on files of your own."""
    from regard.cli.tables import show_scores
    from regard.data.corpora import read_pairs
    from regard.runs.data import load_data
    from regard.runs.evaluate import evaluate_pairs, evaluate_split
    from regard.runs.run import load

    if (source is None) != (reference is None):
        raise ConfigError("--source and --reference go together")
    run = load(path, device=device)
    if source is not None and reference is not None:
        corpus = read_pairs((str(source), str(reference)))
        if corpus.n_empty:
            _note(f"{corpus.n_empty} lines skipped, being empty on one side or both")
        evaluation = evaluate_pairs(run, corpus.pairs, split=source.name, beam=beam)
    else:
        data = load_data(run.recipe.data)
        for note in data.notes:
            _note(note)
        evaluation = evaluate_split(run, data, split, beam=beam)
    if as_json:
        print(json.dumps(evaluation.scores, ensure_ascii=False))
    else:
        show_scores({evaluation.scores["split"]: evaluation.scores}, signatures=True)


def _note(text: str) -> None:
    print(f"regard: {text}", file=sys.stderr)
