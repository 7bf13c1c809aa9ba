"""Translators from and to MarianMT folders in the layout of Hugging Face.

Imported, a translator gets our special ids. Marian has no begin token: its padding starts a target,
so that row is our BEGIN, and keeps its share in the softmax as it does there (``generate`` hides
padding only after the softmax). Our PAD is a new row without any share. So the log-probability of
every token is what it was.

Exported, a translator keeps its ids, and the description tells what they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import write_whole
from regard.interop.hf_folder import (
    CONFIG,
    GENERATION,
    WEIGHTS,
    read_config,
    read_json,
    read_tensors,
)
from regard.interop.imported import Imported
from regard.interop.marian_config import NAME, config_of, described, refusal
from regard.interop.marian_names import (
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
from regard.interop.naming import renamed
from regard.interop.renumbering import (
    OUTPUT_BIAS as OUR_BIAS,
)
from regard.interop.renumbering import (
    SOURCE_TOKENS,
    TARGET_TOKENS,
    Renumbering,
    renumbered,
    specials_first,
)
from regard.interop.skeleton import fitted
from regard.models.base import SequenceModel
from regard.models.transformer import TransformerConfig
from regard.text.specials import BEGIN_ID, PAD_ID, UNKNOWN

START = "decoder_start_token_id"


def read_marian(folder: Path) -> Imported:
    """The translator of a folder with config.json and weights, with our special ids."""
    config = config_of(read_config(folder), str(folder / CONFIG))
    tensors = _untied(read_tensors(folder), config)
    unused = (SHARED,) if not config.shared_vocab else ()
    passed_over = (*COMPUTED, *unused)
    weights = fitted(config, rows(config), tensors, str(folder), passed_over=passed_over)
    weights = taking_turns(weights, config.d_model)
    source, target = marian_numbering(folder)
    if target.same and not weights[OUR_BIAS].any():  # as we export
        del weights[OUR_BIAS]
        config = config.model_copy(update={"output_bias": False})
    config, weights = renumbered(config, weights, source, target)
    return Imported(config, weights)


def marian_numbering(folder: Path) -> tuple[Renumbering, Renumbering]:
    """How the ids of source and target become ours."""
    raw, path = read_config(folder), folder / CONFIG
    config = config_of(raw, str(path))
    sizes = (config.n_source_vocab, config.n_target_vocab)
    least = min(sizes)
    pad, end = (_id(raw, name, least, path) for name in ("pad_token_id", "eos_token_id"))
    begin = pad if raw.get(START) is None else _id(raw, START, least, path)
    if raw.get("unk_token_id") is not None:
        unknown: int | None = _id(raw, "unk_token_id", least, path)
    else:
        unknown = _unknown(folder, least)
    first, second = (
        specials_first(n, pad=pad, begin=begin, end=end, unknown=unknown) for n in sizes
    )
    return first, second


def _id(raw: Mapping[str, object], name: str, n: int, path: Path) -> int:
    """An id that a file says, of a vocabulary of n tokens."""
    found = raw.get(name)
    if type(found) is not int or not 0 <= found < n:
        raise CheckpointError(
            f"{path} must say {name} as one number from 0 to {n - 1}, found {found!r}"
        )
    return found


def _unknown(folder: Path, n: int) -> int | None:
    """The id of ``<unk>`` in vocab.json, where there is one."""
    path = folder / "vocab.json"
    if not path.exists():
        return None
    ids = read_json(path)
    return _id(ids, UNKNOWN, n, path) if UNKNOWN in ids else None


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
    n = len(found.get(SHARED, found.get(TARGET, ())))  # as many as there are, whatever is said
    found[OUTPUT_BIAS] = found.get(OUTPUT_BIAS, torch.zeros(n)).reshape(-1)
    return found


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
