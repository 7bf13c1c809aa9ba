"""A run in the formats of others: ``regard export``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from regard.checkpoints.run_folder import model_tensors
from regard.core.errors import ConfigError
from regard.core.files import write_whole
from regard.core.registry import Registry
from regard.interop import bert, gpt2, llama, marian, vit
from regard.interop.bert import write_bert
from regard.interop.ctranslate2 import write_ctranslate2
from regard.interop.detr import write_detr
from regard.interop.folders import (
    CONFIG,
    GENERATION,
    read_config,
    whole_folder,
    write_json,
)
from regard.interop.marian import write_marian
from regard.interop.onnx import (
    write_onnx,
    write_onnx_decoder,
    write_onnx_encoder,
    write_onnx_vision,
)
from regard.interop.preprocessing import squashed
from regard.interop.vit import write_vit
from regard.tasks.opening import SHARED, TARGET
from regard.text.chat import TEMPLATE
from regard.text.pretrained import PretrainedTokenizer
from regard.text.specials import BEGIN, END, END_ID, PAD, UNKNOWN
from regard.text.tokenizer import Tokenizer

Notes = tuple[str, ...]  # what a user should know, a sentence each
Writer = Callable[[Any, Path], Notes | None]
"""Writes a run into an empty folder."""
FORMATS: Registry[Mapping[str, Writer]] = Registry("export format")
"""By name: families of models, and what writes their runs."""
STATIC_PAGE = "regard.server.static_page"
"""Where the page without a server is written, by its name: imports point one way."""


def export(
    run: Any, to: str, folder: Path, add: Callable[[Path], None] = lambda _folder: None
) -> Notes:
    """Write a run in a format, into a folder that is new or empty; whole or not at all.

    ``add`` puts into the folder what else belongs there.
    """
    writers, family = FORMATS[to], run.model.config.family
    if family not in writers:
        raise ConfigError(
            f"this model cannot be exported: {to} takes models of the family "
            f"{' or '.join(writers)}, and this is one of the family {family!r}"
        )
    with whole_folder(folder) as inside:
        notes = writers[family](run, inside) or ()
        add(inside)
        return notes


def _encoder(run: Any, folder: Path) -> None:
    """A BERT folder."""
    write_bert(run.model.config, dict(run.model.named_parameters()), folder)
    _describe_encoder(run, folder)


def _describe_encoder(run: Any, folder: Path) -> None:
    """Labels and tokenizer; a text is put between begin and end, and a second one after it."""
    config = run.model.config
    if config.head == "classify":
        names = dict(enumerate(run.labels.names))
        _describe(folder, id2label=names, label2id={name: i for i, name in names.items()})
    marks = run.tokenizer.specials
    assert marks.begin is not None, "texts of an encoder begin with a token of their own"
    begin, end = run.tokenizer.tokens([marks.begin, marks.end])
    template = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B:1 {end}:1",
        special_tokens=[(begin, marks.begin), (end, marks.end)],
    )
    roles = {"begin": "cls_token", "end": "sep_token"}
    # Their tokenizers tell the second text of a pair from the first only where they are asked.
    segments = ["token_type_ids"] if config.n_segments > 1 else []
    inputs = ["input_ids", *segments, "attention_mask"]
    _write_tokenizer(
        run.tokenizer, folder, template, roles, config.max_len, model_input_names=inputs
    )


def _vision(run: Any, folder: Path) -> Notes:
    """A ViT folder."""
    weights = dict(run.model.named_parameters())
    write_vit(run.model.config, weights, folder, run.labels.names, run.recipe.data)
    return squashed(run.recipe.data)


def _detector(run: Any, folder: Path) -> Notes:
    """A DETR folder."""
    tensors = model_tensors(run.model)
    write_detr(run.model.config, tensors, folder, run.labels.names, run.recipe.data)
    return squashed(run.recipe.data)


def _language_model(run: Any, folder: Path) -> None:
    """A GPT-2 folder or, where that has no counterpart for a setting, a LLaMA folder."""
    config, weights = run.model.config, dict(run.model.named_parameters())
    reasons = gpt2.refusal(config), llama.refusal(config)
    if reasons[0] is None:
        gpt2.write_gpt2(config, weights, folder)
    elif reasons[1] is None:
        llama.write_llama(config, weights, folder)
    else:
        raise ConfigError(f"this model cannot be exported: {reasons[0]}; {reasons[1]}")
    _describe_language_model(run, folder)


def _describe_language_model(run: Any, folder: Path) -> None:
    """Ends and tokenizer, and the template of conversations if there is one."""
    marks, opening = run.tokenizer.specials, run.framing.opening
    _describe(folder, bos_token_id=marks.begin, eos_token_id=marks.end)
    before = run.tokenizer.tokens(opening)
    template = processors.TemplateProcessing(
        single=" ".join([*before, "$A"]), special_tokens=list(zip(before, opening, strict=True))
    )
    roles = {"begin": "bos_token", "end": "eos_token"}
    _write_tokenizer(run.tokenizer, folder, template, roles, run.model.config.max_len)
    if (run.folder.path / TEMPLATE).exists():
        write_whole(folder / TEMPLATE, (run.folder.path / TEMPLATE).read_text(encoding="utf-8"))


def _translator(run: Any, folder: Path) -> Notes:
    """A MarianMT folder."""
    write_marian(run.model, folder)
    return _describe_translator(run, folder)


def _describe_translator(run: Any, folder: Path) -> Notes:
    """``AutoTokenizer`` reads the source; the target's has a file of its own where they differ."""
    ending = None  # where nobody looks at the end of a source, it has none
    if run.model.config.hidden_source_id is None:
        ending = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, END_ID)])
    sides = {SHARED: run.tokenizers.source, TARGET: run.tokenizers.target}
    for name, tokenizer in sides.items():
        if name == SHARED or not run.tokenizers.shared:
            tokenizer.save(folder / name)
            _write_with(tokenizer, ending, folder / name)
    source, target = run.recipe.data.direction.split("-")
    special = {"pad_token": PAD, "bos_token": BEGIN, "eos_token": END, "unk_token": UNKNOWN}
    languages = {"source_lang": source, "target_lang": target}
    _describe_tokenizer(folder, run.model.config.max_len, {**special, **languages})
    if run.tokenizers.shared:
        return ()
    return (f"source and target have tokenizers of their own: decode what is written by {TARGET}",)


