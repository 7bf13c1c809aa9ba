"""A run in the formats of others: ``regard export``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tokenizers
from tokenizers import processors

from regard.core.errors import ConfigError
from regard.core.files import write_whole
from regard.core.registry import Registry
from regard.interop import gpt2, llama
from regard.interop.bert import write_bert
from regard.interop.ctranslate2 import write_ctranslate2
from regard.interop.folders import CONFIG, check_free, read_config, whole_folder, write_json
from regard.interop.gpt2 import write_gpt2
from regard.interop.llama import write_llama
from regard.interop.marian import write_marian
from regard.interop.onnx import write_onnx, write_onnx_encoder
from regard.models.settings import EncoderConfig
from regard.tasks.classification import Classifier
from regard.tasks.encoding import EncoderRun
from regard.tasks.opening import SHARED, SOURCE, TARGET
from regard.tasks.translator import Run
from regard.tasks.writer import Writer
from regard.text.chat import TEMPLATE
from regard.text.pretrained import PretrainedTokenizer
from regard.text.specials import BEGIN, END, END_ID, PAD, UNKNOWN
from regard.text.tokenizer import Tokenizer

FORMATS: Registry[Callable[[Any, Path], None]] = Registry("export format")
"""What writes a run into an empty folder."""


def write_encoder(run: EncoderRun, folder: Path) -> None:
    """A BERT folder; a text is put between begin and end, and a second one after it."""
    write_bert(run.model.config, dict(run.model.named_parameters()), folder)
    if isinstance(run, Classifier):
        names = dict(enumerate(run.labels.names))
        _tell(folder, id2label=names, label2id={name: number for number, name in names.items()})
    marks = run.tokenizer.specials
    assert marks.begin is not None, "texts of an encoder begin with a token of their own"
    begin, end = run.tokenizer.tokens([marks.begin, marks.end])
    template = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B:1 {end}:1",
        special_tokens=[(begin, marks.begin), (end, marks.end)],
    )
    roles = {"pad": "pad_token", "begin": "cls_token", "end": "sep_token"}
    told = _inputs(run.model.config)
    _write_tokenizer(run.tokenizer, folder, template, roles, run.model.config.max_len, told)


def _inputs(config: EncoderConfig) -> dict[str, object]:
    """Their tokenizers tell the second text of a pair from the first only where they are asked."""
    names = ["input_ids", *(["token_type_ids"] if config.n_segments > 1 else []), "attention_mask"]
    return {"model_input_names": names}


def write_language_model(run: Writer, folder: Path) -> None:
    """A GPT-2 folder or, where that has no counterpart for a setting, a LLaMA folder."""
    config, weights = run.model.config, dict(run.model.named_parameters())
    reasons = gpt2.refusal(config), llama.refusal(config)
    if reasons[0] is None:
        write_gpt2(config, weights, folder)
    elif reasons[1] is None:
        write_llama(config, weights, folder)
    else:
        raise ConfigError(f"this model cannot be exported: {reasons[0]}; {reasons[1]}")
    marks, opening = run.tokenizer.specials, run.framing.opening
    _tell(folder, bos_token_id=marks.begin, eos_token_id=marks.end)
    before = run.tokenizer.tokens(opening)
    template = processors.TemplateProcessing(
        single=" ".join([*before, "$A"]), special_tokens=list(zip(before, opening, strict=True))
    )
    roles = {"pad": "pad_token", "begin": "bos_token", "end": "eos_token"}
    _write_tokenizer(run.tokenizer, folder, template, roles, config.max_len)
    if (run.folder.path / TEMPLATE).exists():
        write_whole(folder / TEMPLATE, (run.folder.path / TEMPLATE).read_text(encoding="utf-8"))


def _tell(folder: Path, **facts: object) -> None:
    """Add to config.json."""
    write_json(folder / CONFIG, {**read_config(folder), **facts})


def _write_tokenizer(
    tokenizer: Tokenizer,
    folder: Path,
    template: processors.TemplateProcessing,
    roles: dict[str, str],
    longest: int,
    told: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """tokenizer.json, and what its special tokens are for; a foreign one keeps its template."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    if not isinstance(tokenizer, PretrainedTokenizer):
        inner.post_processor = template
    write_whole(folder / SHARED, inner.to_str(pretty=True))
    names = {**roles, "unknown": "unk_token", "mask": "mask_token"}
    special = {
        names[role]: tokenizer.tokens([number])[0]
        for role, number in tokenizer.specials.named().items()
    }
    _describe_tokenizer(folder, longest, {**special, **told})


def _describe_tokenizer(folder: Path, longest: int, told: Mapping[str, object]) -> None:
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        **told,
    }
    write_json(folder / "tokenizer_config.json", described)


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
    families: dict[str, Callable[[Any, Path], None]]
    families = {"encoder": write_encoder, "decoder": write_language_model}
    families.get(run.model.config.family, _marian)(run, folder)


def _marian(run: Run, folder: Path) -> None:
    """A MarianMT folder; ``AutoTokenizer`` reads the source, the target's has a file of its own."""
    write_marian(run.model, folder)
    _write_ending(run.tokenizers.source, folder / SHARED)
    if not run.tokenizers.shared:
        _write_ending(run.tokenizers.target, folder / TARGET)
    source, target = run.recipe.data.direction.split("-")
    special = {"pad_token": PAD, "bos_token": BEGIN, "eos_token": END, "unk_token": UNKNOWN}
    told = {**special, "source_lang": source, "target_lang": target}
    _describe_tokenizer(folder, run.model.config.max_len, told)


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
    """A tokenizer that ends each text with the end token, which their models are given."""
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
