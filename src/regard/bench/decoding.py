"""``regard bench decode``: tokens a second, every sentence exactly as long as all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from regard.bench.contest import Contender, Plan, Task, compete
from regard.bench.growth import grow
from regard.bench.matmul import DTYPES
from regard.bench.peers.ctranslate2 import direct_decoding, engine_decoding
from regard.bench.peers.generate import hf_decoding
from regard.bench.peers.listed import chosen
from regard.bench.rows import OURS, Bench, Row
from regard.bench.run import Asked, measure
from regard.bench.shapes import shape
from regard.bench.writing import Writing, our_decoding
from regard.models.presets import build
from regard.models.transformer import TransformerConfig
from regard.runs.device import pick_device
from regard.training.flops import flop_formula

HF, CT2 = "transformers", "ctranslate2"
VOCAB, N_SOURCE, N_NEW = 32_000, 24, 25
"""Tokens of the vocabulary; of a source, its end token not counted; tokens that are written."""
BEAM = 4
USUAL: dict[str, Sequence[tuple[int, int]]] = {
    "cpu": ((1, 1), (BEAM, 1), (1, 32), (BEAM, 32)),
    "cuda": ((1, 1), (1, 64), (1, 512), (BEAM, 1), (BEAM, 64)),
}
"""(beam, batch) where nothing else is asked for."""
LONG_BATCHES, LONG_TEXTS = (1, 4, 16, 64, 256), (25, 50, 100, 200, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Who takes part, and with what."""

    asked: Asked
    who: set[str]
    config: TransformerConfig

    def contest(self, task: Task, writing: Writing) -> tuple[Task, list[Contender]]:
        """Ourselves and the package transformers, which gets both precisions wherever it is."""
        wanted = [name for name in self.asked.precisions if name in DTYPES]
        found = []
        if OURS in self.who:
            for name in wanted:
                start = partial(our_decoding, self.config, writing, name)
                found.append(Contender(OURS, "native", name, start))
        if HF in self.who:
            for name in DTYPES if self.asked.precision is None else wanted:
                start = partial(hf_decoding, self.config, writing, name)
                found.append(Contender(HF, "generate", name, start))
        return task, found

    def engines(self, writing: Writing, precision: str) -> list[Contender]:
        """CTranslate2 through us and without us."""
        ours = partial(engine_decoding, self.config, writing, precision)
        theirs = partial(direct_decoding, self.config, writing, precision)
        direct = Contender(CT2, "", precision, theirs)
        return [Contender(OURS, CT2, precision, ours), direct] if OURS in self.who else [direct]

    def precisions_of_engine(self) -> tuple[str, ...]:
        """Those that CTranslate2 is compared in: on a CPU it is at its best in int8."""
        if CT2 not in self.who:
            return ()
        if self.asked.precision is not None:
            return (self.asked.precision,)
        return ("bf16",) if pick_device(self.asked.device).type == "cuda" else ("int8", "fp32")


def decode_bench(
    asked: Asked,
    *,
    size: str | None = None,
    vocab: int | None = None,
    batches: Sequence[int] = (),
) -> Bench:
    """Greedy search and beams of four on random weights; the number written is checked."""
    device = pick_device(asked.device)
    field = Field(
        asked=asked,
        who=chosen(asked.only, {HF: HF, CT2: CT2}),
        config=shape(size or "base", vocab or VOCAB, max_len=512),
    )
    works = [(beam, n) for n in batches for beam in (1, BEAM)] or USUAL.get(
        device.type, USUAL["cpu"]
    )

    def work(plan: Plan) -> list[Row]:
        rows = []
        for beam, batch in works:
            writing = Writing(batch, N_SOURCE, N_NEW, beam, device)
            rows += compete(*field.contest(_task(field, writing), writing), plan)
            for precision in field.precisions_of_engine():
                engine = _task(field, writing, f"{CT2} {precision}")
                rows += compete(engine, field.engines(writing, precision), plan)
        if asked.long:
            rows += grow(_by_batch(field, plan), plan)
            rows += grow(_by_length(field, plan), plan)
        return rows

    facts = {"vocab": field.config.n_target_vocab, "source_tokens": N_SOURCE, "written": N_NEW}
    kept = {"d_model", "n_layers", "n_heads", "d_ff"}
    return measure(asked, work, {"shape": field.config.model_dump(include=kept), **facts})


def _task(field: Field, writing: Writing, engine: str = "") -> Task:
    what = f"{writing.search}, batch {writing.batch}"
    flops = _flops(field.config, writing)
    return Task(what=f"{what}, {engine}" if engine else what, unit="tokens/s", flops=flops)


def _flops(config: TransformerConfig, writing: Writing) -> float:
    """Useful FLOPs of a token that is handed out: all beams are computed, one is kept."""
    formula = flop_formula(build(config))
    source = writing.n_source + 1
    encoding = formula.forward(source, 0)
    writes = formula.forward(source, writing.n_new) - encoding
    return (encoding + writing.beam * writes) / writing.n_new


def _by_batch(field: Field, plan: Plan) -> Iterator[tuple[Task, list[Contender]]]:
    for batch in LONG_BATCHES:
        writing = Writing(batch, N_SOURCE, N_NEW, 1, plan.device)
        what = f"greedy by batch, {batch}"
        yield field.contest(Task(what=what, unit="tokens/s", by="batch", at=batch), writing)


def _by_length(field: Field, plan: Plan) -> Iterator[tuple[Task, list[Contender]]]:
    for n in LONG_TEXTS:
        writing = Writing(8, N_SOURCE, n, 1, plan.device)
        yield field.contest(
            Task(what=f"greedy by length, {n}", unit="tokens/s", by="length", at=n), writing
        )
