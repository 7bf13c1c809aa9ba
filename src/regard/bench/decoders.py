"""Who decodes, translations or texts after a prompt: we, ``transformers`` and CTranslate2.

CTranslate2 is made for sentences that end; one that is cut off by a limit costs our engine a second
search, which in use is rare. So its models have to end by themselves, and all at the same place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from regard.bench.contest import Work
from regard.bench.measures import DTYPES
from regard.bench.training_peers import marian_model
from regard.bench.updates import learned
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.decoding.settings import DecodeSettings
from regard.fast.quick import quickened
from regard.interop import gpt2
from regard.interop.ctranslate2 import write_ctranslate2
from regard.interop.ctranslate2_engine import CTranslate2Engine, TokenTranslator
from regard.interop.gpt2 import write_gpt2
from regard.interop.llama import write_llama
from regard.models.decoder import LanguageModel
from regard.models.presets import build, n_parameters
from regard.models.settings import TransformerConfig
from regard.models.transformer import Transformer
from regard.tasks.generation import GenerationConfig, generate
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, SPECIALS

FAINT = 0.1
"""Of what a sub-layer adds: random layers in full strength make all states alike."""
LOUD = 1000.0
"""Norm of the place at which it ends: far above that of any token."""
SURE = 60.0
"""Logit of the end token there. A token repeats itself by √D, which is 23 for the base; so four
beams are less than that apart, and all of them end rather than go on."""
SAID = len(SPECIALS)
"""The token that it says all the time."""
SAMPLE = 4

TYPES = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
ROOM = 2
"""The limit is so many times what is written: as in use, sentences end before it."""


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

    @property
    def n_tokens(self) -> int:
        """Tokens of a batch that holds all sources, for all beams."""
        return self.batch * (self.n_read + 1) * self.beam

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
    model = build(config)
    assert isinstance(model, Transformer)
    with torch.no_grad():  # a zero row for the end token: some of so many logits are above 0
        model.decoder.embedding.tokens.weight[END_ID] = 0.0
    model = model.to(writing.device, DTYPES[precision]).eval()
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


def our_writing(model: LanguageModel, writing: DecodingWork, precision: str) -> Work:
    """Greedy; no token ends a text."""
    prompts = writing.ids(model.config.n_vocab, 0)
    config, rng = GenerationConfig(max_new=writing.n_new, temperature=0.0), torch.Generator()
    quick = quickened(model, DTYPES[precision])  # laid out once, as a run keeps it

    def run() -> float:
        found = generate(quick, prompts, config, rng=rng, device=writing.device)
        return writing.checked([len(one.ids) for (one,) in found])

    return Work(run, n_parameters(model))


def hf_decoding(config: TransformerConfig, writing: DecodingWork, precision: str) -> Work:
    """A MarianMT model of the same shape."""
    torch.manual_seed(0)
    source = writing.source(config.n_source_vocab)
    return _generate(marian_model(config), source, writing, precision, n_before=1)


def hf_writing(model: LanguageModel, writing: DecodingWork, precision: str) -> Work:
    """The same weights, as a GPT-2 or a LLaMA."""
    prompts = writing.prompts(model.config.n_vocab)
    return _generate(hf_model(model), prompts, writing, precision, n_before=writing.n_read)


def _generate(
    model: Any, ids: Tensor, writing: DecodingWork, precision: str, *, n_before: int
) -> Work:
    """Without an end token, so that neither a check nor a mask is needed to go on to the limit.

    ``n_before`` tokens of what comes back were there before.
    """
    model = model.to(writing.device, DTYPES[precision]).eval()
    model.generation_config.eos_token_id = None
    asked = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "max_new_tokens": writing.n_new,
        "num_beams": writing.beam,
        "do_sample": False,
        "use_cache": True,
    }

    def run() -> float:
        with torch.inference_mode():
            written = model.generate(**asked)
        rows = written.tolist()  # texts are wanted on the host
        return writing.checked([len(row) - n_before for row in rows])

    return Work(run, learned(model))


def hf_model(model: LanguageModel) -> Any:
    """Our model as theirs: a GPT-2 or a LLaMA."""
    from transformers import AutoModelForCausalLM, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    weights = {name: part.detach().cpu() for name, part in model.named_parameters()}
    write = write_llama if gpt2.refusal(model.config) else write_gpt2
    with TemporaryDirectory(prefix="regard-bench-") as folder:
        write(model.config, weights, Path(folder))
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def ending_model(config: TransformerConfig, n_new: int) -> Transformer:
    """It writes ``n_new`` tokens, whatever the source; the last of them is the end token.

    Positions are learned. The first says a token, which then repeats itself. The one at which the
    last token is written shouts down whatever stands there, and the row of the end token is what
    then comes out, less what comes out before.
    """
    model = build(config.model_copy(update={"positions": "learned"})).eval()
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("to_out.weight", "outer.weight")):
                weight.mul_(FAINT)
        tokens = model.decoder.embedding.tokens.weight
        tokens[[PAD_ID, BEGIN_ID]] = 0.0  # else begin, like any token, would repeat itself
        places = model.get_parameter("decoder.embedding.positions.table")
        places[0] = tokens[SAID] * config.d_model**0.5
        places[n_new - 1] *= LOUD / places[n_new - 1].norm()
        before, last = _states(model, n_new)[[0, -1]]
        end = last - before * (last @ before) / before.square().sum()
        tokens[END_ID] = SURE * end / (end @ last)
    return model


def _states(model: Transformer, n_new: int) -> Tensor:
    """What the output matrix is multiplied with (n_new, D): read back from the logits."""
    tokens = model.decoder.embedding.tokens.weight
    source = torch.randint(len(SPECIALS), len(tokens), (SAMPLE, n_new))
    target = torch.full_like(source, SAID)
    target[:, 0] = BEGIN_ID
    logits = model(source, target).mean(dim=0)  # (n_new, V)
    return torch.linalg.lstsq(tokens, logits.T).solution.T


def engine_decoding(config: TransformerConfig, writing: DecodingWork, precision: str) -> Work:
    """CTranslate2 through us: ids in, hypotheses out."""
    model, translator = _load(config, writing, precision)
    engine = CTranslate2Engine(translator, model, writing.device)
    sources = writing.ids(config.n_source_vocab)
    settings = DecodeSettings(beam=writing.beam, max_len=ROOM * writing.n_new)

    def run() -> float:
        found = engine(sources, settings, batch_tokens=writing.n_tokens)
        return writing.checked([len(best.ids) + best.finished for best, *_ in found])

    return Work(run, n_parameters(model))


def direct_decoding(config: TransformerConfig, writing: DecodingWork, precision: str) -> Work:
    """CTranslate2 without us: tokens in, tokens out, with the options that give the same search."""
    model, translator = _load(config, writing, precision)
    tokens = _tokens(config.n_source_vocab)
    sources = [[tokens[i] for i in ids] for ids in writing.ids(config.n_source_vocab)]
    asked = {
        "beam_size": writing.beam,
        "length_penalty": DecodeSettings().length_penalty if writing.beam > 1 else 0.0,
        "max_batch_size": writing.n_tokens,
        "batch_type": "tokens",
        "max_decoding_length": ROOM * writing.n_new,
        "return_scores": True,
        "return_end_token": True,
    }

    def run() -> float:
        found = translator.inner.translate_batch(sources, **asked)
        return writing.checked([len(one.hypotheses[0]) for one in found])

    return Work(run, n_parameters(model))


def _load(
    config: TransformerConfig, writing: DecodingWork, precision: str
) -> tuple[Transformer, TokenTranslator]:
    """A model that ends where it should, and CTranslate2's translator of it."""
    torch.manual_seed(0)
    model = ending_model(config, writing.n_new)
    tokens = _tokens(config.n_source_vocab)
    with TemporaryDirectory() as folder:
        write_ctranslate2(model, Path(folder), source_tokens=tokens, target_tokens=tokens)
        return model, TokenTranslator.load(Path(folder), writing.device, TYPES[precision])


def _tokens(vocab: int) -> list[str]:
    return [*SPECIALS, *(f"token{i}" for i in range(len(SPECIALS), vocab))]
