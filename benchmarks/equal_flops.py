"""How fast systems train on one GPU beside the Transformer, FLOP for FLOP.

    python benchmarks/equal_flops.py convs2s2017
    python benchmarks/equal_flops.py convs2s2017 bytenet2016 --size base --vocab 32000

The rows of ``regard bench train --systems`` for a few systems, without their profiles. Speeds of
different systems are not of the same work, so what is compared is the share that each makes of the
device's matrix rate: at equal FLOPs, one with half the Transformer's share takes twice as long.
"""

import argparse
from functools import partial
from math import nan

from regard.bench import training
from regard.bench.contest import BenchRequest, Contender, Work, Workload, compete
from regard.bench.results import OURS
from regard.models.presets import ModelSettings

TRANSFORMER = "transformer"


def main() -> None:
    """Print a line for each system."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("systems", nargs="+", choices=[*training.SYSTEMS], metavar="SYSTEM")
    parser.add_argument("--size", default="small")
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--batch-tokens", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    request = BenchRequest(rounds=asked.rounds, tell=partial(print, flush=True))
    plan, precision = request.plan(), request.precisions[0]
    text = training.sentences(asked.vocab, batch_tokens=asked.batch_tokens, n_batches=8)
    systems = {TRANSFORMER: ModelSettings(), **training.SYSTEMS}

    def start(name: str) -> Work:
        config = training.resolved(systems[name], asked.size, asked.vocab)
        return training.counted_training(config, text, device=plan.device, precision=precision)

    names = (TRANSFORMER, *asked.systems)
    contenders = [Contender(OURS, name, precision, partial(start, name)) for name in names]
    rows = compete(Workload(what="training", unit=training.UNIT), contenders, plan)
    for row in rows:
        if row.error is not None:
            print(f"{row.how}: {row.error}")
            continue
        share = row.share or nan
        beside = share / (rows[0].share or nan)
        print(
            f"{row.how}: {row.value:,.0f} target tokens/s ({row.low:,.0f} to {row.high:,.0f}), "
            f"{share:.1%} of the matrix rate, {beside:.2f} of the Transformer at equal FLOPs"
        )


if __name__ == "__main__":
    main()
