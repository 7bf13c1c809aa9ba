"""CTranslate2, called directly and through our engine, on one exported model."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from regard.bench.contest import Work
from regard.bench.peers.ending import ending_model
from regard.bench.writing import Writing
from regard.decoding.settings import DecodeSettings
from regard.interop.ctranslate2 import write_ctranslate2
from regard.interop.ctranslate2_engine import CTranslate2Engine, TokenTranslator
from regard.models.presets import n_parameters
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.specials import SPECIALS

TYPES = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
ROOM = 2
"""The limit is so many times what is written: as in use, sentences end before it."""


def engine_decoding(config: TransformerConfig, writing: Writing, precision: str) -> Work:
    """Ids in, hypotheses out."""
    model = _model(config, writing)
    engine = CTranslate2Engine(_load(model, writing, precision), model, writing.device)
    sources = writing.ids(config.n_source_vocab)
    settings = DecodeSettings(beam=writing.beam, max_len=ROOM * writing.n_new)

    def run() -> float:
        found = engine(sources, settings, batch_tokens=_room(writing))
        return writing.checked([len(best.ids) + best.finished for best, *_ in found])

    return Work(run, n_parameters(model))


def direct_decoding(config: TransformerConfig, writing: Writing, precision: str) -> Work:
    """Tokens in, tokens out, with the options that give the same search."""
    model = _model(config, writing)
    translator = _load(model, writing, precision).inner
    tokens = _tokens(config.n_source_vocab)
    sources = [[tokens[i] for i in ids] for ids in writing.ids(config.n_source_vocab)]
    alpha = DecodeSettings().length_penalty if writing.beam > 1 else 0.0

    def run() -> float:
        found = translator.translate_batch(
            sources,
            beam_size=writing.beam,
            length_penalty=alpha,
            max_batch_size=_room(writing),
            batch_type="tokens",
            max_decoding_length=ROOM * writing.n_new,
            return_scores=True,
            return_end_token=True,
        )
        return writing.checked([len(one.hypotheses[0]) for one in found])

    return Work(run, n_parameters(model))


def _model(config: TransformerConfig, writing: Writing) -> Transformer:
    torch.manual_seed(0)
    return ending_model(config, writing.n_new)


def _load(model: Transformer, writing: Writing, precision: str) -> TokenTranslator:
    tokens = _tokens(model.config.n_source_vocab)
    with tempfile.TemporaryDirectory() as folder:
        write_ctranslate2(model, Path(folder), source_tokens=tokens, target_tokens=tokens)
        return TokenTranslator.load(Path(folder), writing.device, TYPES[precision])


def _tokens(vocab: int) -> list[str]:
    return [*SPECIALS, *(f"token{i}" for i in range(len(SPECIALS), vocab))]


def _room(writing: Writing) -> int:
    """Tokens of a batch that holds all sources."""
    return writing.batch * (writing.n_source + 1) * writing.beam
