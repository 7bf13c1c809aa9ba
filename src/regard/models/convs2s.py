"""Convolutional sequence to sequence learning: ConvS2S (Gehring et al. 2017).

Words and learned positions, e, enter stacks of gated convolutions with residual connections; sums
are multiplied by √.5, so that variances stay. A decoder layer sees only the past, and every one of
them looks at the source:

    d_i = (W h_i + b + g_i) · √.5                   h of its own convolution, g the word it read
    a   = softmax(d · z)                            z the encoder's output
    c   = Σ a (z + e) · √.5 · m · √(1/m)            m words of the source
    h ← (W' c + b' + h) · √.5

The encoder's output gets its gradient from every decoder layer; it is multiplied by 1 / (2 · their
number) there, and that of e is not. Weights are normed, tables and positions excepted, and begin
so that variances stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Literal, cast

from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.functional import masks
from regard.functional.masks import Mask
from regard.functional.packing import PackedSide, Packing
from regard.layers.attention import MemoryAttention
from regard.layers.dropout import Dropout
from regard.layers.embeddings import InputEmbedding
from regard.layers.key_values import KeyValues, SourceMemory
from regard.layers.positions import LearnedPositions
from regard.layers.settings import Count
from regard.layers.text_convolutions import HALF, GatedConvolution, PastInputs, normed_linear
from regard.models.base import PackingModel
from regard.models.settings import SourceAttentionConfig, packs_plainly


class ConvS2SConfig(SourceAttentionConfig):
    """Stacks of gated convolutions."""

    family: Literal["convs2s"] = "convs2s"
    d_model: Count = Field(256, description="Width of the convolutions.")
    d_embedding: Count | None = Field(
        None, description="Width of words, queries and keys; left out, d_model."
    )
    n_layers: Count = Field(4, description="Layers of the encoder, below the top layers.")
    n_decoder_layers: Count = Field(3, description="Layers of the decoder, below the top layers.")
    kernel: Count = Field(3, description="Positions that a convolution sees.")
    top_layers: tuple[tuple[Count, Count], ...] = Field(
        (), description="Width and kernel of each further layer, the same above both stacks."
    )
    score: str = Field("dot", description="How queries are matched with keys.")
    window: str = Field("global", description="Which keys a query may see.")
    half_width: Count = Field(10, description="D of the local windows.")

    def problems(self) -> Iterator[str]:
        """Those of any attention to a source."""
        yield from super().problems()
        if self.window == "causal":
            yield "window 'causal': a target has no future in its source"
        if self.window == "compressed":
            yield "window 'compressed' joins keys of several heads, and this decoder has one"

    @property
    def packs(self) -> bool:
        """Kernels for packed texts take inner products, a softmax and no window."""
        return packs_plainly(self.score, self.normaliser, (self.window,))

    @property
    def packed_width(self) -> int:
        """Of the one head that a layer has."""
        return self.d_words

    @property
    def d_words(self) -> int:
        """Width of words, queries and keys, given or not."""
        return self.d_embedding or self.d_model

    @property
    def longest(self) -> int | None:
        """Learned positions end with their table."""
        return self.max_len

    def layers(self, n_layers: int) -> list[tuple[int, int, int]]:
        """Of a stack: what each layer reads and gives, as widths, and its kernel."""
        given = [(self.d_model, self.kernel)] * n_layers + list(self.top_layers)
        widths = [self.d_model, *(width for width, _ in given)]
        kernels = (kernel for _, kernel in given)
        return [(*both, kernel) for both, kernel in zip(pairwise(widths), kernels, strict=True)]


class ConvS2SEncoderLayer(nn.Module):
    """A gated convolution around each position, and the residual connection."""

    def __init__(self, d_in: int, d_out: int, kernel: int, config: ConvS2SConfig) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d_in, d_out, kernel, dropout=config.dropout)
        self.beside = nn.Identity() if d_in == d_out else normed_linear(d_in, d_out)

    def forward(self, x: Tensor, mask: Tensor, texts: Tensor | None) -> Tensor:
        """x (B, S, d_in), mask (B, S, 1), texts (S,) of a packed row -> (B, S, d_out)"""
        return (self.convolution.centred(x, mask, texts) + self.beside(x)) * HALF


class ConvS2SDecoderLayer(nn.Module):
    """A gated convolution of the past, attention to the source, and the residual connection."""

    def __init__(self, d_in: int, d_out: int, kernel: int, config: ConvS2SConfig) -> None:
        super().__init__()
        f = config.d_words
        self.convolution = GatedConvolution(d_in, d_out, kernel, dropout=config.dropout)
        self.to_query = normed_linear(d_out, f)
        self.cross_attention = MemoryAttention(f, f, **config.attention)
        self.from_context = normed_linear(f, d_out)
        self.beside = nn.Identity() if d_in == d_out else normed_linear(d_in, d_out)

    def forward(
        self,
        x: Tensor,
        words: Tensor,
        past: Tensor,
        source: KeyValues,
        mask: Mask,
        first: int,
        texts: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """x (B, T, d_in) of ``words`` (B, T, f), from position ``first`` on, after ``past``.

        Returns (B, T, d_out) and the new past. The mask (B, 1, 1, S) is the source's; of a packed
        row it is that of its texts, and ``texts`` (T,) says which position is of which.
        """
        h, past = self.convolution.causal(x, past, texts)
        asks = (self.to_query(h) + words) * HALF
        context = self.cross_attention.look(asks, source, mask=mask, first=first)
        h = (self.from_context(context) + h) * HALF
        return (h + self.beside(x)) * HALF, past


class ConvS2SEncoder(nn.Module):
    """Source ids to what is looked at, and to their embeddings."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        layers = config.layers(config.n_layers)
        self.embedding = _embedding(config, config.n_source_vocab)
        self.to_states = normed_linear(config.d_words, config.d_model, keep=1 - config.dropout)
        self.layers = nn.ModuleList(ConvS2SEncoderLayer(*layer, config) for layer in layers)
        self.to_memory = normed_linear(layers[-1][1], config.d_words)

    def forward(
        self, ids: Tensor, mask: Tensor, packed: PackedSide | None = None
    ) -> tuple[Tensor, Tensor]:
        """ids (B, S), mask (B, S, 1) -> z (B, S, f) and e (B, S, f)"""
        e = self.embedding(ids, 0 if packed is None else packed.positions)
        x, texts = self.to_states(e), None if packed is None else packed.texts
        for layer in self.layers:
            x = layer(x, mask, texts)
        return self.to_memory(x), e


