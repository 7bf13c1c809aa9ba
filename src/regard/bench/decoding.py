"""``regard bench decode`` and ``generate``: tokens a second, every text as long as all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.bench import decoders
from regard.bench.contest import BenchRequest, Contender, Work, Workload, compete, grow
from regard.bench.measures import DTYPES
from regard.bench.results import OURS, Bench, BenchRow
from regard.bench.updates import shape as translator_shape
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
ENGINES = {"cpu": ("int8", "fp32"), "cuda": ("bf16",)}
"""Precisions that CTranslate2 is compared in: on a CPU it is at its best in int8."""
LONG = {"batch": (1, 4, 16, 64, 256), "length": (25, 50, 100, 200, 400)}
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
    who = asked.chosen({HF: HF, CT2: CT2})
    config = translator_shape(size or "base", vocab or VOCAB)
    usual = USUAL.get(device.type, USUAL["cpu"])
    works = [(beam, n) for n in batches for beam in (1, BEAM)] or usual
    engines = (asked.precision,) if asked.precision else ENGINES.get(device.type, ENGINES["cpu"])

    def native(writing: decoders.DecodingWork) -> list[Contender]:
        ours, theirs = (
            partial(one, config, writing) for one in (decoders.our_decoding, decoders.hf_decoding)
        )
        return _native(asked, who, ours, theirs)

    plan = asked.plan()
    rows: list[BenchRow] = []
    for beam, batch in works:
        writing = decoders.DecodingWork(batch, N_SOURCE, N_NEW, beam, device)
        what, flops = f"{writing.search}, batch {batch}", _flops(config, writing)
        rows += compete(Workload(what=what, unit=UNIT, flops=flops), native(writing), plan)
        for name in engines if CT2 in who else ():
            task = Workload(what=f"{what}, {CT2} {name}", unit=UNIT, flops=flops)
            both = [(OURS, CT2, decoders.engine_decoding)] if OURS in who else []
            found = [
                Contender(one, how, name, partial(work, config, writing, name))
                for one, how, work in (*both, (CT2, "", decoders.direct_decoding))
            ]
            rows += compete(task, found, plan)
    for by, sizes in LONG.items() if asked.long else ():  # greedy: more sentences, or longer ones
        points = []
        for at in sizes:
            batch, n_new = (at, N_NEW) if by == "batch" else (8, at)
            task = Workload(what=f"greedy by {by}, {at}", unit=UNIT, by=by, at=at)
            points.append((task, native(decoders.DecodingWork(batch, N_SOURCE, n_new, 1, device))))
        rows += grow(points, plan)
    facts = {
        "shape": config.model_dump(include={"d_model", "n_layers", "n_heads", "d_ff"}),
        "vocab": config.n_target_vocab,
        "source_tokens": N_SOURCE,
        "written": N_NEW,
    }
    return plan.bench(rows, facts)


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


def _flops(config: TransformerConfig, writing: decoders.DecodingWork) -> float:
    """Useful FLOPs of a token that is handed out: all beams are computed, one is kept."""
    formula = flop_formula(build(config))
    source = writing.n_read + 1
    encoding = formula.forward(source, 0)
    writes = formula.forward(source, writing.n_new) - encoding
    return (encoding + writing.beam * writes) / writing.n_new


def generate_bench(
    asked: BenchRequest,
    *,
    run: Path | None = None,
    shape: str | None = None,
    n_prompt: int = 32,
    n_new: int = 256,
    batches: Sequence[int] = (1,),
) -> Bench:
    """Greedy, with the weights of a run or with random ones; the number written is checked."""
    device = pick_device(asked.device)
    who = asked.chosen({HF: HF})
    model = _language_model(run, shape).to(device).eval()
    if n_prompt + n_new > model.config.max_len:
        raise ConfigError(
            f"{n_prompt} tokens of prompt and {n_new} new ones are {n_prompt + n_new}, but the "
            f"model's context holds {model.config.max_len}; ask for fewer (--prompt, --new)"
        )
    if not set(asked.precisions) & set(DTYPES):
        raise ConfigError(f"generating takes {' or '.join(DTYPES)}, not {asked.precision}")
    plan = asked.plan()
    rows: list[BenchRow] = []
    for batch in batches:
        writing = decoders.DecodingWork(batch, n_prompt, n_new, 1, device)
        ours, theirs = (
            partial(one, model, writing) for one in (decoders.our_writing, decoders.hf_writing)
        )
        task = Workload(what=f"generation, batch {batch}", unit=UNIT)
        rows += compete(task, _native(asked, who, ours, theirs), plan)
    facts = {
        "weights": "random" if run is None else str(run),
        "shape": model.config.model_dump(mode="json"),
        "prompt_tokens": n_prompt,
        "written": n_new,
    }
    return plan.bench(rows, facts)


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
