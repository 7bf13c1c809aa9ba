"""``regard bench decode`` and ``generate``: tokens a second, every text as long as all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.bench.contest import Contender, Plan, Work, Workload, compete, grow
from regard.bench.decoding_peers import direct_decoding, engine_decoding, hf_decoding, hf_writing
from regard.bench.measures import DTYPES
from regard.bench.results import OURS, Bench, BenchRow
from regard.bench.run import BenchRequest, chosen, measure
from regard.bench.work import shape as translator_shape
from regard.bench.writing import DecodingWork, our_decoding, our_writing
from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.models.decoder import LanguageModel
from regard.models.presets import build
from regard.models.settings import DecoderConfig, TransformerConfig
from regard.tasks.opening import pick_device
from regard.tasks.writer import load_writer
from regard.training.flops import flop_formula

HF, CT2 = "transformers", "ctranslate2"
UNIT = "tokens/s"
VOCAB, N_SOURCE, N_NEW = 32_000, 24, 25
"""Tokens of the vocabulary; of a source, its end token not counted; tokens that are written."""
BEAM = 4
USUAL: dict[str, Sequence[tuple[int, int]]] = {
    "cpu": ((1, 1), (BEAM, 1), (1, 32), (BEAM, 32)),
    "cuda": ((1, 1), (1, 64), (1, 512), (BEAM, 1), (BEAM, 64)),
}
"""(beam, batch) where nothing else is asked for."""
LONG_BATCHES, LONG_TEXTS = (1, 4, 16, 64, 256), (25, 50, 100, 200, 400)
SMOLLM2 = "smollm2-135m"
SHAPES: dict[str, dict[str, Any]] = {
    SMOLLM2: {
        "n_vocab": 49_152,
        "d_model": 576,
        "n_layers": 30,
        "n_heads": 9,
        "n_kv_heads": 3,
        "d_ff": 1536,
        "norm": "rms",
        "activation": "swiglu",
        "positions": "rotary",
        "rotary_base": 100_000.0,
        "bias": False,
        "max_len": 8192,
    },
    "gpt2": {
        "n_vocab": 50_257,
        "d_model": 768,
        "n_layers": 12,
        "n_heads": 12,
        "d_ff": 3072,
        "activation": "gelu_tanh",
        "max_len": 1024,
    },
}
"""Public language models whose sizes can be had with random weights."""


def decode_bench(
    asked: BenchRequest,
    *,
    size: str | None = None,
    vocab: int | None = None,
    batches: Sequence[int] = (),
) -> Bench:
    """Greedy search and beams of four on random weights; the number written is checked."""
    device = pick_device(asked.device)
    who = chosen(asked.only, {HF: HF, CT2: CT2})
    config = translator_shape(size or "base", vocab or VOCAB, max_len=512)
    usual = USUAL.get(device.type, USUAL["cpu"])
    works = [(beam, n) for n in batches for beam in (1, BEAM)] or usual
    engines = _precisions_of_engine(asked, device) if CT2 in who else ()

    def contenders(writing: DecodingWork) -> list[Contender]:
        ours = partial(our_decoding, config, writing)
        return _native(asked, who, ours, partial(hf_decoding, config, writing))

    def work(plan: Plan) -> list[BenchRow]:
        rows = []
        for beam, batch in works:
            writing = DecodingWork(batch, N_SOURCE, N_NEW, beam, device)
            what, flops = f"{writing.search}, batch {batch}", _flops(config, writing)
            rows += compete(Workload(what=what, unit=UNIT, flops=flops), contenders(writing), plan)
            for name in engines:
                task = Workload(what=f"{what}, {CT2} {name}", unit=UNIT, flops=flops)
                rows += compete(task, _engines(config, writing, name, who), plan)
        if asked.long:
            for by in ("batch", "length"):
                rows += grow(((task, contenders(w)) for task, w in _growing(by, device)), plan)
        return rows

    kept = {"d_model", "n_layers", "n_heads", "d_ff"}
    facts = {
        "shape": config.model_dump(include=kept),
        "vocab": config.n_target_vocab,
        "source_tokens": N_SOURCE,
        "written": N_NEW,
    }
    return measure(asked, work, facts)


def _native(
    asked: BenchRequest,
    who: set[str],
    ours: Callable[[str], Work],
    theirs: Callable[[str], Work],
) -> list[Contender]:
    """Ourselves and the package transformers, which gets both precisions wherever it is."""
    wanted = [name for name in asked.precisions if name in DTYPES]
    found = []
    if OURS in who:
        found += [Contender(OURS, "native", name, partial(ours, name)) for name in wanted]
    if HF in who:
        names = DTYPES if asked.precision is None else wanted
        found += [Contender(HF, "generate", name, partial(theirs, name)) for name in names]
    return found


def _engines(
    config: TransformerConfig, writing: DecodingWork, precision: str, who: set[str]
) -> list[Contender]:
    """CTranslate2 through us and without us."""
    ours = partial(engine_decoding, config, writing, precision)
    direct = Contender(CT2, "", precision, partial(direct_decoding, config, writing, precision))
    return [Contender(OURS, CT2, precision, ours), direct] if OURS in who else [direct]


def _precisions_of_engine(asked: BenchRequest, device: torch.device) -> tuple[str, ...]:
    """Those that CTranslate2 is compared in: on a CPU it is at its best in int8."""
    if asked.precision is not None:
        return (asked.precision,)
    return ("bf16",) if device.type == "cuda" else ("int8", "fp32")


def _flops(config: TransformerConfig, writing: DecodingWork) -> float:
    """Useful FLOPs of a token that is handed out: all beams are computed, one is kept."""
    formula = flop_formula(build(config))
    source = writing.n_read + 1
    encoding = formula.forward(source, 0)
    writes = formula.forward(source, writing.n_new) - encoding
    return (encoding + writing.beam * writes) / writing.n_new


def _growing(by: str, device: torch.device) -> Iterator[tuple[Workload, DecodingWork]]:
    """Greedy search of more and more sentences, or of longer and longer ones."""
    for at in LONG_BATCHES if by == "batch" else LONG_TEXTS:
        batch, n_new = (at, N_NEW) if by == "batch" else (8, at)
        task = Workload(what=f"greedy by {by}, {at}", unit=UNIT, by=by, at=at)
        yield task, DecodingWork(batch, N_SOURCE, n_new, 1, device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How much a language model reads and writes."""

    n_prompt: int = 32
    n_new: int = 256
    batches: Sequence[int] = (1,)


