"""A run as plain data that a page can run by itself: ``regard export RUN DIR --to web``.

The engine in the browser (``server/engine``) is a forward pass and a search of our own in plain
JavaScript. Weights of small models are few megabytes, every what-if is at hand, and it works from a
disk, where browsers load neither modules nor WebAssembly. Here is what it is given: configuration,
vocabularies, how to search, and weights as one text. What it does not know is refused.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import nn

from regard.checkpoints.run_folder import model_tensors
from regard.core.errors import ConfigError
from regard.models.presets import n_parameters
from regard.models.settings import TransformerConfig
from regard.text.tokenizer import Tokenizer

TASK = "translation"
MOST_PARAMETERS = 20_000_000
"""Of a model that a browser is given: 107 MB of text, and seconds for a sentence."""
KNOWN = {
    "score": ("scaled_dot", "dot"),
    "normaliser": ("softmax",),
    "positions": ("sinusoidal", "learned", "index", "none", "rotary", "alibi"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "swiglu"),
    "norm": ("layer", "rms"),
    "experts": (None,),
}
"""Settings of a model, and what the engine knows of each."""
WINDOWS = ("global",)


def web_run(run: Any) -> dict[str, Any]:
    """What the engine has to know of a translator beside its weights; see ``translator.js``."""
    if problems := [*_problems(run)]:
        raise ConfigError(
            f"this run cannot be exported as a page without a server: {'; '.join(problems)}; show "
            "it with `regard serve`"
        )
    config, tokenizers, decode = run.model.config, run.tokenizers, run.recipe.decode
    names = {"beam", "length_penalty", "stop", "max_len", "replace_unknown"}
    return {
        "config": config.model_dump(mode="json"),
        "longest": config.longest,
        "tokenizers": {
            "source": web_tokenizer(tokenizers.source),
            "target": None if tokenizers.shared else web_tokenizer(tokenizers.target),
        },
        "decode": decode.model_dump(include=names),
    }


def web_weights(model: nn.Module) -> dict[str, Any]:
    """``tensors``, names and shapes in order, and ``numbers``: all of them as base64.

    They are 32-bit floats, little-endian, one tensor after the other.
    """
    tensors = {name: one.float().numpy() for name, one in model_tensors(model).items()}
    raw = b"".join(np.ascontiguousarray(one, "<f4").tobytes() for one in tensors.values())
    shapes = [[name, list(one.shape)] for name, one in tensors.items()]
    return {"tensors": shapes, "numbers": base64.b64encode(raw).decode("ascii")}


def _problems(run: Any) -> Iterator[str]:
    """Why the engine cannot run it; all reasons, not the first."""
    if run.task != TASK:
        yield f"runs of the task {TASK} can be, and this is one of the task {run.task}"
        return
    yield from _model_problems(run.model.config, n_parameters(run.model))
    if any(type(one) is not Tokenizer for one in (run.tokenizers.source, run.tokenizers.target)):
        yield "the tokenizer of an imported model is not known there"
    decode = run.recipe.decode
    if decode.samples:
        yield "it searches for a translation, and this run's settings draw one (decode.temperature)"
    if decode.coverage_penalty and decode.beam > 1:
        yield f"decode.coverage_penalty={decode.coverage_penalty} is not known there"


def _model_problems(config: TransformerConfig, n: int) -> Iterator[str]:
    if n > MOST_PARAMETERS:
        yield f"a model may have {MOST_PARAMETERS:,} parameters, and this one has {n:,}"
    for name, known in KNOWN.items():
        value = getattr(config, name)
        if value not in known:
            yield f"model.{name}={value} is not known there"
    for window in dict.fromkeys(config.window_names):
        if window not in WINDOWS:
            yield f"model.window={window} is not known there"


def web_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """As ``tokenizer.js`` reads it."""
    return {
        "kind": tokenizer.kind,
        "tokens": tokenizer.spelled(),
        "merges": _merges(tokenizer) if tokenizer.kind == "bpe" else [],
        "lowercase": tokenizer.lowercase,
        "plain": tokenizer.plain,
    }


def _merges(tokenizer: Tokenizer) -> list[tuple[int, int, int]]:
    """Two neighbours and what they become, by ids, in the order in which they were learned."""
    learned = sorted(tokenizer.merges().items(), key=lambda one: one[1][0])
    return [(left, right, both) for (left, right), (_, both) in learned]
