"""What forms of a Transformer that write in place have in common."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.models.joining import further_codes, place_codes


class Parts(Protocol):
    """What a Transformer consists of, and does."""

    config: Any
    encoder: Any
    decoder: Any
    __call__: Callable[..., Any]
    encode: Callable[..., Any]
    start: Callable[..., Any]
    step: Callable[..., Any]


class Form:
    """A Transformer's weights in other places, speaking the protocol of ``regard.decoding``.

    Searches that cannot write in place are served by the model itself.
    """

    def __init__(self, model: Parts, dtype: torch.dtype) -> None:
        self.model = model
        self.encode, self.start, self.step = model.encode, model.start, model.step
        self.dtype = dtype
        self.device: torch.device = model.decoder.embedding.tokens.weight.device
        self.pad_id: int = model.config.pad_id
        self.longest: int | None = model.config.longest
        self.n_vocab: int = model.config.n_target_vocab
        self.codes = place_codes(model.decoder, model.config.max_len).to(dtype, copy=True)
        self.lock = Lock()
        self.kept: dict[object, Any] = {}
        """What searches keep here for the next time."""

    def __call__(self, source: Tensor, target: Tensor) -> Tensor:
        """All positions at once are the model's own work."""
        return self.model(source, target)

    def codes_for(self, n: int) -> Tensor:
        """What is added to tokens at n places at least; a learned table has no more than it has."""
        if n <= len(self.codes) or self.longest is not None:
            return self.codes
        return further_codes(self.codes, n)
