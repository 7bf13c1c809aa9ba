"""What torch gives for translation with no attention at all: two GRUs."""

from __future__ import annotations

from torch import Tensor, nn


class PlainGRU(nn.Module):
    """Encoder GRU, its last state, decoder GRU."""

    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.source = nn.Embedding(vocab, width)
        self.target = nn.Embedding(vocab, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.to_logits = nn.Linear(width, vocab)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Source (B, S), target (B, T) -> logits (B, T, V); padding is read like any word."""
        _, last = self.encoder(self.source(source))
        out, _ = self.decoder(self.target(target), last)
        return self.to_logits(out)


def plain_gru(vocab: int, n_parameters: int) -> PlainGRU:
    """As wide, in steps of 8, as brings it nearest to so many parameters."""
    widths = range(8, 4096, 8)
    return PlainGRU(vocab, min(widths, key=lambda width: abs(_count(vocab, width) - n_parameters)))


def _count(vocab: int, width: int) -> int:
    """Three matrices of the vocabulary, a bias, and two GRUs of three gates."""
    return 3 * vocab * width + vocab + 2 * 3 * (2 * width * width + 2 * width)
