"""``regard bench generate``: a language model writes on; tokens a second, none of them the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.bench.contest import Contender, Plan, Task, compete
from regard.bench.continuing import Continuing, our_writing
from regard.bench.matmul import DTYPES
from regard.bench.peers.continuing import hf_writing
from regard.bench.peers.listed import chosen
from regard.bench.rows import OURS, Bench, Row
from regard.bench.run import Asked, measure
from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.models.decoder import DecoderConfig, LanguageModel
from regard.runs.device import pick_device
from regard.runs.kinds.writer import load_writer

HF = "transformers"
N_PROMPT, N_NEW = 32, 256
"""Tokens of a prompt, and tokens that are written after it."""
SHAPE = "smollm2-135m"
SHAPES: dict[str, dict[str, Any]] = {
    SHAPE: {
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
"""Public models whose sizes can be had with random weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How much is read and written."""

    n_prompt: int = N_PROMPT
    n_new: int = N_NEW
    batches: Sequence[int] = (1,)


def generate_bench(
    asked: Asked, *, run: Path | None = None, shape: str | None = None, lengths: Lengths
) -> Bench:
    """Greedy, with the weights of a run or with random ones; the number written is checked."""
    device = pick_device(asked.device)
    who = chosen(asked.only, {HF: HF})
    model = _model(run, shape).to(device).eval()
    _check_room(model, lengths)
    wanted = [name for name in asked.precisions if name in DTYPES]
    if not wanted:
        raise ConfigError(f"generating takes {' or '.join(DTYPES)}, not {asked.precision}")

    def work(plan: Plan) -> list[Row]:
        rows = []
        for batch in lengths.batches:
            writing = Continuing(model, batch, lengths.n_prompt, lengths.n_new, device)
            task = Task(what=f"generation, batch {batch}", unit="tokens/s")
            rows += compete(task, _contenders(asked, who, wanted, writing), plan)
        return rows

    facts = {
        "weights": "random" if run is None else str(run),
        "shape": model.config.model_dump(mode="json"),
        "prompt_tokens": lengths.n_prompt,
        "written": lengths.n_new,
    }
    return measure(asked, work, facts)


def _contenders(
    asked: Asked, who: set[str], wanted: Sequence[str], writing: Continuing
) -> list[Contender]:
    """Ourselves, and the package transformers, which gets both precisions wherever it is."""
    found = []
    if OURS in who:
        for name in wanted:
            found.append(Contender(OURS, "native", name, partial(our_writing, writing, name)))
    if HF in who:
        for name in DTYPES if asked.precision is None else wanted:
            found.append(Contender(HF, "generate", name, partial(hf_writing, writing, name)))
    return found


def _model(run: Path | None, shape: str | None) -> LanguageModel:
    """That of a run, or one of that shape with random weights, always the same."""
    if run is not None:
        if shape is not None:
            raise ConfigError("name a run or a --shape with random weights, not both")
        return load_writer(run, device="cpu").model
    shape = shape or SHAPE
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
