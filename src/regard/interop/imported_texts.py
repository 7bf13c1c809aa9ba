"""Encoders and language models of others as run folders."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from regard.checkpoints.run_folder import RunFolder, save_model
from regard.core.errors import CheckpointError
from regard.core.files import write_whole
from regard.interop.bert import read_bert
from regard.interop.gguf_file import read_gguf, read_gguf_tokenizer
from regard.interop.gpt2 import read_gpt2
from regard.interop.hf_folder import CONFIG, GENERATION, read_config, read_json
from regard.interop.imported import Imported
from regard.interop.imported_recipe import save_recipe
from regard.interop.llama import read_llama
from regard.interop.sentence_folder import READING, check_pooling, reads
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.models.settings import TaskName
from regard.runs.labels import Labels
from regard.runs.tokenizers import SHARED
from regard.text.chat_template import TEMPLATE
from regard.text.foreign import ForeignTokenizer
from regard.text.marks import Marks
from regard.text.published import (
    opened_with,
    pieces_in_bytes,
    pieces_of,
    published_template,
    word_pieces,
)

Notes = tuple[str, ...]
TASKS: dict[str, TaskName] = {
    "none": "similarity",
    "masked": "masked",
    "classify": "classification",
    "spans": "answers",
}
"""What an encoder is for, going by its head."""
POSITIONS = "embedding.positions.table"
NO_END = "it was to see an end token after each text (add_eos_token), which is not added here"


def import_bert(source: Path, folder: RunFolder, _direction: str | None = None) -> Notes:
    """A BERT-type folder."""
    model = read_bert(source)
    config = model.config
    assert isinstance(config, EncoderConfig)
    if config.head == "classify":
        _labels(read_config(source), config, source / CONFIG).save(folder.path)
    if config.head == "none":
        check_pooling(source)
        model = _shortened(model, config, reads(source))
    return _write(model, word_pieces(source), TASKS[config.head], "bert", folder)


def _shortened(model: Imported, config: EncoderConfig, n: int | None) -> Imported:
    """A sentence encoder that reads no more of a text than the one it was."""
    if n is None or n >= config.max_len:
        return model
    table = model.weights[POSITIONS][:n].clone()
    note = f"it reads {n} of {config.max_len} tokens, as {READING} says"
    return Imported(
        config.model_copy(update={"max_len": n}),
        {**model.weights, POSITIONS: table},
        (*model.notes, note),
    )


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
    if carried.adds.get("bos_token") and marks.begin is not None:
        inner = opened_with(inner, marks.begin)
    _keep_template(carried.chat_template, folder)
    notes = _write(model, ForeignTokenizer(inner, marks), "language", "gpt", folder)
    return (*notes, NO_END) if carried.adds.get("eos_token") else notes


def _language_model(model: Imported, source: Path, folder: RunFolder) -> Notes:
    tokenizer = pieces_in_bytes(source, _ends(source))
    _keep_template(published_template(source), folder)
    return _write(model, tokenizer, "language", "gpt", folder)


def _ends(source: Path) -> list[int]:
    """All ids that end a text: of the model's description, and of how it is to write."""
    found: list[int] = []
    for path in (source / CONFIG, source / GENERATION):
        said = (read_json(path) if path.exists() else {}).get("eos_token_id")
        ends = said if isinstance(said, list) else [said] if said is not None else []
        if not all(type(one) is int for one in ends):
            raise CheckpointError(
                f"{path} must say eos_token_id as a number, or as several, found {said!r}"
            )
        found += ends
    return found


def _keep_template(template: str | None, folder: RunFolder) -> None:
    if template is not None:
        write_whole(folder.path / TEMPLATE, template)


def _labels(said: dict[str, Any], config: EncoderConfig, path: Path) -> Labels:
    """Names by number, as the folder has them; whether of pairs, no folder says."""
    names = said.get("id2label") or {}
    numbers = range(config.n_labels or 0)
    found = tuple(str(names.get(str(i), f"LABEL_{i}")) for i in numbers)
    twice = [name for name, n in Counter(found).items() if n > 1]
    if twice:
        raise CheckpointError(
            f"{path} gives the same name to several labels in id2label: {', '.join(twice)}; "
            "give each its own"
        )
    return Labels(found, pairs=None if config.n_segments > 1 else False)


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
    save_recipe(folder, config, task=task, preset=preset, n_vocab=config.n_vocab)
    tokenizer.save(folder.path / SHARED)
    save_model(folder, config, model.weights)
    return model.notes
