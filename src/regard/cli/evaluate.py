"""``regard evaluate``: scores with their signatures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.notes import note, note_unknown
from regard.cli.options import Beam, Device, Json, RunPath
from regard.core.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.settings import Files
    from regard.runs.kinds.translator import Run


ELSEWHERE = "name a file, or with --data RECIPE a recipe whose data to score on"
"""What to do where a run has no data."""


def evaluate(
    path: RunPath,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A file of your own, laid out as the run's training files were: texts with "
            "labels, pairs, questions or plain text, as TSV, CSV or JSONL."
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="A split of the run's own data; by default test.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Source sentences, one a line.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Their translations, one a line.")] = None,
    alignments: Annotated[
        Path | None, typer.Option(help="Sentence pairs in words: source words ||| target words.")
    ] = None,
    gold: Annotated[
        Path | None, typer.Option(help="Their word alignments: 1-1 sure, 2p3 possible.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="A recipe whose data to score on, rather than on the run's own."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="With --data: override a setting of it."),
    ] = None,
    beam: Beam = None,
    stride: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Of language models: windows begin so many tokens apart, so that each token has "
            "more before it; by default they do not overlap.",
        ),
    ] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Score a run on a split of its data or of a recipe's, or on a file of your own.

    With --alignments and --gold, score where its attention looks: the head with the lowest
    alignment error rate on the first 100 sentences is scored on the others.
    """
    from regard.runs.loading import load

    _check(split, source, reference, alignments, gold, beam)
    _check_file(file, split, source, alignments, data)
    run = _with_data(load(path, device=device), data, overrides or [])
    if run.task != "translation":
        _check_own_data(run.task, source, alignments, beam)
        if file is None:
            scores = _scores_of(run, split, stride, own=data is None)
        else:
            scores = _of_file(run, file, stride)
        _show_plain(scores, as_json)
        return
    _check_stride(run.task, stride)
    if alignments is not None and gold is not None:
        _show_alignment(_aligned(run, alignments, gold), as_json)
        return
    if source is not None and reference is not None:
        scores = _of_files(run, (str(source), str(reference)), source.name, beam)
    elif file is not None:
        scores = _of_files(run, str(file), file.name, beam)
    else:
        scores = _of_split(run, split or "test", beam, own=data is None)
    if as_json:
        print(json.dumps(scores, ensure_ascii=False))
        return
    from regard.cli.tables import show_scores

    show_scores({scores["split"]: scores}, signatures=True)
    print(f"lower-cased BLEU {scores['bleu_lc']:.2f} ({scores['bleu_lc_signature']})")
    if "bleu_multi" in scores:
        print(
            f"BLEU {scores['bleu_multi']:.2f} with all references of each of "
            f"{scores['n_sources']:,} sources ({scores['bleu_multi_signature']})"
        )


def _with_data(run: Any, data: str | None, overrides: Sequence[str]) -> Any:
    """The run as if it had been trained on the data of another recipe."""
    if data is None:
        if overrides:
            raise ConfigError("--set changes the recipe of --data, and none is given")
        return run
    from regard.recipes.recipe import load_recipe

    other = load_recipe(data, overrides)
    if other.task != run.task:
        raise ConfigError(f"{data} is a recipe for {other.task}, and this is a run for {run.task}")
    return replace(run, recipe=run.recipe.model_copy(update={"data": other.data}))


def _check_own_data(task: str, *of_translators: object) -> None:
    """Files and beams are for translators."""
    if any(x is not None for x in of_translators):
        raise ConfigError(
            f"a run of the task {task} is scored on splits of its own data or on one file: leave "
            "out --source, --alignments and --beam"
        )


def _check_stride(task: str, stride: int | None) -> None:
    if stride is not None:
        raise ConfigError(f"--stride is for language models, and this is a run of the task {task}")