def generate_bench(
    asked: BenchRequest, *, run: Path | None = None, shape: str | None = None, lengths: Lengths
) -> Bench:
    """Greedy, with the weights of a run or with random ones; the number written is checked."""
    device = pick_device(asked.device)
    who = chosen(asked.only, {HF: HF})
    model = _language_model(run, shape).to(device).eval()
    _check_room(model, lengths)
    if not set(asked.precisions) & set(DTYPES):
        raise ConfigError(f"generating takes {' or '.join(DTYPES)}, not {asked.precision}")

    def work(plan: Plan) -> list[BenchRow]:
        rows = []
        for batch in lengths.batches:
            writing = DecodingWork(batch, lengths.n_prompt, lengths.n_new, 1, device)
            ours, theirs = (partial(one, model, writing) for one in (our_writing, hf_writing))
            task = Workload(what=f"generation, batch {batch}", unit=UNIT)
            rows += compete(task, _native(asked, who, ours, theirs), plan)
        return rows

    facts = {
        "weights": "random" if run is None else str(run),
        "shape": model.config.model_dump(mode="json"),
        "prompt_tokens": lengths.n_prompt,
        "written": lengths.n_new,
    }
    return measure(asked, work, facts)


def _language_model(run: Path | None, shape: str | None) -> LanguageModel:
    """That of a run, or one of that shape with random weights, always the same."""
    if run is not None:
        if shape is not None:
            raise ConfigError("name a run or a --shape with random weights, not both")
        return load_writer(run, device="cpu").model
    shape = shape or SMOLLM2
    if shape not in SHAPES:
        near = did_you_mean(shape, SHAPES)
        raise ConfigError(f"there is no shape {shape!r}{near}; known: {', '.join(SHAPES)}")
    torch.manual_seed(0)
    return LanguageModel(DecoderConfig(dropout=0.0, **SHAPES[shape]))


def _check_room(model: LanguageModel, lengths: Lengths) -> None:
    needed, there = lengths.n_prompt + lengths.n_new, model.config.max_len
    if needed > there:
        raise ConfigError(
            f"{lengths.n_prompt} tokens of prompt and {lengths.n_new} new ones are {needed}, but "
            f"the model's context holds {there}; ask for fewer (--prompt, --new)"
        )
