"""Encoders and language models of others as run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.checkpoints.interop.bert import read_bert
from regard.checkpoints.interop.gguf_file import read_gguf, read_gguf_tokenizer
from regard.checkpoints.interop.gpt2 import read_gpt2
from regard.checkpoints.interop.hf_folder import read_config
from regard.checkpoints.interop.imported import Imported
from regard.checkpoints.interop.llama import read_llama
from regard.checkpoints.run_folder import RunFolder, save_model, save_settings
from regard.core.errors import CheckpointError
from regard.core.files import write_whole
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.models.settings import ModelSettings, TaskName
from regard.recipes.recipe import recipe_from
from regard.runs.labels import Labels
from regard.runs.tokenizers import SHARED
from regard.text.chat_template import TEMPLATE
from regard.text.foreign import ForeignTokenizer
from regard.text.marks import Marks
from regard.text.published import pieces_in_bytes, pieces_of, published_template, word_pieces
from regard.text.settings import N_BYTES
from regard.text.specials import SPECIALS

Notes = tuple[str, ...]
TASKS: dict[str, TaskName] = {
    "none": "similarity",
    "masked": "masked",
    "classify": "classification",
    "spans": "answers",
}
"""What an encoder is for, going by its head."""


def import_bert(source: Path, folder: RunFolder, _direction: str | None = None) -> Notes:
    """A BERT-type folder."""
    model = read_bert(source)
    config = model.config
    assert isinstance(config, EncoderConfig)
    if config.head == "classify":
        _labels(read_config(source), config).save(folder.path)
    return _write(model, word_pieces(source), TASKS[config.head], "bert", folder)


def import_gpt2(source: Path, folder: RunFolder, _direction: str | None = None) -> Notes:
    """A GPT-2-type folder."""
    return _language_model(read_gpt2(source), source, folder)


def import_llama(source: Path, folder: RunFolder, _direction: str | None = None) -> Notes:
    """A LLaMA-type folder."""
    return _language_model(read_llama(source), source, folder)


def import_gguf(source: Path, folder: RunFolder, _direction: str | None = None) -> Notes:
    """A GGUF file, with the tokenizer that it carries."""
    model, carried = read_gguf(source), read_gguf_tokenizer(source)
    if carried.kind != "gpt2":
        raise CheckpointError(
            f"{source} carries a tokenizer of the kind {carried.kind!r}; supported is 'gpt2', "
            "byte-level pieces"
        )
    ids = carried.special_ids
    if "eos" not in ids:
        raise CheckpointError(f"{source} names no end token")
    marks = Marks(
        pad=ids.get("padding", ids["eos"]),
        begin=ids.get("bos"),
        end=ids["eos"],
        unknown=ids.get("unknown"),
    )
    inner = pieces_of(carried.tokens, carried.merges, carried.types, carried.before)
    _keep_template(carried.chat_template, folder)
    return _write(model, ForeignTokenizer(inner, marks), "language", "gpt", folder)


def _language_model(model: Imported, source: Path, folder: RunFolder) -> Notes:
    said = read_config(source)
    end = said.get("eos_token_id")
    tokenizer = pieces_in_bytes(source, end[0] if isinstance(end, list) else end)
    _keep_template(published_template(source), folder)
    return _write(model, tokenizer, "language", "gpt", folder)


def _keep_template(template: str | None, folder: RunFolder) -> None:
    if template is not None:
        write_whole(folder.path / TEMPLATE, template)


def _labels(said: dict[str, Any], config: EncoderConfig) -> Labels:
    """Names by number, as the folder has them."""
    names = said.get("id2label") or {}
    numbers = range(config.n_labels or 0)
    return Labels(tuple(str(names.get(str(i), f"LABEL_{i}")) for i in numbers), pairs=False)


def _write(
    model: Imported,
    tokenizer: ForeignTokenizer,
    task: TaskName,
    preset: str,
    folder: RunFolder,
) -> Notes:
    """Fill an empty run folder; -> what a user should know."""
    config = model.config
    assert isinstance(config, EncoderConfig | DecoderConfig)
    if tokenizer.n_vocab > config.n_vocab:
        raise CheckpointError(
            f"the tokenizer has {tokenizer.n_vocab} tokens, but the model knows {config.n_vocab}: "
            "they do not belong together"
        )
    known = config.model_dump(include=set(ModelSettings.model_fields), exclude_none=True)
    recipe = recipe_from(
        {
            "task": task,
            "data": {"train": _training_file(task)},
            "text": {"kind": "bpe", "vocab_size": max(config.n_vocab, N_BYTES + len(SPECIALS))},
            "model": {"preset": preset, **known},
            "train": {"max_steps": 1000, "lr": 1e-4, "warmup_steps": 100},
        },
        "the imported run",
    )
    save_settings(folder, recipe.model_dump(mode="json"))
    tokenizer.save(folder.path / SHARED)
    save_model(folder, config, model.weights)
    return model.notes


def _training_file(task: TaskName) -> str:
    """Named in the recipe of a run that has no data: whoever trains on gives their own."""
    return "train.txt" if task in ("language", "masked") else "train.tsv"
