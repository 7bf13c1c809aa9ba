"""Examples whose texts are cut into other pieces each epoch (BPE-dropout)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from regard.data.examples import Column, Table
from regard.data.pair_batches import BLOCKS
from regard.data.records import Pair
from regard.text.bpe_dropout import BpeDropoutProcess, CorpusSide, Segmented
from regard.text.specials import PAD_ID
from regard.text.tokenizer import Tokenizer


class BpeDropoutTexts:
    """Pairs, segmented by a process of their own, which works one epoch ahead.

    ``plain`` has the ids of the pairs when nothing is skipped. No text gets longer than
    ``max_len`` positions, nor longer than a block of attention that held all of ``plain``: where it
    would, it keeps its plain ids.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        plain: Table,
        tokenizers: tuple[Tokenizer, Tokenizer],
        *,
        share: float,
        seed: int,
        max_len: int,
    ) -> None:
        self.longest = min([max_len, *(block for block in BLOCKS if plain.longest <= block)])
        self.digest = blake2b(f"{plain.digest} {share}".encode(), digest_size=16).hexdigest()
        self._n = len(plain)
        self._known: dict[int, Table] = {}
        source, target = tokenizers
        sides = [
            CorpusSide(source, [pair.source for pair in pairs], self.longest - 1),
            CorpusSide(target, [pair.target for pair in pairs], self.longest - 1),
        ]
        self._process = BpeDropoutProcess(sides, share=share, seed=seed)

    def __len__(self) -> int:
        return self._n

    def of_epoch(self, epoch: int) -> Table:
        """The examples of an epoch; two are remembered."""
        if epoch not in self._known:
            source, target = map(self._column, self._process.segmented(epoch))
            self._known = {epoch: Table(source, target), **self._known}
            self._known = dict(list(self._known.items())[:2])
        return self._known[epoch]

    def _column(self, found: Segmented) -> Column:
        ids, lengths = found
        return Column.of(np.append(ids, np.int32(PAD_ID)), lengths).cut(self.longest - 1)
