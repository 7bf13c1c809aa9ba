"""Deep LSTM translators with residual connections: GNMT (Wu et al. 2016), and with experts.

The encoder's lowest layer reads both ways; those above it read forwards. From the third layer up
the output of a layer is added to its input, x^i = m^i + x^{i-1}, on both sides. The decoder's
lowest layer asks, by its state of the step before, and what it finds goes into every layer of the
step: the loop over steps is that of one layer, and all others read all steps in one call.

Decoder layers begin with the last states of the encoder layers of their number, the lowest with a
projection of those of its two directions.

With ``experts`` a layer of them stands before the last layer of both stacks, x + σ(MoE(x)), as in
the translators of Shazeer et al. 2017: three layers and two, states projected from a wider memory,
residual connections around all layers. Their gates were strictly balanced in a batch; here they
are balanced by losses, as those of their language models, so that a token's way depends on no
other token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.functional import masks
from regard.kernels.call import may_ask, may_fuse
from regard.layers.attention import MemoryAttention
from regard.layers.attentive_cell import unroll_attending
from regard.layers.context_cells import ContextLSTM
from regard.layers.dropout import Dropout
from regard.layers.embeddings import readout, word_table
from regard.layers.experts import Experts
from regard.layers.key_values import KeyValues
from regard.layers.recurrence import BothWays, CellState, Recurrence, begin_orthogonal
from regard.layers.settings import Count, ExpertSettings
from regard.models.base import SequenceModel
from regard.models.recurrent import RecurrentMemory, RecurrentState
from regard.models.settings import RecurrentWordsConfig


class ResidualRecurrentConfig(RecurrentWordsConfig, ExpertSettings):
    """Stacks of LSTMs with residual connections."""

    family: Literal["residual_recurrent"] = "residual_recurrent"
    score: str = Field("additive", description="How queries are matched with keys.")
    n_layers: Count = Field(8, description="Layers of the encoder; the lowest reads both ways.")
    n_decoder_layers: Count = Field(8, description="Layers of the decoder.")
    residual_from: Count = Field(
        3,
        description="The lowest layer, counted from 1, whose output is added to its input; below 3 "
        "each direction of the lowest encoder layer is half as wide.",
    )
    d_cell: Count | None = Field(
        None,
        description="Width of the memory c, projected to d_model for a state; left out, they are "
        "equal, and there is no projection.",
    )

    def problems(self) -> Iterator[str]:
        """Halves that are none, and experts without a place or a width."""
        yield from super().problems()
        yield from self.expert_problems()
        if self.experts is not None and self.d_expert is None:
            yield f"experts={self.experts} need their inner width: give d_expert"
        if self.experts is not None and min(self.n_layers, self.n_decoder_layers) < 2:
            yield "experts stand before a last layer: both stacks must have 2 layers or more"
        if self.halved and (self.d_model % 2 or (self.d_cell or 0) % 2):
            yield (
                f"residual_from={self.residual_from} halves d_model={self.d_model} and "
                f"d_cell={self.d_cell} between two directions: choose even ones"
            )

    @property
    def idle(self) -> tuple[str, ...]:
        """What is of experts, where there are none."""
        return self.idle_expert_settings

    @property
    def records(self) -> bool:
        """With experts only of widths that one kernel takes for all of them."""
        from regard.kernels.grouped import are_aligned  # needs torch, which reading this does not

        widths = () if self.experts is None else (self.d_model, self.d_expert or 0)
        return super().records and are_aligned(widths)

    @property
    def halved(self) -> bool:
        """Whether the two directions of the lowest encoder layer share the width."""
        return self.residual_from < 3

    @property
    def widths(self) -> tuple[int, int | None]:
        """Width of the memory c, and of what it is projected to, if it is."""
        return (self.d_model, None) if self.d_cell is None else (self.d_cell, self.d_model)

    @property
    def d_memory(self) -> int:
        """Width of the encoder's states."""
        return self.d_model * (2 if self.n_layers == 1 and not self.halved else 1)


class ResidualStack(nn.Module):
    """Layers 2 to n, each a recurrence over all steps in one call; experts before the last."""

    def __init__(
        self, config: ResidualRecurrentConfig, widths: Sequence[int], d_context: int = 0
    ) -> None:
        """``widths`` are those of what layers read of the one below, beside a context."""
        super().__init__()
        d_cell, d_out = config.widths
        self.residual_from = config.residual_from
        self.dropout = Dropout(config.dropout)
        layers = [Recurrence("lstm", width + d_context, d_cell, d_out=d_out) for width in widths]
        for layer in layers if d_out is None else ():
            begin_orthogonal(layer)
        self.layers = nn.ModuleList(layers)
        self.experts: Experts | None = None
        if config.experts is not None and config.d_expert is not None:
            self.experts = Experts(
                widths[-1],
                config.d_expert,
                n_experts=config.experts,
                top_k=config.top_k,
                balance=config.balance,
            )

    def added(self, number: int, x: Tensor, y: Tensor) -> Tensor:
        """What layer ``number`` read and what it made of it -> what the next one reads."""
        y = self.dropout(y)
        return x + y if number >= self.residual_from else y

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        *,
        real: Tensor,
        context: Tensor | None = None,
        state: CellState | None = None,
    ) -> tuple[Tensor, list[CellState]]:
        """x (B, T, D) after ``state`` -> (B, T, D) and the layers' new states.

        ``mask`` and ``lengths`` are those of ``Recurrence``; ``real`` (B, T) says which tokens may
        be sent to experts. A ``context`` (B, T, d_memory) is read by every layer beside x.
        """
        after = []
        for i, layer in enumerate(self.layers):
            if self.experts is not None and i == len(self.layers) - 1:
                x = x + self.dropout(self.experts(x, real).sigmoid())
            read = x if context is None else torch.cat((x, context), dim=-1)
            before = None if state is None else state.layers(i, i + 1)
            y, now = layer(read, mask, before, lengths)
            x = self.added(i + 2, x, y)
            after.append(now)
        return x, after


