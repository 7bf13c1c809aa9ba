"""The work of decoding, and our own way with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.bench.contest import Work
from regard.bench.matmul import DTYPES
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.fast.quick import quickened
from regard.models.base import SequenceModel
from regard.models.presets import build, n_parameters
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.specials import END_ID, SPECIALS


@dataclass(frozen=True, slots=True)
class Writing:
    """``batch`` sources of ``n_source`` tokens, for each of which ``n_new`` tokens are written."""

    batch: int
    n_source: int
    n_new: int
    beam: int
    device: torch.device

    @property
    def search(self) -> str:
        """Its name."""
        return "greedy" if self.beam == 1 else f"beam {self.beam}"

    @property
    def n_written(self) -> int:
        """Tokens of a run, of the best hypotheses only."""
        return self.batch * self.n_new

    def ids(self, vocab: int) -> list[list[int]]:
        """Sources without special ids, the same for everybody."""
        rng = torch.Generator().manual_seed(0)
        size = (self.batch, self.n_source)
        return torch.randint(len(SPECIALS), vocab, size, generator=rng).tolist()

    def source(self, vocab: int) -> Tensor:
        """(B, n_source + 1): with the end token."""
        rows = [[*ids, END_ID] for ids in self.ids(vocab)]
        return torch.tensor(rows, device=self.device)

    def checked(self, lengths: list[int]) -> float:
        """What was written, if it is as much as was asked for."""
        if lengths != [self.n_new] * self.batch:
            raise AssertionError(f"{self.n_new} tokens a sentence were to be written: {lengths}")
        return float(self.n_written)


def our_decoding(config: TransformerConfig, writing: Writing, precision: str) -> Work:
    """Our searches on a model that never ends a sentence."""
    torch.manual_seed(0)
    model = endless(build(config)).to(writing.device, DTYPES[precision]).eval()
    written_by = quickened(model)  # laid out once, as a run keeps it
    source = writing.source(config.n_source_vocab)
    limits = torch.full((writing.batch,), writing.n_new, device=writing.device)

    def run() -> float:
        if writing.beam == 1:
            found = greedy(written_by, source, limits=limits)
        else:
            found = [best for (best,) in beam_search(
                written_by, source, limits=limits, n_beams=writing.beam
            )]  # fmt: skip
        return writing.checked([len(one.ids) for one in found])

    return Work(run, n_parameters(model))


def endless(model: SequenceModel) -> SequenceModel:
    """The same model with a zero row for the end token: some of so many logits are above 0."""
    assert isinstance(model, Transformer)
    with torch.no_grad():
        model.decoder.embedding.tokens.weight[END_ID] = 0.0
    return model
