"""The work of decoding, translations or texts after a prompt, and our own way with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.bench.contest import Work
from regard.bench.measures import DTYPES
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.fast.quick import quickened
from regard.models.base import SequenceModel
from regard.models.decoder import LanguageModel
from regard.models.presets import build, n_parameters
from regard.models.settings import TransformerConfig
from regard.models.transformer import Transformer
from regard.tasks.generation import GenerationConfig, generate
from regard.text.specials import END_ID, SPECIALS


@dataclass(frozen=True, slots=True)
class DecodingWork:
    """``batch`` inputs of ``n_read`` tokens, for each of which ``n_new`` tokens are written."""

    batch: int
    n_read: int
    """Of a prompt, or of a source, its end token not counted."""
    n_new: int
    beam: int
    device: torch.device

    @property
    def search(self) -> str:
        """Its name."""
        return "greedy" if self.beam == 1 else f"beam {self.beam}"

    def ids(self, vocab: int, first: int = len(SPECIALS)) -> list[list[int]]:
        """Random ids from ``first`` on, by default no special ones; the same for everybody."""
        rng = torch.Generator().manual_seed(0)
        return torch.randint(first, vocab, (self.batch, self.n_read), generator=rng).tolist()

    def source(self, vocab: int) -> Tensor:
        """(B, n_read + 1): with the end token."""
        return torch.tensor([[*ids, END_ID] for ids in self.ids(vocab)], device=self.device)

    def prompts(self, vocab: int) -> Tensor:
        """(B, n_read)"""
        return torch.tensor(self.ids(vocab, 0), device=self.device)

    def checked(self, lengths: list[int]) -> float:
        """Tokens that were written, if they are as many as were asked for."""
        if lengths != [self.n_new] * self.batch:
            raise AssertionError(f"{self.n_new} tokens a text were to be written: {lengths}")
        return float(self.batch * self.n_new)


def our_decoding(config: TransformerConfig, writing: DecodingWork, precision: str) -> Work:
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
            beams = beam_search(written_by, source, limits=limits, n_beams=writing.beam)
            found = [best for (best,) in beams]
        return writing.checked([len(one.ids) for one in found])

    return Work(run, n_parameters(model))


def endless(model: SequenceModel) -> SequenceModel:
    """The same model with a zero row for the end token: some of so many logits are above 0."""
    assert isinstance(model, Transformer)
    with torch.no_grad():
        model.decoder.embedding.tokens.weight[END_ID] = 0.0
    return model


def our_writing(model: LanguageModel, writing: DecodingWork, precision: str) -> Work:
    """Greedy; no token ends a text."""
    prompts = writing.ids(model.config.n_vocab, 0)
    config, rng = GenerationConfig(max_new=writing.n_new, temperature=0.0), torch.Generator()
    quick = quickened(model, DTYPES[precision])  # laid out once, as a run keeps it

    def run() -> float:
        found = generate(quick, prompts, config, rng=rng, device=writing.device)
        return writing.checked([len(one.ids) for (one,) in found])

    return Work(run, n_parameters(model))
