"""``regard classify``: a line in, its label out."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from regard.cli.options import Device, Json, RunPath
from regard.cli.terminal import chunks, note, stdin_lines
from regard.core.counting import counted
from regard.core.errors import DataError

if TYPE_CHECKING:
    from regard.runs.kinds.classifier import Classifier
    from regard.runs.kinds.encoder_run import Texts

CHUNK = 1024
"""Lines that are sorted by length and read together."""


def classify(path: RunPath, device: Device = None, as_json: Json = False) -> None:
    """Label the lines of standard input: `label TAB probability`, one by one.

    Where a run was trained on pairs, a line is two texts with a tab between them. An imported run
    reads such a line as a pair, and any other as one text.
    """
    from regard.runs.kinds.classifier import load_classifier

    run = load_classifier(path, device=device)  # a bad run fails on empty input too
    n_before = n_cut = 0
    for lines in chunks(stdin_lines(), CHUNK):
        texts = _texts(run, lines, n_before)
        n_cut += run.n_cut(texts)
        for line, row in zip(lines, run.probabilities(texts).tolist(), strict=True):
            print(_shown(run, line, row, as_json))
        sys.stdout.flush()
        n_before += len(lines)
    if n_cut:
        note(f"{counted(n_cut, 'line')} cut to {run.model.config.max_len} tokens")


def _texts(run: Classifier, lines: list[str], n_before: int) -> Texts:
    if run.labels.pairs is None:  # a second text that is empty is none
        return [(first, second) for first, _, second in (line.partition("\t") for line in lines)]
    if not run.labels.pairs:
        return lines
    pairs = []
    for number, line in enumerate(lines, start=n_before + 1):
        first, tab, second = line.partition("\t")
        if not tab or not first.strip() or not second.strip() or "\t" in second:
            raise DataError(
                f"standard input, line {number}: this run was trained on pairs; expected two texts "
                "with one tab between them"
            )
        pairs.append((first, second))
    return pairs


def _shown(run: Classifier, line: str, row: list[float], as_json: bool) -> str:
    shares = dict(zip(run.labels.names, row, strict=True))
    best = max(shares, key=lambda label: shares[label])
    if not as_json:
        return f"{best}\t{shares[best]:.4f}"
    found = {"text": line, "label": best, "probability": shares[best], "probabilities": shares}
    return json.dumps(found, ensure_ascii=False)
