"""Translators from and to MarianMT folders in the layout of Hugging Face.

Imported, a translator gets our special ids. Marian has no begin token: its padding starts a target,
so that row is our BEGIN, and keeps its share in the softmax as it does there (``generate`` hides
padding only after the softmax). Our PAD is a new row without any share. So the log-probability of
every token is what it was.

Exported, a translator keeps its ids, and the description tells what they are.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from regard.checkpoints.interop.hf_folder import (
    CONFIG,
    WEIGHTS,
    read_config,
    read_json,
    read_tensors,
)
from regard.checkpoints.interop.imported import Imported
from regard.checkpoints.interop.marian_config import NAME, config_of, described, refusal
from regard.checkpoints.interop.marian_names import (
    COMPUTED,
    OUTPUT,
    OUTPUT_BIAS,
    SHARED,
    SOURCE,
    TARGET,
    in_halves,
    rows,
    taking_turns,
)
from regard.checkpoints.interop.naming import renamed, taken
from regard.checkpoints.interop.renumbering import (
    OUTPUT_BIAS as OUR_BIAS,
)
from regard.checkpoints.interop.renumbering import (
    SOURCE_TOKENS,
    TARGET_TOKENS,
    Renumbering,
    renumbered,
    specials_first,
)
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import write_whole
from regard.models.base import SequenceModel
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.specials import BEGIN_ID, PAD_ID

GENERATION = "generation_config.json"


def read_marian(folder: Path) -> Imported:
    """The translator of a folder with config.json and weights, with our special ids."""
    raw = read_config(folder)
    config = config_of(raw, str(folder / CONFIG))
    tensors = _untied(read_tensors(folder), config)
    unused = (SHARED,) if not config.shared_vocab else ()
    weights = taken(
        rows(config),
        tensors,
        _shapes(config),
        str(folder),
        passed_over=(*COMPUTED, *unused),
        settings=config.model_dump(),
    )
    weights = taking_turns(weights, config.d_model)
    source, target = marian_numbering(folder)
    if target.same and not weights[OUR_BIAS].any():  # as we export
        del weights[OUR_BIAS]
        config = config.model_copy(update={"output_bias": False})
    config, weights = renumbered(config, weights, source, target)
    return Imported(config, weights)


def marian_numbering(folder: Path, unknown: int | None = None) -> tuple[Renumbering, Renumbering]:
    """How the ids of source and target become ours; ``unknown`` as the vocabulary has it."""
    raw = read_config(folder)
    n_source = raw["vocab_size"]
    n_target = raw.get("decoder_vocab_size") or n_source
    pad, end = _id(raw, "pad_token_id", folder), _id(raw, "eos_token_id", folder)
    begin = raw.get("decoder_start_token_id")
    unknown = raw.get("unk_token_id", unknown)
    if unknown is None:
        unknown = _unknown(folder)
    first, second = (
        specials_first(n, pad=pad, begin=pad if begin is None else begin, end=end, unknown=unknown)
        for n in (n_source, n_target)
    )
    return first, second


def _id(raw: dict[str, object], name: str, folder: Path) -> int:
    found = raw.get(name)
    if not isinstance(found, int):
        raise CheckpointError(f"{folder / CONFIG} must say {name} as one number, found {found!r}")
    return found


def _unknown(folder: Path) -> int | None:
    """The id of ``<unk>`` in vocab.json, where there is one."""
    path = folder / "vocab.json"
    if not path.exists():
        return None
    found = read_json(path).get("<unk>")
    return found if isinstance(found, int) else None


def _untied(tensors: dict[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """With every tensor of the table once: tied ones are kept under one name or several."""
    found = dict(tensors)
    if config.shared_vocab:
        copies = [found.pop(name) for name in (SOURCE, TARGET) if name in found]
        if config.tied_output and OUTPUT in found:
            copies.append(found.pop(OUTPUT))
        if SHARED not in found and copies:
            found[SHARED] = copies[0]
    elif config.tied_output:
        output = found.pop(OUTPUT, None)
        if TARGET not in found and output is not None:
            found[TARGET] = output
    bias = found.get(OUTPUT_BIAS)
    found[OUTPUT_BIAS] = torch.zeros(config.n_target_vocab) if bias is None else bias.reshape(-1)
    return found


def _shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        skeleton = Transformer(config)
    return {name: tuple(one.shape) for name, one in skeleton.named_parameters()}


def write_marian(model: SequenceModel, folder: Path) -> None:
    """Write config.json, generation_config.json and model.safetensors into a folder."""
    config = model.config
    why_not = refusal(config)
    if why_not or not isinstance(config, TransformerConfig):
        raise ConfigError(f"this model cannot be exported: {why_not}")
    weights = in_halves(dict(model.named_parameters()), config.d_model)
    if config.shared_vocab and not config.tied_output:  # there, all three are tied or none
        weights[TARGET_TOKENS] = weights[SOURCE_TOKENS]
        config = config.model_copy(update={"shared_vocab": False})
    tensors = {name: one.clone() for name, one in renamed(rows(config), weights, NAME).items()}
    bias = tensors.get(OUTPUT_BIAS, torch.zeros(config.n_target_vocab))
    tensors[OUTPUT_BIAS] = bias.reshape(1, -1)
    raw = described(config)
    search = {
        "pad_token_id": raw["pad_token_id"],
        "bos_token_id": raw["bos_token_id"],
        "eos_token_id": raw["eos_token_id"],
        "decoder_start_token_id": raw["decoder_start_token_id"],
        "bad_words_ids": [[PAD_ID], [BEGIN_ID]],
        "max_length": config.max_len,
    }
    write_whole(folder / CONFIG, json.dumps(raw, indent=2) + "\n")
    write_whole(folder / GENERATION, json.dumps(search, indent=2) + "\n")
    write_whole(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))
