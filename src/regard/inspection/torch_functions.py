"""Recognising attention among the functions of torch that a model calls.

``F.scaled_dot_product_attention`` and ``F.multi_head_attention_forward`` say what they are. Where
attention is written out, scores are followed from the product of two activations, through what is
done to them number by number, to a softmax, and its weights to the product with values.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from regard.inspection.torch_calls import multi_head_call, sdpa_call, written_out_call


@dataclass(frozen=True, slots=True)
class _Product:
    """Scores on their way to a softmax."""

    q: Tensor
    k: Tensor  # (…, S, D)
    scale: float
    dtype: torch.dtype
    n_sinks: int = 0
    """Scores without a key, behind the others."""


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Weights on their way to values."""

    product: _Product
    scaled: Tensor
    """What the softmax was given."""


class AttentionMode(TorchFunctionMode):
    """Sees the functions of torch that a model calls, and recognises attention among them."""

    def __init__(self, see: Callable[..., None]) -> None:
        super().__init__()
        self._see = see
        self._known: Any = WeakTensorKeyDictionary()
        """Scores and weights that are still alive -> how they came about."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        output = func(*args, **given)
        name = getattr(func, "__name__", "").strip("_")
        getattr(self, _SEEN.get(name, "_derived"))(name, output, *args, **given)
        return output

    def _sdpa(self, _name: str, _output: Tensor, *args: Any, **given: Any) -> None:
        self._see(sdpa_call(*args, **given))

    def _multi_head(self, _name: str, _output: Any, *args: Any, **given: Any) -> None:
        bound = inspect.signature(nn.functional.multi_head_attention_forward).bind(*args, **given)
        call = multi_head_call(**bound.arguments)
        self._see(call, bound.arguments["key"] is not bound.arguments["query"])

    def _matmul(self, _name: str, output: Tensor, *args: Any, **given: Any) -> None:
        a, b = (*args, *given.values())[:2]
        self._multiplied(output, a, b.mT if b.dim() > 2 else b)

    def _baddbmm(self, _name: str, output: Tensor, *args: Any, **given: Any) -> None:
        _, a, b = (_argument(i, one, args, given) for i, one in enumerate(_BADDBMM))
        self._multiplied(output, a, b.mT, given.get("alpha", 1.0))

    def _einsum(self, _name: str, output: Tensor, equation: Any, *operands: Any) -> None:
        """Products that einsum writes in one of many ways, brought into the order of matmul."""
        tensors = operands[0] if operands and isinstance(operands[0], list | tuple) else operands
        said = equation.replace(" ", "") if isinstance(equation, str) else ""
        sides = re.fullmatch(r"(\w+),(\w+)->(\w+)", said)
        if sides is None:
            return
        a, b, out = sides.groups()
        shared = [axis for axis in a if axis in b and axis not in out]
        own = [axis for axis in b if axis not in a]
        rows = [axis for axis in a if axis not in b]
        if not len(shared) == len(own) == len(rows) == 1 or len(set(a + b)) != len(out) + 1:
            return
        batch = [axis for axis in a if axis in b and axis in out]
        first = _ordered(tensors[0], a, [*batch, *rows, *shared])
        second = _ordered(tensors[1], b, [*batch, *own, *shared])
        known = self._of(tensors[0])
        if isinstance(known, _Weighed) or [*out] == [*batch, *rows, *own]:
            self._multiplied(output, tensors[0] if known else first, second)

    def _multiplied(self, output: Tensor, a: Tensor, b: Tensor, scale: float = 1.0) -> None:
        """a bᵀ: of weights and values it is the end of attention, of activations a beginning."""
        known = self._of(a)
        if isinstance(known, _Weighed):
            scores = known.product
            call = written_out_call(
                scores.q,
                scores.k,
                b.mT,
                scaled=known.scaled,
                scale=scores.scale,
                dtype=scores.dtype,
                n_sinks=scores.n_sinks,
            )
            self._see(call)
        elif a.dim() > 2 and b.dim() > 2:
            self._known[output] = _Product(a, b, float(scale), output.dtype)

    def _softmax(self, _name: str, output: Tensor, *args: Any, **given: Any) -> None:
        x, dim = _argument(0, "input", args, given), _argument(1, "dim", args, given)
        known = self._of(x)
        if isinstance(known, _Product) and dim in (-1, x.dim() - 1):
            self._known[output] = _Weighed(known, x)

    def _cat(self, _name: str, output: Tensor, *args: Any, **given: Any) -> None:
        """Scores with sinks behind them."""
        first = _argument(0, "tensors", args, given)[0]
        known, dim = self._of(first), _argument(1, "dim", args, given)
        if isinstance(known, _Product) and dim in (-1, output.dim() - 1):
            n_sinks = output.shape[-1] - first.shape[-1]
            self._known[output] = replace(known, n_sinks=known.n_sinks + n_sinks)

    def _getitem(self, name: str, output: Tensor, x: Tensor, at: Any) -> None:
        """Weights without those of their sinks, or any other part."""
        known = self._of(x)
        if isinstance(known, _Weighed) and output.shape == (
            *x.shape[:-1],
            x.shape[-1] - known.product.n_sinks,
        ):
            self._known[output] = known
        else:
            self._derived(name, output, x, at)

    def _derived(self, name: str, output: Any, *args: Any, **given: Any) -> None:
        """What is made of scores or weights, number by number, is scores or weights."""
        if not isinstance(output, Tensor) or output.dim() < 3:
            return
        for one in (*args, *given.values()):
            known = self._of(one)
            if (
                known is None
                or one.shape[-2:] != output.shape[-2:]
                or one.numel() != output.numel()
            ):
                continue
            if isinstance(known, _Product):
                known = replace(
                    known, scale=known.scale * _factor(name, one, (*args, *given.values()))
                )
            self._known[output] = known
            return

    def _of(self, x: Any) -> _Product | _Weighed | None:
        """How a tensor came about, if it is scores or weights."""
        found: _Product | _Weighed | None = self._known.get(x) if isinstance(x, Tensor) else None
        return found


_SEEN = {
    "scaled_dot_product_attention": "_sdpa",
    "multi_head_attention_forward": "_multi_head",
    "matmul": "_matmul",
    "bmm": "_matmul",
    "baddbmm": "_baddbmm",
    "einsum": "_einsum",
    "softmax": "_softmax",
    "cat": "_cat",
    "getitem": "_getitem",
}
"""Name of a function -> the method that reads its call."""
_BADDBMM = ("input", "batch1", "batch2")
_TIMES = ("mul", "imul", "rmul", "multiply")
_OVER = ("div", "truediv", "itruediv", "divide", "true_divide")


def _factor(name: str, scores: Tensor, args: Sequence[Any]) -> float:
    """The number that scores are multiplied by; 1 where they are not."""
    others = [one for one in args if one is not scores]
    if name not in (*_TIMES, *_OVER) or not others:
        return 1.0
    if isinstance(others[0], Tensor) and others[0].numel() > 1:
        return 1.0
    return float(others[0]) if name in _TIMES else 1 / float(others[0])


def _argument(i: int, name: str, args: Sequence[Any], given: Mapping[str, Any]) -> Any:
    """An argument of a call, by its position or its name; None where it was not given."""
    return args[i] if i < len(args) else given.get(name)


def _ordered(x: Tensor, axes: str, wanted: Sequence[str]) -> Tensor:
    return x.permute([axes.index(axis) for axis in wanted])