class ConvS2SDecoder(nn.Module):
    """Target ids and memory to vectors."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        f, keep, layers = config.d_words, 1 - config.dropout, config.layers(config.n_decoder_layers)
        self.embedding = _embedding(config, config.n_target_vocab)
        self.to_states = normed_linear(f, config.d_model, keep=keep)
        self.layers = nn.ModuleList(ConvS2SDecoderLayer(*layer, config) for layer in layers)
        self.from_states = normed_linear(layers[-1][1], f)
        self.dropout = Dropout(config.dropout)
        self.to_logits = normed_linear(f, config.n_target_vocab, keep=keep)
        self.pasts = [(kernel - 1, d_in) for d_in, _, kernel in layers]

    def start(self, memory: SourceMemory) -> PastInputs:
        """Zeros before the first word."""
        k = memory.layers[0].k
        return PastInputs(tuple(k.new_zeros(k.shape[0], *past) for past in self.pasts))

    def project(self, z: Tensor, e: Tensor, n_words: Tensor) -> tuple[KeyValues, ...]:
        """What the encoder gave (B, S, f) -> each layer's keys and values of it.

        A mean of m vectors is shorter than they are, by √m where they are strangers; ``n_words``,
        (B, 1, 1) or (B, S, 1), is the m of their text.
        """
        z = scaled_gradient(z, 1 / (2 * len(self.layers)))
        values = (z + e) * HALF * n_words.to(z.dtype).sqrt()
        layers = cast("Iterable[Any]", self.layers)
        return tuple(layer.cross_attention.project(z, values) for layer in layers)

    def forward(
        self,
        ids: Tensor,
        memory: SourceMemory,
        state: PastInputs,
        packed: PackedSide | None = None,
    ) -> tuple[Tensor, PastInputs]:
        """ids (B, T) after ``state`` -> what words are read off (B, T, f), and the new state."""
        first, texts = state.length, None if packed is None else packed.texts
        words = self.embedding(ids, first if packed is None else packed.positions)
        x, pasts = self.to_states(words), []
        for layer, past, source in zip(self.layers, state.layers, memory.layers, strict=True):
            x, now = layer(x, words, past, source, memory.mask, first, texts)
            pasts.append(now)
        out = self.dropout(self.from_states(x))
        return out, PastInputs(tuple(pasts), state.length + ids.shape[1])


class ConvS2S(PackingModel):
    """Speaks the protocol of ``regard.decoding``: forward, encode, start, step."""

    def __init__(self, config: ConvS2SConfig) -> None:
        super().__init__()
        self.config: ConvS2SConfig = config
        self.encoder = ConvS2SEncoder(config)
        self.decoder: ConvS2SDecoder = ConvS2SDecoder(config)

    @override
    def encode(self, source: Tensor) -> SourceMemory:
        mask = masks.padding(source, pad=self.config.pad_id)
        real = mask[:, 0, 0].unsqueeze(-1)
        z, e = self.encoder(source, real)
        n_words = real.sum(dim=1, keepdim=True)
        return SourceMemory(self.decoder.project(z, e, n_words), mask)

    @override
    def packed_states(self, source: Tensor, target: Tensor, packing: Packing) -> Tensor:
        texts, bounds = packing.source.texts, packing.source.bounds
        z, e = self.encoder(source, (texts >= 0)[None, :, None], packing.source)
        n_words = bounds.diff()[texts.clamp(min=0)][None, :, None]
        memory = SourceMemory(self.decoder.project(z, e, n_words), packing.across())
        return self.decoder(target, memory, self.start(memory), packing.target)[0]

    @override
    def start(self, memory: SourceMemory) -> PastInputs:
        return self.decoder.start(memory)


def scaled_gradient(x: Tensor, share: float) -> Tensor:
    """x itself, to which only a share of its gradient comes back."""
    return x.detach() + (x - x.detach()) * share


def _embedding(config: ConvS2SConfig, n_vocab: int) -> InputEmbedding:
    """Words and learned positions, both beginning as N(0, .1), added."""
    f, n = config.d_words, config.max_len
    positions = LearnedPositions(f, join="add", max_len=n, d_code=f)
    tokens = nn.Embedding(n_vocab, f)
    for table in (tokens.weight, positions.table):
        nn.init.normal_(table, std=0.1)
    return InputEmbedding(tokens, positions, dropout=config.dropout)
