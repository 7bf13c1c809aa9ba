"""Texts as encoders and language models read them while their heads are watched."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.inspection.capture import POOL
from regard.inspection.heads import Ids
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.runs.heads.watching import Reading
from regard.runs.kinds.encoder_run import EncoderRun, Texts
from regard.runs.kinds.writer import Writer
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID, SpecialIds

WEIGHTS = 2**24
"""Of all heads together in one batch; measuring takes about 40 bytes for each."""

Numbered = tuple[int, Sequence[int]]
"""Which of the texts, and its ids."""


def encoder_readings(run: EncoderRun, texts: Texts) -> Iterator[Reading]:
    """Texts or pairs, longest first."""
    table, marks = run.table(texts), run.tokenizer.marks
    rows = [run.layout.row(table.source[i], table.target[i]) for i in range(len(table))]
    for some in _batches([ids for ids, _ in rows], run.model.config):
        n = len(some[0][1])
        ids = _padded([ids for _, ids in some], n, run.model.config.pad_id)
        segments = _padded([rows[i][1][:n] for i, _ in some], n, 0)
        yield Reading(run.model.inputs(ids, segments), _ids(some, marks))


def writer_readings(run: Writer, texts: Sequence[str]) -> Iterator[Reading]:
    """Texts with what stands before them; lines that go on are read on."""
    if run.framing.lines:
        whole, n = run.framing.laid(texts).tolist(), run.context
        read = [whole[i : i + n] for i in range(0, len(whole), n)]
    else:
        read = [run.framing.read(text)[: run.context] for text in texts]
    for some in _batches(read, run.model.config):
        ids = _padded([ids for _, ids in some], len(some[0][1]), run.model.config.pad_id)
        yield Reading((ids,), _ids(some, run.tokenizer.marks))


def _batches(
    texts: Sequence[Sequence[int]], config: EncoderConfig | DecoderConfig
) -> Iterator[list[Numbered]]:
    """Texts with their numbers, longest first; what is too long to be watched is cut."""
    n_heads = config.n_self_heads
    most = math.isqrt(WEIGHTS // n_heads) if n_heads else None
    left = sorted(((i, ids[:most]) for i, ids in enumerate(texts)), key=lambda one: -len(one[1]))
    while left:
        longest = len(left[0][1])
        n_rows = max(1, WEIGHTS // (n_heads * longest**2 or longest))
        yield left[:n_rows]
        left = left[n_rows:]


def _padded(rows: Sequence[Sequence[int]], n: int, fill: int) -> Tensor:
    return torch.tensor([[*row, *[fill] * (n - len(row))] for row in rows])


def _ids(some: Sequence[Numbered], marks: SpecialIds) -> Callable[[str], tuple[Ids, Ids]]:
    """Rows and columns are the same tokens, told by our ids of special tokens; others are words.

    Padding is told by where it stands: its id may mean something else too. What pools a text has
    one row.
    """
    ours = {marks.begin: BEGIN_ID, marks.end: END_ID}
    known = [[ours.get(number, UNKNOWN_ID) for number in ids] for _, ids in some]
    ids = _padded(known, len(known[0]), PAD_ID).numpy()
    one = np.full_like(ids[:, :1], UNKNOWN_ID)
    return lambda name: (one if name == POOL else ids, ids)
