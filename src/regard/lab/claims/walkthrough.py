"""The worked examples hold: 112, 96 give .88, .12, and 95, 13, 35, 72 give .6, .05, .1, .25.

Two examples of the lectures, in numbers. In the first *Thinking* looks at *Thinking Machines*: two
words of 2×512 become 2×64 in one head among eight, products of 112 and 96 are divided by √64 to 14
and 12, and their softmax is taken. In the second *I* looks at *I want to sleep*; its scores are
divided by √d_k already. Softmax turns differences into ratios, so a lead of 2 is a factor of e²,
one of 23 a factor of e²³, and the weights that are printed for it need far less.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.kernels.attention import attention
from regard.lab.result import Result, lines, listed
from regard.lab.small_models import seeded
from regard.layers.attention import MultiHeadAttention
from regard.layers.viewpoint import Seen
from regard.visual.charts import bars
from regard.visual.tables import Table

WORDS = ("I", "want", "to", "sleep")
PRINTED = (0.6, 0.05, 0.1, 0.25)
"""The slide's weights; two decimals, so a true weight may differ from them by 0.005."""
THINKING = ("Thinking", "Machines")
PRODUCTS = (112.0, 96.0)
PRINTED_THINKING = (0.88, 0.12)
"""The first example's q·k, and its weights."""
SHAPES = {"X": (2, 512), "W_q": (512, 64), "Q": (2, 64), "Q Kᵀ": (2, 2), "Z": (2, 64)}
"""The notes' shapes."""


def walkthrough(
    *,
    products: Sequence[float] = PRODUCTS,
    scores: Sequence[float] = (95.0, 13.0, 35.0, 72.0),
    seed: int = 0,
) -> Result:
    """The shapes of a layer, and both tables: two ``products`` q·k, four ``scores``."""
    if len(products) != len(THINKING):
        raise ConfigError(f"Thinking Machines are two words, got {len(products)} products")
    if len(scores) != len(WORDS):
        raise ConfigError(f"the table has four words, got {len(scores)} scores; give one for each")
    divided_by_8 = [product / 8 for product in products]
    with seeded(seed):
        layer = MultiHeadAttention(512, 8, bias=False).double()
        found, error = _one_head(layer, torch.randn(1, 2, 512, dtype=torch.float64))
        asked = _asking(layer, torch.randn(1, 4, 512, dtype=torch.float64), scores)
        thinks = _asking(layer, torch.randn(1, 2, 512, dtype=torch.float64), divided_by_8)
    (_, weights), (_, two) = (attention(*one, need_weights=True) for one in (asked, thinks))
    softmax, thinking = weights[0].tolist(), two[0].tolist()
    first_off = max(abs(a - b) for a, b in zip(thinking, PRINTED_THINKING, strict=True))
    first_holds = first_off <= 0.005
    off = max(abs(a - b) for a, b in zip(softmax, PRINTED, strict=True))
    same_shapes = all(found[name] == shape for name, shape in SHAPES.items())
    second_holds = off <= 0.005
    verdict = same_shapes and error < 1e-9 and first_holds and second_holds
    exact = torch.tensor(scores, dtype=torch.float64)
    divided = {c: (exact / c).softmax(dim=0).tolist() for c in range(1, 101)}
    by_divisor = {word: {c: w[i] for c, w in divided.items()} for i, word in enumerate(WORDS)}
    given = ", ".join(f"{score:.4g}" for score in scores)
    got = ", ".join(f"{weight:.2g}" for weight in softmax)
    why = (
        ", as printed."
        if second_holds
        else ": a difference of scores becomes a ratio of weights. The printed 0.6 and 0.25 are "
        "ln 2.4 = 0.88 apart; scores of ln 12, ln 1, ln 2 and ln 5 (2.48, 0, 0.69, 1.61) would "
        "give the slide's weights."
    )
    return Result(
        name="walkthrough",
        verdict=verdict,
        finding=(
            f"The shapes of a head are {'' if same_shapes else 'not '}as in the notes, and the "
            f"softmax of {listed(f'{one:.4g}' for one in divided_by_8)} is "
            f"{listed(f'{one:.2f}' for one in thinking)}, "
            f"{'as' if first_holds else 'not as'} printed; "
            f"{'and' if second_holds == first_holds else 'but'} the softmax of "
            f"{given} is {got}{why}"
        ),
        numbers={
            "Thinking Machines: products": [float(product) for product in products],
            "Thinking Machines: divided by 8": divided_by_8,
            "Thinking Machines: softmax": thinking,
            "Thinking Machines: softmax of the products, undivided": (
                torch.tensor(products, dtype=torch.float64).softmax(dim=0).tolist()
            ),
            "scores": [float(score) for score in scores],
            "softmax": softmax,
            "softmax on the slide": list(PRINTED),
            "largest difference": off,
            "softmax after dividing by 8 once more": divided[8],
            "shapes as in the notes": same_shapes,
            "head by hand and in the layer differ by": error,
        },
        pictures=(
            bars(_beside(THINKING, PRINTED_THINKING, thinking), title="Thinking Machines"),
            bars(_beside(WORDS, PRINTED, softmax), title="I want to sleep"),
            lines(by_divisor, "Softmax of the scores divided by c", "c", "weight"),
        ),
        tables=(
            _steps(THINKING, *thinks, printed=PRINTED_THINKING),
            _steps(WORDS, *asked, printed=PRINTED),
            _shape_table(found),
        ),
    )


