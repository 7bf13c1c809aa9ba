"""Examples with lengths like those of real text."""

import numpy as np

from regard.data.examples import Column, IdTable


def realistic(n, *, mean=24, longest=127, noise=0.15, seed=0):
    """A table of n examples: log-normal lengths, source and target alike but for noise."""
    rng = np.random.default_rng(seed)
    common = rng.lognormal(np.log(mean), 0.5, n)

    def column():
        lengths = np.round(common * rng.lognormal(0, noise, n)).clip(1, longest).astype(np.int64)
        ids = rng.integers(4, 8000, lengths.sum() + 1, dtype=np.int32)
        return Column.of(ids, lengths)

    return IdTable(column(), column())
