"""``regard evaluate``: scores with their signatures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.notes import note, note_unknown
from regard.cli.options import Beam, Device, Json, RunPath
from regard.core.errors import ConfigError


def evaluate(
    path: RunPath,
    split: Annotated[
        str | None, typer.Option(help="A split of the run's own data; by default test.")
    ] = None,
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
    if source is not None and split is not None:
        raise ConfigError("--split scores the run's own data and --source your files: give one")
    run = load(path, device=device)
    if source is not None and reference is not None:
        corpus = read_pairs((str(source), str(reference)))
        if corpus.n_empty:
            note(f"{corpus.n_empty} lines skipped, being empty on one side or both")
        note_unknown(word for pair in corpus.pairs for word in run.unknown_words(pair.source))
        evaluation = evaluate_pairs(run, corpus.pairs, split=source.name, beam=beam)
    else:
        data = load_data(run.recipe.data)
        for line in data.notes:
            note(line)
        evaluation = evaluate_split(run, data, split or "test", beam=beam)
    if as_json:
        print(json.dumps(evaluation.scores, ensure_ascii=False))
    else:
        show_scores({evaluation.scores["split"]: evaluation.scores}, signatures=True)
