"""Training on long documents: blocks and compressed memory beside full attention, in turn.

    python benchmarks/long_documents.py --lengths 2750 5500 11000

``transformer-d`` looks at all that came before, by the fastest kernel that torch has for it;
``dmca2018`` has the same widths and layers, whose windows are ``block`` and ``compressed`` in turn.
Tokens are those of documents and summaries, and each batch has as many whatever their length.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from regard.bench.contest import BenchRequest, Contender, Plan, Work, Workload, grow
from regard.bench.results import OURS
from regard.bench.updates import our_updates
from regard.data.examples import Example
from regard.data.pair_batches import padded_stream
from regard.models.presets import ModelSettings, build, resolve
from regard.text.specials import SPECIALS
from regard.training.flops import BACKWARD, flop_formula
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss

SYSTEMS = ("transformer-d", "dmca2018")
D_MODEL, N_LAYERS, N_HEADS = 512, 5, 8
VOCAB, SUMMARY = 32_000, 128


def main() -> None:
    """Print a table of tokens a second and of memory."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[2750, 5500, 11_000])
    parser.add_argument("--batch-tokens", type=int, default=44_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--device")
    asked = parser.parse_args()
    request = BenchRequest(
        device=asked.device, precision=asked.precision, rounds=asked.rounds, tell=print
    )
    plan = request.plan()
    points = (point(n, asked.batch_tokens, plan, asked.precision) for n in asked.lengths)
    for row in grow(points, plan):
        print(
            f"{row.what:14} {row.how:14} {row.value or 0:12,.0f} tokens/s "
            f"({row.low or 0:,.0f} to {row.high or 0:,.0f}), {(row.share or 0):6.1%} of the matrix "
            f"rate, {(row.memory_bytes or 0) / 2**30:5.1f} GiB {row.error or ''}"
        )


def point(
    n: int, batch_tokens: int, plan: Plan, precision: str
) -> tuple[Workload, list[Contender]]:
    """Both systems at documents of n tokens, their summaries included."""
    task = Workload(what=f"{n:,} tokens", unit="tokens/s", by="length", at=n)
    rows = [*documents(n, max(1, batch_tokens // n))]
    starts = {name: partial(start, name, n, rows, plan, precision) for name in SYSTEMS}
    return task, [Contender(OURS, name, precision, begin) for name, begin in starts.items()]


def documents(n: int, n_rows: int) -> Iterator[Example]:
    """Random tokens."""
    rng = np.random.default_rng(0)
    for _ in range(n_rows):
        ids = rng.integers(len(SPECIALS), VOCAB, n).tolist()
        yield Example(ids[SUMMARY:], ids[:SUMMARY])


def start(name: str, n: int, rows: Sequence[Example], plan: Plan, precision: str) -> Work:
    """A model that is ready to learn from the rows, as one batch."""
    widths = {"d_model": D_MODEL, "n_layers": N_LAYERS, "n_heads": N_HEADS, "d_ff": 4 * D_MODEL}
    wanted = ModelSettings.model_validate({"preset": name, "max_len": n + 2, **widths})
    config = resolve(wanted, n_source_vocab=VOCAB, n_target_vocab=VOCAB, shared_vocab=True)
    model, settings = build(config), TrainSettings(max_steps=1, precision=precision)
    flops = BACKWARD * flop_formula(model).forward(n - SUMMARY + 1, SUMMARY + 1) / n
    stream = padded_stream(rows, batch_tokens=2 * n * len(rows), seed=0)
    on_gpu = plan.device.type == "cuda"
    work = our_updates(
        model, TokenLoss(settings), [stream.next()], settings, plan.device, captured=on_gpu
    )
    n_tokens = n * len(rows)

    def run() -> float:
        work.run()
        return n_tokens

    return Work(run, work.n_parameters, flops)


if __name__ == "__main__":
    main()
