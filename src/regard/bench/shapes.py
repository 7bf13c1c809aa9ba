"""``regard bench train --shape``: models of texts and of pictures by the names they go by."""

from __future__ import annotations

from regard.bench.contest import BenchRequest
from regard.bench.picture_training import PICTURES
from regard.bench.results import Bench
from regard.bench.shape_training import ShapeBench, train_shape
from regard.bench.text_training import TEXTS
from regard.core.registry import Registry

SHAPES: Registry[ShapeBench] = Registry("shape")
for _name, _bench in {**TEXTS, **PICTURES}.items():
    SHAPES.add(_name)(_bench)


def shape_train_bench(
    asked: BenchRequest, name: str, *, vocab: int | None = None, batch_tokens: int | None = None
) -> Bench:
    """Everybody on the same batches of a shape."""
    return train_shape(asked, name, SHAPES[name], vocab=vocab, batch_tokens=batch_tokens)