def _one_head(layer: MultiHeadAttention, x: Tensor) -> tuple[dict[str, tuple[int, ...]], float]:
    """The first head worked by hand, as shapes; and how far it is from what the layer does."""
    watched: list[Seen] = []
    handle = layer.view.register_forward_hook(lambda _module, _given, seen: watched.append(seen))
    out = layer(x)
    handle.remove()
    w_q, w_k, w_v = (part.weight[:64].T for part in (layer.to_q, layer.to_k, layer.to_v))
    q, k, v = x[0] @ w_q, x[0] @ w_k, x[0] @ w_v
    product = q @ k.T
    z = (product / 8).softmax(dim=-1) @ v
    heads = watched[0].values()  # (1, 8, 2, 64)
    joined = heads[0].transpose(0, 1).flatten(1)
    w_o = layer.to_out.weight.T
    parts = {"X": x[0], "W_q": w_q, "Q": q, "Q Kᵀ": product, "Z": z}
    parts |= {"8 heads": joined, "W_o": w_o, "output": joined @ w_o}
    error = max((z - heads[0, 0]).abs().max().item(), (out[0] - parts["output"]).abs().max().item())
    return {name: tuple(part.shape) for name, part in parts.items()}, error


def _asking(
    layer: MultiHeadAttention, x: Tensor, scores: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor]:
    """q (1, 64) of the first word, k and v (T, 64); keys are moved along q to get the scores."""
    q = (x[0, :1] @ layer.to_q.weight[:64].T).detach()
    k, v = (part[0, 0].detach() for part in (layer.project(x).k, layer.project(x).v))
    missing = torch.tensor(scores, dtype=k.dtype) * 8 - (k @ q.T).squeeze(1)
    return q, k + missing[:, None] * q / q.square().sum(), v


def _beside(
    words: Sequence[str], printed: Sequence[float], softmax: Sequence[float]
) -> dict[str, float]:
    return {
        f"{word}, {who}": weight
        for i, word in enumerate(words)
        for who, weight in (("printed", printed[i]), ("softmax", softmax[i]))
    }


def _steps(
    words: Sequence[str], q: Tensor, k: Tensor, v: Tensor, *, printed: Sequence[float]
) -> Table:
    """Query, key, score, softmax, value; of 64 numbers the first is shown."""
    output, weights = attention(q, k, v, need_weights=True)
    rows = []
    for i, word in enumerate(words):
        product, value, weight = (q[0] @ k[i]).item(), v[i, 0].item(), weights[0, i].item()
        numbers = [f"{product:.2f}", f"{product / 8:.2f}", f"{weight:.2g}", f"{printed[i]}"]
        rows.append([f"{words[0]} → {word}", *numbers, f"{value:.3f}", f"{weight * value:.2g}"])
    rows.append(["sum", "", "", f"{weights.sum().item():.2g}", "1.0", "", f"{output[0, 0]:.2g}"])
    header = ["query → key", "q·k", "q·k / √64", "softmax", "printed", "v₁", "softmax × v₁"]
    return Table(f"The query of {words[0]}", header, rows)


def _shape_table(found: dict[str, tuple[int, ...]]) -> Table:
    """W_o differs: with the notes' 512×64 the output could not be added to the words."""
    notes = {**SHAPES, "8 heads": (2, 512), "W_o": (512, 64), "output": (2, 64)}
    rows = [
        [name, "×".join(map(str, notes[name])), "×".join(map(str, s))] for name, s in found.items()
    ]
    title = "Shapes for two words: W_o is square, so that the residual fits"
    return Table(title, ["what", "in the notes", "here"], rows)
