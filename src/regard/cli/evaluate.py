"""``regard evaluate``: scores with their signatures. ``regard score``: log-probabilities."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.run_paths import RunPath, RunPaths, check_folder
from regard.cli.terminal import (
    Beam,
    Device,
    Json,
    TrustData,
    note,
    run_folders,
    table_console,
)
from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted

if TYPE_CHECKING:
    from regard.evaluation.systems import Bootstrap
    from regard.visual.tables import Table


def evaluate(
    path: RunPath,
    words: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]... [FILE]",
            help="More runs, which form an ensemble with the first. Then perhaps a file of your "
            "own, laid out as the training files were: texts with labels, pairs, questions or "
            "plain text, as TSV, CSV or JSONL.",
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="A split of the run's own data; by default test.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Source sentences, one per line.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Their translations, one per line.")
    ] = None,
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
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Another run that writes texts, scored on the same ones: how far the first is "
            "ahead of it, by paired bootstrap.",
        ),
    ] = None,
    beam: Beam = None,
    stride: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Of language models: windows begin this many tokens apart, so that each token has "
            "more before it; by default they do not overlap.",
        ),
    ] = None,
    device: Device = None,
    trust_data: TrustData = False,
    as_json: Json = False,
) -> None:
    """Score a run on a split of its data or of a recipe's, or on a file of your own.

    Several runs are scored as an ensemble, on the data of the first.

    With --alignments and --gold, score where its attention looks: the head with the lowest
    alignment error rate on the first 100 sentences is scored on the others.
    """
    from regard.runs.evaluating import ahead_of, check_asked, with_data, with_data_of
    from regard.runs.evaluating import evaluate as scored
    from regard.tasks.opening import load

    others, file = _runs_and_file(words or [])
    asked: dict[str, Any] = {"file": file, "split": split, "source": source, "reference": reference}
    asked |= {"alignments": alignments, "gold": gold, "beam": beam, "stride": stride}
    check_asked(**asked, data=data, against=against)
    run = with_data(load([path, *others], device=device, trust_data=trust_data), data, overrides)
    other = None if against is None else with_data_of(run, load(against, device=device), against)
    found = scored(run, own=data is None, **asked)
    for line in found.notes:
        note(line)
    ahead = {} if other is None else ahead_of(found, scored(other, own=False, **asked))
    if as_json:
        told = {"against": {name: asdict(one) for name, one in ahead.items()}} if ahead else {}
        print(json.dumps({**found.scores, **told}, ensure_ascii=False))
        return
    if alignments is not None:
        _show_alignment(found.scores)
    else:
        _show(found.scores)
    for name, one in ahead.items():
        _show_ahead(name, one, against)


def _show_alignment(scores: Mapping[str, Any]) -> None:
    aer, shuffled, chosen = (
        f"{100 * scores[name]:.1f} %" for name in ("aer", "aer_shuffled", "chosen_on_aer")
    )
    print(
        f"alignment error rate {aer} on {scores['n']} sentences (shuffled {shuffled})\n"
        f"by {scores['aer_by']}: chosen on the first {scores['chosen_on']} sentences, where its "
        f"rate is {chosen}"
    )


def _show_ahead(name: str, one: Bootstrap, against: Path | None) -> None:
    from regard.evaluation.metrics import score_text, score_title

    a, b, *apart = (score_text(name, value) for value in (one.a, one.b, *one.interval))
    low, high = apart
    sign = "+" if one.difference >= 0 else ""
    print(
        f"{score_title(name)} {a}, {against} {b}: {sign}{score_text(name, one.difference)} "
        f"[{low}, {high}], p = {one.p_value:.3f} (paired bootstrap)"
    )


def _runs_and_file(words: list[Path]) -> tuple[list[Path], Path | None]:
    """More runs, and the file that may stand after them."""
    from regard.data.file_patterns import is_pattern

    runs = run_folders(words)
    files = words[len(runs) :]
    if len(files) > 1:
        raise ConfigError(
            f"{files[0]} is not a run folder, so {files[1]} is one too many: name runs, then one "
            "file"
        )
    if files and not (files[0].suffix or files[0].exists() or is_pattern(str(files[0]))):
        check_folder(files[0], or_file=True)
    return runs, files[0] if files else None


def _show(scores: dict[str, Any]) -> None:
    """A table, and how the scores in it were computed."""
    signed = "bleu_signature" in scores or "rouge_l_signature" in scores
    show_scores({scores["split"]: scores}, signatures=signed)
    if "bleu_lc" in scores:
        print(f"lower-cased BLEU {scores['bleu_lc']:.2f} ({scores['bleu_lc_signature']})")
    if "bleu_multi" in scores:
        print(
            f"BLEU {scores['bleu_multi']:.2f} with all references of each of "
            f"{scores['n_sources']:,} sources ({scores['bleu_multi_signature']})"
        )
    if "rouge_l_multi" in scores:
        best = ", ".join(
            f"{scores[f'{name}_multi']:.2f}" for name in ("rouge1", "rouge2", "rouge_l")
        )
        print(f"ROUGE-1, 2, L {best} with the best reference ({scores['rouge_l_multi_signature']})")
    for name, part in scores.get("parts", {}).items():
        if "bleu_signature" in part:
            print(f"{name}: {part['bleu_signature']}\n{name}: {part['chrf_signature']}")


# ------------------------------------------------------------------ score

CHUNK = 4096


def score(
    paths: RunPaths,
    source: Annotated[Path, typer.Option(help="Source sentences, one per line.")],
    target: Annotated[Path, typer.Option(help="Their translations, one per line.")],
    device: Device = None,
) -> None:
    """Print the log-probability of each target line given its source line.

    Natural logarithm, the end token included, no length penalty.
    """
    from regard.data.lines import read_parallel
    from regard.tasks.opening import load
    from regard.tasks.verbs import unknown_note
    from regard.tasks.writing_verbs import TRANSLATE

    run = load(paths, device=device, verb=TRANSLATE)
    rows = list(read_parallel(source, target))
    if not rows:
        raise DataError(f"{source} and {target} are empty; expected one sentence a line")
    for told in unknown_note((word for line, _ in rows for word in run.unknown_words(line)), run):
        note(told)
    short = list(takewhile(lambda row: run.fits(*row), rows))
    for begin in range(0, len(short), CHUNK):
        sources, targets = zip(*short[begin : begin + CHUNK], strict=True)
        for value in run.score(sources, targets):
            print(f"{value:.6f}")
    if len(short) < len(rows):
        (read, written), number = rows[len(short)], len(short) + 1
        if run.fits(read):
            raise DataError(f"{target}:{number}: {run.too_long(written, run.tokenizers.target)}")
        raise DataError(f"{source}:{number}: {run.too_long(read)}")


# ------------------------------------------------------------------ tables of scores

# Of the many scores of tasks that write, those that a table shows, by the one that tells the task.
TRANSLATION = ("n", "exact_match", "bleu", "chrf", "perplexity")
SUMMARIES = ("n", "rouge1", "rouge2", "rouge_l", "facts", "two_hop_facts", "log_perplexity")
CAPTIONS = ("n", "true_captions", "bleu", "cider", "rouge_l_coco", "meteor_stem", "perplexity")
SHOWN = {"chrf": TRANSLATION, "rouge_l": SUMMARIES, "cider": CAPTIONS}


def show_scores(scores: Mapping[str, Mapping[str, Any]], *, signatures: bool = False) -> None:
    """A row a test set; below it, what attention found there and the scores of its parts."""
    from regard.visual.svg import printable
    from regard.visual.tables import show_table

    console = table_console()
    names = _numbers_in(scores)
    chosen = next((some for key, some in SHOWN.items() if key in names), names)
    show_table(_table(scores, [name for name in chosen if name in names]), console, ruled=True)
    parts: dict[str, Mapping[str, Any]] = {}
    for name, one in scores.items():
        parts |= {f"{name}: {part}": told for part, told in one.get("parts", {}).items()}
    if parts:
        show_table(_table(parts, _numbers_in(parts)), console, ruled=True)
    for name, one in scores.items():
        for line in attention_lines(one):
            console.print(printable(f"{name}: {line}"))
    if signatures:
        one = next(iter(scores.values()))
        known = ("bleu_signature", "chrf_signature", "rouge_l_signature")  # captions have no chrF
        console.print(*(one[name] for name in known if name in one), sep="\n")


def _numbers_in(scores: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    return dict.fromkeys(
        name
        for one in scores.values()
        for name, value in one.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )


def _table(scores: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> Table:
    """A row a test set and, where it has tags, a row each of them; a column a score."""
    from regard.evaluation.metrics import parts_of, score_text, score_title
    from regard.visual.tables import Table

    titles = {"n": "sentences"} if "chrf" in names else {}
    header = ["test set", *(titles.get(name) or score_title(name) for name in names)]
    rows = []
    for test_set, one in scores.items():
        rows.append([test_set, *(score_text(name, one.get(name)) for name in names)])
        for tag, part in parts_of(one).items():
            told = (score_text(name, part[name]) if name in part else "" for name in names)
            rows.append([f"  {tag}", *told])
    return Table("", header, rows)


def attention_lines(scores: Mapping[str, Any]) -> list[str]:
    """What was too long, and what attention finds: the head chosen, chance beside it."""
    lines = []
    if "too_long" in scores:
        lines.append(
            f"too long for the model and left empty: {counted(scores['too_long'], 'text')}"
        )
    found = {
        "aer": "alignment error rate",
        "antecedent_accuracy": "antecedent found",
        "fact_attention": "attention on the sentences of a fact",
    }
    for name in [one for one in found if one in scores]:
        ends = {"": "", "_shuffled": "shuffled ", "_rule": "blind rule "}
        share, *beside = (
            f"{called}{100 * scores[name + end]:.1f} %"
            for end, called in ends.items()
            if name + end in scores
        )
        lines.append(f"{found[name]} {share} ({scores[f'{name}_by']}; {', '.join(beside)})")
    looking = scores.get("looking", scores)
    if "pointing_accuracy" in looking:
        from regard.evaluation.saliency import looking_rows

        for name, *told in looking_rows(looking):
            lines.append(f"{name} {{:.3f}} (shuffled {{:.3f}}, centre {{:.3f}})".format(*told))
    return lines
