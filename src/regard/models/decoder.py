"""The decoder alone: a language model (Radford et al. 2018), from GPT-2 to LLaMA by its settings.

Pre-norm by default, with a norm at the end. Initialised as GPT-2: a normal of 0.02, and less for
what is added to the residual stream, the more layers there are.
"""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.core.errors import ShapeError
from regard.kernels.call import product_type
from regard.layers.blocks import DecoderBlock
from regard.layers.key_values import DecoderState, KeyValues
from regard.models.base import (
    GenerativeModel,
    LazyLogits,
    NoMemory,
    Output,
    input_embedding,
    last_norm,
    tied,
)
from regard.models.settings import DecoderConfig

STD = 0.02
"""Of the weights at the beginning."""
_KEPT = re.compile(r"\.(score|window|gate)\.|\.bias$")
"""Parameters that begin as their layers make them."""


class LanguageModel(GenerativeModel):
    """A token after the other: what comes next, given all before it.

    A text begins at position 0 and may end with padding, which nobody before it can see.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        n = config.n_layers
        self.config = config
        tokens = nn.Embedding(config.n_vocab, config.d_tokens)
        self.embedding = input_embedding(config, tokens)
        self.layers = nn.ModuleList(DecoderBlock(config, layer=i, n_layers=n) for i in range(n))
        self.norm = last_norm(config)
        output = None if config.tied else nn.Linear(config.d_model, config.n_vocab, bias=False)
        self.to_logits = output
        self._initialise()

    def forward(
        self, source: Tensor, target: Tensor | None = None, *, lazy: bool = False
    ) -> Tensor | LazyLogits:
        """ids (B, T) -> logits (B, T, V): at each position those of the next token.

        A source and a target are read as one text, of which the logits are the target's.
        """
        ids = source if target is None else torch.cat((source, target), dim=1)
        states = self.states(ids)
        if target is not None:
            states = states[:, source.shape[1] :]
        return LazyLogits(states, *self.output()) if lazy else self.logits(states)

    def states(self, ids: Tensor) -> Tensor:
        """What the last layer reads, (B, T, D)."""
        memory = NoMemory(len(ids))
        return self.read(ids, memory, self.start(memory))[0]

    @override
    def output(self) -> Output:
        if self.to_logits is None:
            return Output(tied(self.embedding.tokens, self.config.d_model), None)
        return Output(self.to_logits.weight, None)

    def encode(self, source: Tensor) -> NoMemory:
        """There is no source to look at: (B, 0)."""
        if source.shape[1]:
            raise ShapeError(
                f"a language model has no source, but this one has {source.shape[1]} tokens; hand "
                "them over as the prompt"
            )
        return NoMemory(len(source))

    def start(self, memory: NoMemory) -> DecoderState:
        """Nothing is read yet."""
        config, like = self.config, self.embedding.tokens.weight
        nothing = like.new_empty(memory.n_rows, config.kv_heads, 0, config.head_width)
        return DecoderState((KeyValues(nothing, nothing),) * config.n_layers)

    @override
    def read(
        self, ids: Tensor, memory: NoMemory, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        x = self.embedding(ids, state.length)
        if self.training:  # the stream in bf16 where products are: it is read and written most
            x = x.to(product_type(x))
        real, present = ids != self.config.pad_id, []
        for layer, past in zip(self.layers, state.layers, strict=True):
            x, now = layer(x, past, real=real)
            present.append(now)
        return self.norm(x), DecoderState(tuple(present))

    @torch.no_grad()
    def _initialise(self) -> None:
        """Biases stay 0, norms 1, ``_KEPT`` as they are; each layer adds to the stream twice."""
        added = STD / math.sqrt(2 * self.config.n_layers)
        for name, parameter in self.named_parameters():
            if name.endswith(("to_out.weight", "outer.weight")):
                parameter.normal_(std=added)
            elif parameter.dim() > 1 and not _KEPT.search(name):
                parameter.normal_(std=STD)
