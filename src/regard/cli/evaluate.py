"""``regard evaluate``: scores with their signatures. ``regard score``: log-probabilities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Beam, Device, Json, RunPath
from regard.cli.terminal import note, note_unknown
from regard.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from rich.table import Column, Table

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


# ------------------------------------------------------------------ score

CHUNK = 4096


def score(
    path: RunPath,
    source: Annotated[Path, typer.Option(help="Source sentences, one a line.")],
    target: Annotated[Path, typer.Option(help="Their translations, one a line.")],
    device: Device = None,
) -> None:
    """Print the log-probability of each target line given its source line.

    Natural logarithm, the end token included, no length penalty.
    """
    from regard.data.lines import read_parallel
    from regard.runs.kinds.translator import load_translator

    run = load_translator(path, device=device)
    rows = list(read_parallel(source, target))
    if not rows:
        raise DataError(f"{source} and {target} are empty; expected one sentence a line")
    note_unknown(word for line, _ in rows for word in run.unknown_words(line))
    short = list(takewhile(lambda row: run.fits(*row), rows))
    for begin in range(0, len(short), CHUNK):
        sources, targets = zip(*short[begin : begin + CHUNK], strict=True)
        for value in run.score(sources, targets):
            print(f"{value:.6f}")
    if len(short) < len(rows):
        raise DataError(_too_long(run, (source, target), rows[len(short)], len(short) + 1))


def _too_long(run: Run, files: tuple[Path, Path], row: tuple[str, str], number: int) -> str:
    """Which line of which file is too long, and what to do."""
    tokenizers = (run.tokenizers.source, run.tokenizers.target)
    encoded = zip(files, tokenizers, row, strict=True)
    lengths = [(len(tokenizer.encode(line)) + 1, path) for path, tokenizer, line in encoded]
    n_tokens, path = max(lengths, key=lambda one: one[0])
    return (
        f"{path}:{number}: {n_tokens} tokens with the end token, but the model's learned positions "
        f"know {run.model.config.longest}; shorten the line, or train with a larger model.max_len "
        "or sinusoidal positions"
    )


# ------------------------------------------------------------------ tables of scores


def show_scores(scores: Mapping[str, Mapping[str, Any]], *, signatures: bool = False) -> None:
    """A row a test set; below it, what attention found there and the scores of its parts."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False, soft_wrap=True)
    if not all("bleu" in one for one in scores.values()):
        console.print(_plain(scores))
        if parts := _parts(scores):
            console.print(_plain(parts))
        return
    table = Table("test set", *_columns("sentences", "exact match", "BLEU", "chrF", "perplexity"))
    for name, one in scores.items():
        table.add_row(
            name,
            f"{one['n']:,}",
            f"{100 * one['exact_match']:.1f} %",
            f"{one['bleu']:.2f}",
            f"{one['chrf']:.2f}",
            f"{one['perplexity']:.3f}" if "perplexity" in one else "–",
        )
        for tag, part in one.get("exact_match_by_tag", {}).items():
            table.add_row(f"  {tag}", f"{part['n']:,}", f"{100 * part['exact_match']:.1f} %")
    console.print(table)
    for name, one in scores.items():
        for line in attention_lines(one):
            console.print(f"{name}: {line}")
    if signatures:
        one = next(iter(scores.values()))
        console.print(one["bleu_signature"], one["chrf_signature"], sep="\n")


def _plain(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    """All numbers there are of any task: a row a test set, a column a score."""
    from rich.table import Column, Table

    names = dict.fromkeys(
        name
        for one in scores.values()
        for name, value in one.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )
    titles = [Column(name.replace("_", " "), justify="right") for name in names]
    table = Table(Column("test set", no_wrap=True), *titles)
    for test_set, one in scores.items():
        table.add_row(test_set, *(_number(name, one.get(name)) for name in names))
    return table


def _parts(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Scores of the tasks that test sets are made of, where they are."""
    return {
        f"{test_set}: {name}": part
        for test_set, one in scores.items()
        for name, part in one.get("parts", {}).items()
    }


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    from regard.evaluation.metrics import METRICS

    if name in METRICS and METRICS[name].unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def attention_lines(scores: Mapping[str, Any]) -> list[str]:
    """What was too long, and what attention finds: the head chosen, chance beside it."""
    lines = []
    if "too_long" in scores:
        lines.append(f"{scores['too_long']} sentences are too long for the model: not translated")
    if "aer" in scores:
        lines.append(
            f"alignment error rate {100 * scores['aer']:.1f} % "
            f"({scores['aer_by']}; shuffled {100 * scores['aer_shuffled']:.1f} %)"
        )
    if "antecedent_accuracy" in scores:
        lines.append(
            f"antecedent found {100 * scores['antecedent_accuracy']:.1f} % "
            f"({scores['antecedent_accuracy_by']}; "
            f"shuffled {100 * scores['antecedent_accuracy_shuffled']:.1f} %)"
        )
    return lines


def _columns(*names: str) -> list[Column]:
    from rich.table import Column

    return [Column(name, justify="right", no_wrap=True) for name in names]