class ResidualEncoder(nn.Module):
    """Source ids to states."""

    def __init__(self, config: ResidualRecurrentConfig) -> None:
        super().__init__()
        d, (d_cell, d_out), part = config.d_model, config.widths, 2 if config.halved else 1
        way = None if d_out is None else d_out // part
        self.tokens = nn.Embedding(config.n_source_vocab, d)
        self.dropout = Dropout(config.dropout)
        self.both_ways = Recurrence("lstm", d, d_cell // part, bidirectional=True, d_out=way)
        if d_out is None:
            begin_orthogonal(self.both_ways)
        widths = [2 * d // part, *[d] * config.n_layers]
        self.above = ResidualStack(config, widths[: config.n_layers - 1])
        self.begin = BothWays(d // part, d_cell // part, d_out=d, d_memory=d_cell)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, CellState]:
        """ids (B, S), mask (B, S) -> states (B, S, d_memory), and the last ones of all layers."""
        lengths = mask.sum(dim=1).cpu() if may_fuse() and may_ask() else None
        words = self.dropout(self.tokens(ids))
        y, last = self.both_ways(words, mask, None, lengths)
        states, ends = self.above(self.above.added(1, words, y), mask, lengths, real=mask)
        return states, self.begin(last).followed_by(*ends)


class ResidualDecoder(nn.Module):
    """The lowest layer looks at the source step by step; those above read all steps at once."""

    def __init__(self, config: ResidualRecurrentConfig) -> None:
        super().__init__()
        d, (d_cell, d_out) = config.d_model, config.widths
        self.tokens = word_table(config.n_target_vocab, d, tied=config.tied_output)
        self.dropout = Dropout(config.dropout)
        self.cross_attention = MemoryAttention(d, config.d_memory, **config.attention)
        self.cell = ContextLSTM(d, d_cell, config.d_memory, d_out=d_out)
        widths = [d] * (config.n_decoder_layers - 1)
        self.above = ResidualStack(config, widths, config.d_memory)
        _, self.to_logits = readout(d, self.tokens, tied=config.tied_output)
        self.n_layers, self.pad_id = config.n_decoder_layers, config.pad_id

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """The encoder's last states; layers beyond its number begin with zeros."""
        h, c = memory.last.h, memory.last.c
        assert c is not None, "an LSTM has one"
        n = self.n_layers - h.shape[1]
        h, c = (F.pad(x, (0, 0, 0, n))[:, : self.n_layers] for x in (h, c))
        return RecurrentState(CellState(h, c), torch.zeros_like(h[:, 0]))

    def remember(self, states: Tensor) -> KeyValues:
        """The encoder's states (B, S, d_memory) as keys and, for the values, what the lowest cell
        makes of them beside them themselves, which the layers above read.
        """
        values = torch.cat((self.cell.context(states), states), dim=-1)
        return self.cross_attention.project(states, values)

    def forward(
        self, ids: Tensor, memory: RecurrentMemory, state: RecurrentState
    ) -> tuple[Tensor, RecurrentState]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, D), and the new state."""
        assert memory.keys_values is not None, "there is always a score"
        words = self.dropout(self.tokens(ids))
        read = self.cell.words(words)
        steps = unroll_attending(
            self.cross_attention,
            self.cell,
            read,
            memory.keys_values,
            memory.mask,
            state.cell.layers(0, 1),
            first=state.length,
        )
        context = steps.contexts[..., read.shape[-1] :]
        x = self.above.added(1, words, steps.after)
        above = state.cell.layers(1, self.n_layers)
        x, after = self.above(x, real=ids != self.pad_id, context=context, state=above)
        cells = steps.last.followed_by(*after)
        return x, RecurrentState(cells, state.fed, state.length + ids.shape[1])


class ResidualTranslator(SequenceModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: ResidualRecurrentConfig) -> None:
        super().__init__()
        self.config: ResidualRecurrentConfig = config
        self.encoder = ResidualEncoder(config)
        self.decoder: ResidualDecoder = ResidualDecoder(config)

    @override
    def encode(self, source: Tensor) -> RecurrentMemory:
        mask = masks.padding(source, pad=self.config.pad_id)
        states, last = self.encoder(source, mask[:, 0, 0])
        return RecurrentMemory(self.decoder.remember(states), mask, last)

    @override
    def start(self, memory: RecurrentMemory) -> RecurrentState:
        return self.decoder.start(memory)
