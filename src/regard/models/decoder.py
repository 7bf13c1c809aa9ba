"""The decoder alone: a language model (Radford et al. 2018), from GPT-2 to LLaMA by its settings.

Pre-norm by default, with a norm at the end. Initialised as GPT-2: a normal of 0.02, and less for
what is added to the residual stream, the more layers there are.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.layers.blocks import DecoderBlock
from regard.layers.key_values import DecoderState, KeyValues
from regard.models.base import (
    LazyLogits,
    NoMemory,
    Output,
    Switching,
    input_embedding,
    last_norm,
    tied,
)
from regard.models.settings import DecoderConfig

STD = 0.02
"""Of the weights at the beginning."""


class LanguageModel(Switching):
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
        self.to_logits = (
            None if config.tied else nn.Linear(config.d_model, config.n_vocab, bias=False)
        )
        _initialise(self, n)

    def forward(
        self, source: Tensor, target: Tensor | None = None, *, lazy: bool = False
    ) -> Tensor | LazyLogits:
        """ids (B, T) -> logits (B, T, V): at each position those of the next token.

        ``regard.decoding`` hands over a source and a target, which are read as one text: the logits
        are those of the target.
        """
        ids = source if target is None else torch.cat((source, target), dim=1)
        states = self.states(ids)
        if target is not None:
            states = states[:, source.shape[1] :]
        return LazyLogits(states, *self.output()) if lazy else self.logits(states)

    def states(self, ids: Tensor) -> Tensor:
        """What the last layer reads, (B, T, D)."""
        return self._after(ids, self.start(NoMemory(len(ids))))[0]

    def output(self) -> Output:
        """The last layer, for who can do more with it than multiply."""
        if self.to_logits is None:
            return Output(tied(self.embedding.tokens, self.config.d_model), None)
        return Output(self.to_logits.weight, None)

    def logits(self, states: Tensor) -> Tensor:
        """(…, D) -> (…, V)"""
        return F.linear(states, *self.output())

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
        nothing = like.new_empty(memory.n_rows, config.kv_heads, 0, config.d_head)
        return DecoderState((KeyValues(nothing, nothing),) * config.n_layers)

    def step(
        self, ids: Tensor, memory: NoMemory, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        """Last ids (B,) -> logits (B, V) of the next, and the state that knows them."""
        return self.prefill(ids.unsqueeze(1), memory, state)

    def prefill(
        self, ids: Tensor, _memory: NoMemory, state: DecoderState
    ) -> tuple[Tensor, DecoderState]:
        """ids (B, T), T ≥ 1, after ``state`` -> logits (B, V) of the next, and the new state."""
        x, state = self._after(ids, state)
        return self.logits(x[:, -1]), state

    def _after(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        x = self.embedding(ids, state.length)
        present = []
        for layer, past in zip(self.layers, state.layers, strict=True):
            x, now = layer(x, past)
            present.append(now)
        return self.norm(x), DecoderState(tuple(present))


def _initialise(model: LanguageModel, n_layers: int) -> None:
    """Biases stay 0 and norms 1; each layer adds to the stream twice. Scores begin as they do."""
    added = STD / math.sqrt(2 * n_layers)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("to_out.weight", "outer.weight")):
                parameter.normal_(std=added)
            elif parameter.dim() == 2 and ".score." not in name and ".window." not in name:
                parameter.normal_(std=STD)
