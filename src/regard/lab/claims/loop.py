"""Attention word by word and all at once agree, unless queries wait for outputs as Bahdanau's do.

Self-attention's queries come from the words alone, so one product of matrices does what a loop
does, and faster. In Bahdanau's decoder the query is the last state, which read the last context. A
part of it can leave the loop where it needs no earlier state (then it comes before), or where no
later state needs it (then it comes after): both are measured as Jacobians of a real run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from regard.lab.result import Result
from regard.lab.small_models import seeded
from regard.layers.attention import MultiHeadAttention
from regard.models.recurrent import BahdanauDecoder, RecurrentConfig, RecurrentTranslator
from regard.visual.charts import bars
from regard.visual.matrix import matrix
from regard.visual.tables import Table


def loop(*, feed_back: bool = False, length: int = 256, seed: int = 0) -> Result:
    """``feed_back`` lets each query of the self-attention wait for the output before it."""
    with seeded(seed):
        layer = MultiHeadAttention(64, 4).double()
        x = torch.randn(1, length, 64, dtype=torch.float64)
    slow, by_word = _timed(lambda: _by_word(layer, x, feed_back))
    fast, at_once = _timed(lambda: layer(x))
    error = (by_word - at_once).abs().max().item()
    steps = bahdanau_steps(6, seed)
    needs = _needs(steps)
    places = {name: _place(*both) for name, both in needs.items()}
    times = {"word by word": 1000 * slow, "all at once": 1000 * fast}
    agree = (
        f"Both agree to {error:.1g}; at once is {slow / fast:.0f} times faster here."
        if error < 1e-9
        else f"They differ by {error:.2g}: what waits for an output cannot be asked at once."
    )
    before, inside, after = (
        " and ".join(name for name, one in places.items() if one == place)
        for place in ("before it", "in it", "after it")
    )
    header = ["part", "needs the last state", "is needed by later states", "place in the loop"]
    rows = [[name, f"{a:.2g}", f"{b:.2g}", places[name]] for name, (a, b) in needs.items()]
    return Result(
        name="loop",
        verdict=error < 1e-9 and places["contexts c"] == "in it",
        finding=(
            f"{agree} Of Bahdanau's decoder, {inside or 'nothing'} must be computed step by step: "
            "the query is a state, the state has read a context, and a context is what a query "
            f"found. Before the loop come {before or 'no parts'}, after it {after or 'none'}."
        ),
        numbers={
            "largest difference": error,
            **{f"{name}, milliseconds": value for name, value in times.items()},
            "times faster": slow / fast,
            **{f"Bahdanau's {name} need the last state": a for name, (a, _) in needs.items()},
            **{f"later states need Bahdanau's {name}": b for name, (_, b) in needs.items()},
        },
        pictures=(bars(times, title=f"Time for {length} words", unit=" ms"), _waiting(steps)),
        tables=(Table("What of Bahdanau's decoder can leave the loop", header, rows),),
    )


def _by_word(layer: MultiHeadAttention, x: Tensor, feed_back: bool) -> Tensor:
    keys_values = layer.project(x)
    outputs: list[Tensor] = []
    for word in x.split(1, dim=1):
        asks = word + outputs[-1] if feed_back and outputs else word
        outputs.append(layer.look(asks, keys_values))
    return torch.cat(outputs, dim=1)


def _timed(work: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """Seconds of the best of three, and what came out."""
    best = float("inf")
    with torch.no_grad():
        for _ in range(3):
            start = time.perf_counter()
            out = work()
            best = min(best, time.perf_counter() - start)
    return best, out


def _needs(steps: DecoderSteps) -> dict[str, tuple[float, float]]:
    """Part -> how much that of step 2 needs the state before it, and the last state needs it."""
    parts = {
        "keys W_k h": steps.keys,
        "words W y": steps.words[1],
        "contexts c": steps.contexts[1],
        "states s": steps.after[1],
        "logits": steps.logits[1],
    }
    asks, last = steps.before[1], steps.after[-1]
    return {name: (dependence(part, asks), dependence(last, part)) for name, part in parts.items()}


def _place(needs: float, needed: float) -> str:
    """Where a part can stand, seen from the loop over the steps."""
    if needs < 1e-9:
        return "before it"
    return "in it" if needed > 1e-9 else "after it"


def _waiting(steps: DecoderSteps) -> str:
    """Rows of queries, columns of contexts; the strongest dependence is the darkest."""
    found = [[dependence(asks, context) for context in steps.contexts] for asks in steps.before]
    most = max(map(max, found))
    names = range(1, len(found) + 1)
    return matrix(
        [[value / most for value in row] for row in found],
        [f"query {i}" for i in names],
        [f"context {i}" for i in names],
        title="What queries depend on",
    )


class DecoderSteps(NamedTuple):
    """What the decoder computed: one entry a step, but for the keys. Autograd ties it together."""

    keys: Tensor
    """The score's own projection of the encoder's states."""
    words: list[Tensor]
    """The words' part of gates and state."""
    contexts: list[Tensor]
    before: list[Tensor]
    """The state that asks: the query."""
    after: list[Tensor]
    logits: list[Tensor]


def bahdanau_steps(n_steps: int, seed: int) -> DecoderSteps:
    """A run of an untrained decoder over random words, watched."""
    kind: dict[str, Any] = {"decoder": "bahdanau", "cell": "gru", "score": "additive"}
    sizes = {"d_model": 8, "n_source_vocab": 10, "n_target_vocab": 10}
    with seeded(seed):
        model = RecurrentTranslator(RecurrentConfig(**kind, **sizes, bidirectional=True)).double()
        source, target = torch.randint(1, 10, (1, 5)), torch.randint(1, 10, (1, n_steps))
    decoder = cast("BahdanauDecoder", model.decoder)
    cells: list[tuple[Any, ...]] = []
    decoder.cell.register_forward_hook(lambda _cell, given, out: cells.append((*given[:3], out[0])))
    memory = model.encode(source)
    logits, _ = decoder(target, memory, model.start(memory))
    assert memory.keys_values is not None, "the configuration sees to it"
    words, contexts, before, after = (list(column) for column in zip(*cells, strict=True))
    return DecoderSteps(
        memory.keys_values.k, words, contexts, before, after, list(logits.unbind(1))
    )


def dependence(of: Tensor, by: Tensor) -> float:
    """The norm of the Jacobian ∂of/∂by; 0 where nothing leads from one to the other."""
    rows = [
        torch.autograd.grad(value, by, retain_graph=True, allow_unused=True)[0]
        for value in of.flatten()
    ]
    found = [row for row in rows if row is not None]
    return torch.stack(found).norm().item() if found else 0.0
