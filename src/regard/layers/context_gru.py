"""The GRU of Bahdanau et al. 2015, with the context inside all three of its parts."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ContextGRU(nn.Module):
    """One step of a decoder that reads a word y and a context c.

        z = σ(W_z y + U_z s + C_z c)
        r = σ(W_r y + U_r s + C_r c)
        s̃ = tanh(W y + U (r ∘ s) + C c)
        s' = (1 - z) ∘ s + z ∘ s̃

    What depends on the words alone is computed for all of them at once (``read``). So is what
    depends on the memory alone (``remember``): since c = Σ α_j h_j, C c = Σ α_j C h_j, and
    attention may weigh the C h_j.
    """

    def __init__(self, d_word: int, d_hidden: int, d_context: int) -> None:
        super().__init__()
        self.words = nn.Linear(d_word, 3 * d_hidden)
        self.context = nn.Linear(d_context, 3 * d_hidden, bias=False)
        self.gates = nn.Linear(d_hidden, 2 * d_hidden, bias=False)
        self.candidate = nn.Linear(d_hidden, d_hidden, bias=False)

    def read(self, words: Tensor) -> Tensor:
        """Words (B, T, d_word) -> their part (B, T, 3D) of every step."""
        return self.words(words)

    def remember(self, memory: Tensor) -> Tensor:
        """Memory (B, S, d_context) -> its part (B, S, 3D), to be weighed at every step."""
        return self.context(memory)

    def forward(self, read: Tensor, remembered: Tensor, s: Tensor) -> Tensor:
        """A word's part (B, 3D), its context's part (B, 3D) and s (B, D) -> the new s (B, D)."""
        for_z, for_r, for_new = (read + remembered).chunk(3, dim=-1)
        of_z, of_r = self.gates(s).chunk(2, dim=-1)
        z, r = (for_z + of_z).sigmoid(), (for_r + of_r).sigmoid()
        new = torch.tanh(for_new + self.candidate(r * s))
        return (1 - z) * s + z * new