def _describe(folder: Path, **facts: object) -> None:
    """Add to config.json."""
    write_json(folder / CONFIG, {**read_config(folder), **facts})


def _write_tokenizer(
    tokenizer: Tokenizer,
    folder: Path,
    template: processors.TemplateProcessing,
    roles: dict[str, str],
    longest: int,
    **more: object,
) -> None:
    """tokenizer.json, and what its special tokens are for; a foreign one keeps its template."""
    foreign = isinstance(tokenizer, PretrainedTokenizer)
    _write_with(tokenizer, None if foreign else template, folder / SHARED)
    names = {"pad": "pad_token", "unknown": "unk_token", "mask": "mask_token", **roles}
    special = {
        names[role]: tokenizer.tokens([number])[0]
        for role, number in tokenizer.specials.named().items()
    }
    _describe_tokenizer(folder, longest, {**special, **more})


def _write_with(
    tokenizer: Tokenizer, template: processors.TemplateProcessing | None, path: Path
) -> None:
    """A tokenizer that puts a text into a template."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    if template is not None:
        inner.post_processor = template
    write_whole(path, inner.to_str(pretty=True))


def _describe_tokenizer(folder: Path, longest: int, special: Mapping[str, object]) -> None:
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        # Else their tokenizers give token_type_ids, too, and generate refuses what no model reads.
        "model_input_names": ["input_ids", "attention_mask"],
        **special,
    }
    write_json(folder / "tokenizer_config.json", described)


def _ctranslate2(run: Any, folder: Path) -> None:
    """With the tokenizers beside the model: CTranslate2 reads tokens, not text."""
    run.tokenizers.save(folder)
    source, target = _tokens(run.tokenizers.source), _tokens(run.tokenizers.target)
    write_ctranslate2(run.model, folder, source_tokens=source, target_tokens=target)


def _tokens(tokenizer: Tokenizer) -> list[str]:
    """All tokens by id."""
    ids = tokenizers.Tokenizer.from_str(tokenizer.to_json()).get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _onnx_encoder(run: Any, folder: Path) -> None:
    """An encoder, in the words of BERT's description, with its labels and tokenizer."""
    write_onnx_encoder(run.model, folder)
    write_json(folder / CONFIG, bert.described(run.model.config))
    _describe_encoder(run, folder)


def _onnx_language_model(run: Any, folder: Path) -> None:
    """A language model, in the words of GPT-2's or LLaMA's description, with its tokenizer."""
    config = run.model.config
    write_onnx_decoder(run.model, folder)
    as_llama = config.positions == "rotary" or config.kv_heads != config.n_heads
    described = llama.described(config) if as_llama else gpt2.described(config)
    write_json(folder / CONFIG, {**described, "use_cache": True})
    _describe_language_model(run, folder)
    ids = {name: id_ for name, id_ in read_config(folder).items() if name.endswith("_token_id")}
    write_json(folder / GENERATION, {**ids, "max_length": config.max_len})


def _onnx_vision(run: Any, folder: Path) -> Notes:
    """A model of pictures, in the words of ViT's description, and how pixels are prepared."""
    write_onnx_vision(run.model, folder)
    config = run.model.config
    write_json(folder / CONFIG, vit.described(config, run.labels.names))
    vit.write_preparation(config, folder, run.recipe.data)
    return squashed(run.recipe.data)


def _onnx_translator(run: Any, folder: Path) -> Notes:
    """A translator, in the words of Marian's description, and its tokenizers."""
    config = run.model.config
    write_onnx(run.model, folder)
    write_json(folder / CONFIG, {**marian.described(config), "use_cache": True})
    write_json(folder / GENERATION, marian.searched(config))
    return _describe_translator(run, folder)


def _web(run: Any, folder: Path) -> Notes:
    """The page with the model in it. Pages are the server's, which lies above: it is fetched."""
    notes: Notes = import_module(STATIC_PAGE).write_static_page(run, folder)
    return notes


FORMATS.add("hf")(
    {
        "encoder": _encoder,
        "decoder": _language_model,
        "transformer": _translator,
        "vision": _vision,
        "detection": _detector,
    }
)
FORMATS.add("ctranslate2")({"transformer": _ctranslate2})
FORMATS.add("onnx")(
    {
        "encoder": _onnx_encoder,
        "decoder": _onnx_language_model,
        "transformer": _onnx_translator,
        "vision": _onnx_vision,
    }
)
FORMATS.add("web")({"transformer": _web, "encoder": _web, "decoder": _web})
