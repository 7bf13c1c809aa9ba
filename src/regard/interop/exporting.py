"""A run in the formats of others: ``regard export``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from regard.core.errors import ConfigError
from regard.core.files import write_whole
from regard.core.registry import Registry
from regard.interop.ctranslate2_model import write_ctranslate2
from regard.interop.exported_texts import write_encoder, write_language_model
from regard.interop.folders import whole_folder
from regard.interop.marian import write_marian
from regard.interop.onnx_model import write_onnx, write_onnx_encoder
from regard.interop.places import check_free
from regard.runs.kinds.encoder_run import EncoderRun
from regard.runs.kinds.translator import Run
from regard.runs.kinds.writer import Writer
from regard.runs.tokenizers import SHARED, SOURCE, TARGET
from regard.text.specials import BEGIN, END, END_ID, PAD, UNKNOWN
from regard.text.tokenizer import Tokenizer

FORMATS: Registry[Callable[[Any, Path], None]] = Registry("export format")
"""What writes a run into an empty folder."""


def export(run: Any, to: str, folder: Path) -> None:
    """Write a run in a format, into a folder that is new or empty; whole or not at all."""
    write = FORMATS[to]
    check_free(folder)
    with whole_folder(folder) as inside:
        write(run, inside)


@FORMATS.add("ctranslate2")
def _ctranslate2(run: Any, folder: Path) -> None:
    """With the tokenizers beside the model: CTranslate2 reads tokens, not text."""
    if not isinstance(run, Run):
        raise ConfigError(f"CTranslate2 gets translators, and this is a run of the task {run.task}")
    run.tokenizers.save(folder)
    source, target = (SHARED, SHARED) if run.tokenizers.shared else (SOURCE, TARGET)
    write_ctranslate2(
        run.model,
        folder,
        source_tokens=_tokens(folder / source),
        target_tokens=_tokens(folder / target),
    )


@FORMATS.add("hf")
def _hugging_face(run: Any, folder: Path) -> None:
    """Whatever of its Auto classes the model can be."""
    if isinstance(run, EncoderRun):
        write_encoder(run, folder)
    elif isinstance(run, Writer):
        write_language_model(run, folder)
    else:
        _marian(run, folder)


def _marian(run: Run, folder: Path) -> None:
    """A MarianMT folder; ``AutoTokenizer`` reads the source, the target's has a file of its own."""
    write_marian(run.model, folder)
    _write_ending(run.tokenizers.source, folder / SHARED)
    if not run.tokenizers.shared:
        _write_ending(run.tokenizers.target, folder / TARGET)
    source, target = run.recipe.data.direction.split("-")
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "bos_token": BEGIN,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "model_max_length": run.model.config.max_len,
        "clean_up_tokenization_spaces": False,
        "source_lang": source,
        "target_lang": target,
    }
    write_whole(folder / "tokenizer_config.json", json.dumps(described, indent=2) + "\n")


@FORMATS.add("onnx")
def _onnx(run: Any, folder: Path) -> None:
    """An encoder, or both halves of a translator, and the tokenizers beside them."""
    if isinstance(run, EncoderRun):
        write_onnx_encoder(run.model, folder)
        run.tokenizer.save(folder / SHARED)
        return
    write_onnx(run.model, folder)
    run.tokenizers.save(folder)


def _write_ending(tokenizer: Tokenizer, path: Path) -> None:
    """As ``Tokenizer.save``, and a text gets its end token, which their models are given."""
    tokenizer.save(path)
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    inner.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, END_ID)]
    )
    write_whole(path, inner.to_str(pretty=True))


def _tokens(path: Path) -> list[str]:
    """All tokens of a tokenizer's file, by id."""
    ids = tokenizers.Tokenizer.from_file(str(path)).get_vocab()
    return sorted(ids, key=lambda token: ids[token])
