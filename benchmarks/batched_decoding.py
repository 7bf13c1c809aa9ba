"""Translating a test set in batches against one sentence at a time, in turn, in one run.

python benchmarks/batched_decoding.py runs/demo
"""

from __future__ import annotations

import statistics
import sys
import time

import regard
from regard.data.splits import load_records


def main() -> None:
    """Time both ways three times over."""
    run = regard.load(sys.argv[1])
    sources = [pair.source for pair in load_records(run.recipe.data, "pair").splits["test"]]
    few = sources[:100]  # one at a time is slow; its rate does not depend on how many
    run.translate(few)
    ratios = []
    for _ in range(3):
        began = time.perf_counter()
        together = run.translate(sources)
        batched = len(sources) / (time.perf_counter() - began)
        began = time.perf_counter()
        alone = [run.translate(source) for source in few]
        single = len(few) / (time.perf_counter() - began)
        assert alone == together[: len(few)], "what shares a batch changed a translation"
        ratios.append(batched / single)
        print(f"batched {batched:,.0f} sentences/s, single {single:,.1f}: ×{ratios[-1]:.1f}")
    print(f"median ×{statistics.median(ratios):.1f}")


if __name__ == "__main__":
    main()
