"""Hard attention learns from a gradient that is right on average but noisy; a baseline calms it.

Soft attention is differentiable: its gradient is exact. Hard attention draws one key, and a draw
has no derivative. REINFORCE estimates the gradient from what each draw was worth. Here the exact
gradient of the expected worth is known by enumeration, so the estimate's error can be measured;
then both kinds learn the same lookup.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.functional.attend import Normaliser, softmax
from regard.lab.result import Result, lines, percent
from regard.lab.small_models import fit, seeded
from regard.layers.draw import Draw
from regard.layers.score import Score
from regard.training.reinforce import Baseline, accounts, surrogate
from regard.visual.charts import bars

_N_KEYS, _D, _BATCH = 8, 16, 32


def hard(
    *, baseline: bool = True, n_draws: int = 50_000, steps: int = 400, seed: int = 0
) -> Result:
    """Without the baseline nothing calms the estimate."""
    with seeded(seed):
        scores, worth = torch.randn(_N_KEYS).double(), torch.randn(_N_KEYS).double() - 4.0
        _, plain = _spread(scores, worth, 0.0, n_draws)
        usual = (scores.softmax(dim=0) * worth).sum().item() if baseline else 0.0
        error, calmed = _spread(scores, worth, usual, n_draws)
        soft_losses, soft_right = _learned(softmax, steps)
        hard_losses, hard_right = _learned(Draw(), steps)
    losses = {"soft": _smooth(soft_losses), "hard": _smooth(hard_losses)}
    return Result(
        name="hard",
        verdict=error < 0.1 and 1 < calmed < plain / 1.5,
        finding=(
            f"The mean of {n_draws:,} estimates is {percent(error)} of the "
            f"gradient's length away from the exact one, a single estimate {plain:.1f} "
            f"lengths, with a baseline {calmed:.1f}. Soft attention has no such noise. After "
            f"{steps} steps on a lookup, soft finds {percent(soft_right)} of the keys and hard "
            f"{percent(hard_right)}."
        ),
        numbers={
            "error of the mean": error,
            "noise of one draw": plain,
            "noise of one draw, with baseline": calmed,
            "keys found, soft": soft_right,
            "keys found, hard": hard_right,
        },
        pictures=(
            bars(
                {"soft": 0.0, "hard": plain, "hard, baseline": calmed},
                title="Noise of one estimate, in lengths of the gradient",
            ),
            lines(losses, "Learning a lookup", "step", "loss"),
        ),
    )


def _spread(scores: Tensor, worth: Tensor, usual: float, n: int) -> tuple[float, float]:
    """How far the mean of n estimates, and a single one, lie from the gradient, in its lengths."""
    leaf = scores.clone().requires_grad_()
    (leaf.softmax(dim=0) * worth).sum().backward()
    exact = leaf.grad
    assert exact is not None
    rows = scores.repeat(n, 1).view(n, 1, 1, -1).requires_grad_()
    draw = Draw()
    with accounts(nn.ModuleDict({"draw": draw})) as drawn:
        weights = draw(rows, None)
    gains = (weights.detach() @ worth).view(n, 1) - usual
    (account,) = drawn.values()
    calm = [one._replace(entropy=torch.zeros_like(one.entropy)) for one in account]
    surrogate(calm, gains, torch.ones(n, 1)).backward()
    assert rows.grad is not None
    estimates = -rows.grad.view(n, -1)
    strays = (estimates - exact).norm(dim=1).square().mean().sqrt()
    error = (estimates.mean(dim=0) - exact).norm()
    return (error / exact.norm()).item(), (strays / exact.norm()).item()


def _learned(normaliser: Normaliser, steps: int) -> tuple[list[float], float]:
    """Find the key that a query is a blurred copy of, told only by the label that it carries."""
    score, usual = Score("general", d_query=_D, d_key=_D), Baseline()
    keys = torch.randn(_N_KEYS, _D)
    real = torch.ones(_BATCH, 1, dtype=torch.bool)

    def weights(wanted: Tensor, rule: Normaliser) -> Tensor:
        queries = keys[wanted] + 0.3 * torch.randn(len(wanted), _D)
        return rule(score(queries.view(-1, 1, 1, _D), keys.view(1, 1, -1, _D)), None)

    def loss() -> Tensor:
        wanted = torch.randint(_N_KEYS, (_BATCH,))
        listener = nn.ModuleList([normaliser] if isinstance(normaliser, nn.Module) else [])
        with accounts(listener) as drawn:
            labels = 5.0 * weights(wanted, normaliser)[:, 0, 0]  # every key carries its number
        value = F.cross_entropy(labels, wanted)
        gains = usual.gains(-F.cross_entropy(labels, wanted, reduction="none")[:, None], real)
        return value + sum(surrogate(one, gains, real) / _BATCH for one in drawn.values())

    losses = fit(score.parameters(), loss, steps=steps, lr=1e-2)
    wanted = torch.randint(_N_KEYS, (1000,))
    found = weights(wanted, softmax).argmax(dim=-1).flatten()
    return losses, (found == wanted).double().mean().item()


def _smooth(losses: list[float], n: int = 20) -> dict[float, float]:
    """Means of n neighbours, so that a curve can be read."""
    return {i + n / 2: sum(losses[i : i + n]) / n for i in range(0, len(losses) - n + 1, n)}