def _scores_of(run: Any, split: str | None, stride: int | None, *, own: bool) -> dict[str, Any]:
    """On a split that is named; else on test or, where there is none, on valid."""
    from regard.runs.own_data import check_data

    choices = {}
    if run.task == "language":
        choices["stride"] = stride
    else:
        _check_stride(run.task, stride)
    data = run.recipe.data
    if own:
        check_data(run.folder, data, ELSEWHERE)
    rows = run.task != "language" or data.prompt is not None
    held_out = data.hold_out is not None and rows  # of plain text, valid alone
    if split is None and data.world is None and data.test is None and not held_out:
        note("there is no test set: scored on valid, by which the weights were chosen")
        split = "valid"
    scores: dict[str, Any] = run.evaluate(split or "test", **choices).scores
    return scores


def _of_file(run: Any, file: Path, stride: int | None) -> dict[str, Any]:
    """On a file, by a run that is no translator."""
    from regard.runs.own_files import OF_FILE, score_texts

    if run.task == "language":
        found = score_texts(run, file, stride)
    else:
        _check_stride(run.task, stride)
        found = OF_FILE[run.task](run, file)
    for line in found.notes:
        note(line)
    return found.scores


def _show_plain(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(scores, ensure_ascii=False))
        return
    from regard.cli.tables import show_scores

    show_scores({scores["split"]: scores})
    for name, part in scores.get("parts", {}).items():
        if "bleu_signature" in part:
            print(f"{name}: {part['bleu_signature']}\n{name}: {part['chrf_signature']}")


def _check_file(file: Path | None, *others: object) -> None:
    """A file says by itself what to score on."""
    if file is not None and any(x is not None for x in others):
        raise ConfigError(
            f"{file} says what to score on: leave out --split, --source, --alignments and --data"
        )


def _check(
    split: str | None,
    source: Path | None,
    reference: Path | None,
    alignments: Path | None,
    gold: Path | None,
    beam: int | None,
) -> None:
    """Refuse what does not go together."""
    if (source is None) != (reference is None):
        raise ConfigError("--source and --reference go together")
    if (alignments is None) != (gold is None):
        raise ConfigError("--alignments and --gold go together")
    if source is not None and split is not None:
        raise ConfigError("--split scores the run's own data and --source your files: give one")
    if alignments is not None and any(x is not None for x in (split, source, beam)):
        raise ConfigError(
            "--alignments scores attention, nothing is translated: leave out --split, --source and "
            "--beam"
        )


def _of_files(run: Run, files: Files, name: str, beam: int | None) -> dict[str, Any]:
    from regard.data.corpora import read_pairs
    from regard.runs.evaluate import evaluate_pairs

    corpus = read_pairs(files, run.recipe.data.columns if isinstance(files, str) else None)
    if corpus.n_empty:
        note(f"{corpus.n_empty} lines skipped, being empty on one side or both")
    note_unknown(word for pair in corpus.pairs for word in run.unknown_words(pair.source))
    return evaluate_pairs(run, corpus.pairs, split=name, beam=beam).scores


def _of_split(run: Run, split: str, beam: int | None, *, own: bool) -> dict[str, Any]:
    from regard.runs.data import load_data
    from regard.runs.evaluate import evaluate_split
    from regard.runs.own_data import check_data

    remedy = f"{ELSEWHERE}, or two files with --source and --reference"
    if own:
        check_data(run.folder, run.recipe.data, remedy)
    data = load_data(run.recipe.data)
    for line in data.notes:
        note(line)
    return evaluate_split(run, data, split, beam=beam).scores


def _aligned(run: Run, alignments: Path, gold: Path) -> dict[str, Any]:
    from regard.data.alignments import read_aligned
    from regard.runs.aligning import alignment_scores

    sentences = read_aligned(alignments, gold)
    return {"task": run.task, "split": alignments.name, **alignment_scores(run, sentences)}


def _show_alignment(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(scores, ensure_ascii=False))
        return
    if "too_long" in scores:
        note(f"{scores['too_long']} sentences are too long for the model and left out")
    print(
        f"alignment error rate {100 * scores['aer']:.1f} % on {scores['n']} sentences "
        f"(shuffled {100 * scores['aer_shuffled']:.1f} %)\n"
        f"by {scores['aer_by']}: chosen on the first {scores['chosen_on']} sentences, where its "
        f"rate is {100 * scores['chosen_on_aer']:.1f} %"
    )
