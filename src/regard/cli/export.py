"""``regard export``: a run for the engines that others run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import RunPath


def export(
    path: RunPath,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder, new or empty.")],
    to: Annotated[str, typer.Option(help="The format: hf, ctranslate2 or onnx.")],
) -> None:
    """Write a run in a format of the ecosystem, with its tokenizers beside it.

    CTranslate2 gives the same translations: load DIR with its Translator, hand over the tokens of
    tokenizer.json, and join what comes back. hf writes a folder that transformers loads by its Auto
    classes: a translator as Marian, an encoder as BERT, a language model as GPT-2 or LLaMA. Only
    plain attention can go to either. onnx writes an encoder as encoder.onnx, a translator as that
    and decoder.onnx, which gives the logits of all positions at once.
    """
    from regard.interop.exporting import export as write
    from regard.runs.loading import load

    write(load(path, device="cpu"), to, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {to}, {size / 1e6:.1f} MB")
