"""Models of others as runs: ``regard import``.

What a folder holds is told by its files, and each kind has one function that fills a run folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import CheckpointError, ConfigError
from regard.core.registry import Registry
from regard.interop.ctranslate2_reading import MODEL as CTRANSLATE2_MODEL
from regard.interop.folders import whole_folder
from regard.interop.hf_folder import CONFIG, read_config
from regard.interop.imported_texts import import_bert, import_gguf, import_gpt2, import_llama
from regard.interop.imported_translators import (
    from_ctranslate2,
    from_marian,
    write_translator,
)
from regard.interop.places import check_free

Importer = Callable[[Path, RunFolder, str | None], tuple[str, ...]]
"""Source, the run folder to fill, and perhaps the languages -> what a user should know."""

IMPORTERS: Registry[Importer] = Registry("kind of model")
IMPORTERS.add("bert")(import_bert)
IMPORTERS.add("gpt2")(import_gpt2)
IMPORTERS.add("llama")(import_llama)
IMPORTERS.add("gguf")(import_gguf)

GGUF = ".gguf"
TRANSLATORS = ("marian", "ctranslate2")


def import_model(source: Path, out: Path, direction: str | None = None) -> tuple[str, ...]:
    """Write a run folder, new or empty, whole or not at all; -> what a user should know.

    ``direction`` are the languages of a translator, as ``de-en``, where its files do not say them.
    """
    kind = kind_of(source)
    write = IMPORTERS[kind]
    if direction is not None and kind not in TRANSLATORS:
        raise ConfigError(
            f"a model of the kind {kind} translates nothing: leave out --direction {direction}"
        )
    check_free(out)
    with whole_folder(out) as inside:
        return write(source, RunFolder(inside), direction)


def kind_of(source: Path) -> str:
    """Which kind of model a file or a folder is, going by names and by config.json."""
    if source.is_file():
        if source.suffix == GGUF:
            return "gguf"
        raise ConfigError(f"{source} is a file; {_supported()}")
    if not source.is_dir():
        raise CheckpointError(f"there is no {source} to import")
    if (source / CTRANSLATE2_MODEL).exists():
        return "ctranslate2"
    if not (source / CONFIG).exists():
        files = sorted(file.name for file in source.iterdir())
        found = ", ".join(files[:5]) + (", …" if len(files) > 5 else "") if files else "nothing"
        raise ConfigError(f"{source} holds {found}; {_supported()}")
    return _told_kind(source, read_config(source))


def _told_kind(source: Path, said: dict[str, Any]) -> str:
    kind = said.get("model_type")
    if kind is None and "family" in said:
        raise ConfigError(f"{source} is a run folder already; use it as it is")
    if isinstance(kind, str) and kind in IMPORTERS:
        return kind
    raise ConfigError(f"{source / CONFIG} says model_type={kind!r}; {_supported()}")


def _supported() -> str:
    return (
        "supported are folders in the layout of Hugging Face (config.json with model_type "
        "marian, bert, gpt2 or llama), CTranslate2 folders (model.bin), and .gguf files"
    )


@IMPORTERS.add("marian")
def _marian(source: Path, folder: RunFolder, direction: str | None) -> tuple[str, ...]:
    return write_translator(from_marian(source), folder, direction)


@IMPORTERS.add("ctranslate2")
def _ctranslate2(source: Path, folder: RunFolder, direction: str | None) -> tuple[str, ...]:
    return write_translator(from_ctranslate2(source), folder, direction)
