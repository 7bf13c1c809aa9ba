"""A run as plain data that a page can run by itself: ``regard export RUN DIR --to web``.

The engine in the browser (``server/engine``) is a forward pass and a search of our own in plain
JavaScript. Weights of small models are few megabytes, every what-if is at hand, and it works from a
disk, where browsers load neither modules nor WebAssembly. Here is what it is given: configuration,
vocabularies, how to search, and weights as one text. What it does not know is refused.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from regard.checkpoints.run_folder import model_tensors
from regard.core.errors import ConfigError
from regard.models.presets import n_parameters
from regard.models.settings import BlocksConfig
from regard.text.tokenizer import Tokenizer

MOST_PARAMETERS = 20_000_000
"""Of a model that a browser is given: 107 MB of text, and seconds for a sentence."""
KNOWN = {
    "score": ("scaled_dot", "dot"),
    "normaliser": ("softmax",),
    "positions": ("sinusoidal", "learned", "index", "none", "rotary", "alibi"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "swiglu"),
    "norm": ("layer", "rms"),
    "experts": (None,),
    "cell": (None,),
    "pooling": ("cls", "mean"),
}
"""Settings of a model, and what the engine knows of each; a family may lack some."""
WINDOWS = ("global",)
Facts = dict[str, Any]


class WebTask(NamedTuple):
    """What the engine is told of the runs of a task, and what of them it cannot do."""

    facts: Callable[[Any], Facts]
    problems: Callable[[Any], Iterator[str]]


def web_run(run: Any) -> Facts:
    """What the engine has to know of a run beside its weights; see ``RunFile`` in ``run.js``."""
    if problems := [*_problems(run)]:
        raise ConfigError(
            f"this run cannot be exported as a page without a server: {'; '.join(problems)}; show "
            "it with `regard serve`"
        )
    config = run.model.config
    return {
        "task": run.task,
        "config": config.model_dump(mode="json"),
        "longest": config.longest,
        **WEB_TASKS[run.task].facts(run),
    }


def web_weights(model: nn.Module) -> Facts:
    """``tensors``, names and shapes in order, and ``numbers``: all of them as base64.

    They are 32-bit floats, little-endian, one tensor after the other.
    """
    tensors = {name: one.float().numpy() for name, one in model_tensors(model).items()}
    raw = b"".join(np.ascontiguousarray(one, "<f4").tobytes() for one in tensors.values())
    shapes = [[name, list(one.shape)] for name, one in tensors.items()]
    return {"tensors": shapes, "numbers": base64.b64encode(raw).decode("ascii")}


def _problems(run: Any) -> Iterator[str]:
    """Why the engine cannot run it; all reasons, not the first."""
    if run.task not in WEB_TASKS:
        known = ", ".join(WEB_TASKS)
        yield f"runs of the tasks {known} can be, and this is one of the task {run.task}"
        return
    yield from _model_problems(run.model.config, n_parameters(run.model))
    yield from WEB_TASKS[run.task].problems(run)


def _model_problems(config: BlocksConfig, n: int) -> Iterator[str]:
    if n > MOST_PARAMETERS:
        yield f"a model may have {MOST_PARAMETERS:,} parameters, and this one has {n:,}"
    for name, known in KNOWN.items():
        value = getattr(config, name, known[0])
        if value not in known:
            yield f"model.{name}={value} is not known there"
    for window in dict.fromkeys(config.window_names):
        if window not in WINDOWS:
            yield f"model.window={window} is not known there"


# ------------------------------------------------------------------ tasks


def _of_pairs(run: Any) -> Facts:
    """A translator: its two vocabularies, and how it searches."""
    tokenizers = run.tokenizers
    names = {"beam", "length_penalty", "stop", "max_len", "replace_unknown"}
    return {
        "tokenizers": {
            "source": web_tokenizer(tokenizers.source),
            "target": None if tokenizers.shared else web_tokenizer(tokenizers.target),
        },
        "decode": run.recipe.decode.model_dump(include=names),
    }


def _pair_problems(run: Any) -> Iterator[str]:
    yield from _foreign(run.tokenizers.source, run.tokenizers.target)
    decode = run.recipe.decode
    if decode.samples:
        yield "it searches for a target, and this run's settings draw one (decode.temperature)"
    if decode.coverage_penalty and decode.beam > 1:
        yield f"decode.coverage_penalty={decode.coverage_penalty} is not known there"


def _of_documents(run: Any) -> Facts:
    """A summarizer: a translator that may cut what it reads."""
    return {**_of_pairs(run), "truncate": run.recipe.data.truncate}


def _of_labels(run: Any) -> Facts:
    """A classifier: its labels, and whether it reads two texts at once."""
    return {**_one_vocabulary(run), "labels": list(run.labels.names), "pairs": run.labels.pairs}


def _of_prompts(run: Any) -> Facts:
    """A language model: whether an end is a line break, and from which tokens it draws."""
    return {
        **_one_vocabulary(run),
        "framing": {"lines": run.framing.lines},
        "decode": run.recipe.decode.model_dump(include={"top_k", "top_p"}),
    }


def _one_vocabulary(run: Any) -> Facts:
    return {"tokenizers": {"source": web_tokenizer(run.tokenizer), "target": None}}


def _one_problem(run: Any) -> Iterator[str]:
    return _foreign(run.tokenizer)


def _foreign(*tokenizers: Tokenizer) -> Iterator[str]:
    if any(type(one) is not Tokenizer for one in tokenizers):
        yield "the tokenizer of an imported model is not known there"


WEB_TASKS = {
    "translation": WebTask(_of_pairs, _pair_problems),
    "summarization": WebTask(_of_documents, _pair_problems),
    "classification": WebTask(_of_labels, _one_problem),
    "language": WebTask(_of_prompts, _one_problem),
}
"""Tasks that the engine knows, by name."""


# ------------------------------------------------------------------ vocabularies


def web_tokenizer(tokenizer: Tokenizer) -> Facts:
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
