"""A gradient fades or explodes on its way back through an RNN, and crosses attention in one step.

Each step back multiplies it by the recurrent weights, so it grows or shrinks as a power of the
distance; an LSTM's forget gate slows the loss. Attention has one step to every token, but two ways
to take it: through the values, which is linear, and through the softmax, which can saturate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from regard.kernels.attention import attention
from regard.lab.result import Result, lines, unmet
from regard.lab.small_models import block_norms, lstm_with_forget_bias, seeded
from regard.layers.attention import MultiHeadAttention

Last = Callable[[Tensor], Tensor]  # x (B, T, D) -> the last output (B, 1, D)

_WIDTH, _BATCH = 16, 8
_MUCH, _FLAT = 100.0, 3.0


def gradients(
    *,
    n_steps: int = 32,
    small: float = 0.5,
    large: float = 4.0,
    sharpest: int = 6,
    n_draws: int = 12,
    seed: int = 0,
) -> Result:
    """The gradient of the last output with respect to the input t steps back, by t.

    ``small`` and ``large`` are the singular values of the two RNNs' recurrent weights; the scores
    are multiplied by up to 2 to the power of ``sharpest``. Sizes are medians of the draws: a mean
    would be that of the few in which two scores all but tie.
    """
    norms = partial(_norms, n_steps=n_steps, n_draws=n_draws, seed=seed)
    models: dict[str, Callable[[], Last]] = {
        "RNN, small weights": partial(_rnn, small),
        "RNN, large weights": partial(_rnn, large),
        "LSTM": _lstm,
        "attention": partial(_attention, "both"),
        "values": partial(_attention, "values"),
        "softmax": partial(_attention, "softmax"),
    }
    sizes = {name: norms(make).median(dim=0).values for name, make in models.items()}
    powers = range(sharpest + 1)
    by_power = {
        way: torch.stack(
            [norms(partial(_attention, way, 2.0**p)).norm(dim=1).median() for p in powers]
        )
        for way in ("values", "softmax")
    }
    ends = {name: (size[-1] / size[1]).item() for name, size in sizes.items()}
    sharp = {way: (size[-1] / size[0]).item() for way, size in by_power.items()}
    attended = sizes["attention"][1:]  # without the asking token, which is also the query
    spread = (attended.max() / attended.min()).item()
    faded, grown, lstm = list(ends.values())[:3]
    parts = {
        "with small weights the RNN's gradient fades a hundredfold": faded < 1 / _MUCH,
        "with large ones it grows a hundredfold": grown > _MUCH,
        "the LSTM lies between the two": faded < lstm < grown,
        f"attention's varies less than {_FLAT:g}-fold": spread < _FLAT,
        "a saturated softmax lets less than a hundredth through": sharp["softmax"] < 1 / _MUCH,
        "the values let at least half of it through": sharp["values"] > 0.5,
    }
    return Result(
        name="gradients",
        verdict=all(parts.values()),
        finding=(
            f"From 1 step back to {len(attended)} the gradient is multiplied by {faded:.0e} in the "
            f"RNN with small weights, {grown:.0e} with large ones and {lstm:.0e} in the LSTM; "
            f"attention has one step to every token, and its gradient varies {spread:.1f}-fold. "
            f"With scores {2**sharpest} times as large the gradient through "
            f"the softmax is multiplied by {sharp['softmax']:.0e}, the one through the values by "
            f"{sharp['values']:.1f}." + unmet(parts)
        ),
        numbers={
            **{f"{name}: size by steps back": size.tolist() for name, size in sizes.items()},
            **{f"{name}: farthest over nearest": value for name, value in ends.items()},
            "attention: largest over smallest": spread,
            **{f"{way}: sharpest over plain scores": value for way, value in sharp.items()},
        },
        pictures=_pictures(sizes, by_power),
    )


def _pictures(sizes: Mapping[str, Tensor], by_power: Mapping[str, Tensor]) -> tuple[str, ...]:
    back = {name: dict(enumerate(size.tolist())) for name, size in sizes.items()}
    ways = {way: back.pop(way) for way in by_power}
    powers = {way: dict(enumerate(size.tolist())) for way, size in by_power.items()}
    return tuple(
        lines(series, title, x_label, "size of the gradient", log_y=True)
        for series, title, x_label in (
            (back, "Back through time", "steps back"),
            (ways, "Two ways through attention", "steps back (0 is who asks)"),
            (powers, "Saturation", "scores multiplied by 2 to the power of"),
        )
    )


def _norms(make: Callable[[], Last], *, n_steps: int, n_draws: int, seed: int) -> Tensor:
    """(draws, T): the size of the last output's gradient, the nearest input first."""
    with seeded(seed):
        drawn = [
            block_norms(make(), torch.randn(_BATCH, n_steps, _WIDTH, dtype=torch.float64))
            for _ in range(n_draws)
        ]
    return torch.cat(drawn)[:, 0].flip(1)


def _rnn(gain: float) -> Last:
    """All singular values of its recurrent weights are ``gain``."""
    inner = nn.RNN(_WIDTH, _WIDTH, batch_first=True, bias=False).double()
    from_input, from_state = inner.all_weights[0]
    nn.init.xavier_uniform_(from_input)
    nn.init.orthogonal_(from_state, gain=gain)
    return lambda x: inner(x)[0][:, -1:]


def _lstm() -> Last:
    inner = lstm_with_forget_bias(_WIDTH).double()
    return lambda x: inner(x)[0][:, -1:]


def _attention(way: str, sharpness: float = 1.0) -> Last:
    """One head of self-attention; what is not on the ``way`` is held fixed."""
    layer = MultiHeadAttention(_WIDTH, 1).double()

    def last(x: Tensor) -> Tensor:
        seen = layer.project(x)
        q = sharpness * layer.to_q(x[:, None, -1:])  # (B, 1, 1, D): the last asks
        weights = attention(q, seen.k, seen.v, need_weights=True).weights
        weights = weights.detach() if way == "values" else weights
        values = seen.v.detach() if way == "softmax" else seen.v
        return layer.to_out(weights @ values)[:, 0]

    return last
