"""Somebody else's model in one call: ``regard.look(model, tokenizer, "text")``.

The model reads the text with its own forward, once, and every attention that is seen in that pass
becomes a ``Look``, as ``run.explain`` gives it. Nothing is imported or converted. Models of the
library transformers are recognised by what they have (``config``, ``generate``), which is not
imported here; any other module is given its ``inputs``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import decoders
from torch import Tensor, nn

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.data.pictures import read_picture
from regard.inspection.observing import Sighting, evaluating, named, observed_call
from regard.tasks.look import MOST, MOST_WEIGHTS, Choice, Look, Prediction, TopChoices
from regard.text.tokenizer import SPACE, text_of_bytes
from regard.visual.heat_maps import Pixels
from regard.visual.payload import PAIR_SEPARATOR, Axis

MAX_WRITTEN = 64
"""Tokens that an encoder–decoder writes where it is given no target."""
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def look(
    model: nn.Module,
    tokenizer: Any = None,
    text: Any = None,
    other: str | None = None,
    *,
    inputs: Any = None,
    layers: Collection[int] | None = None,
) -> Look:
    """Where every attention of any model looks while it reads a text, a pair or a picture.

    ``other`` is the second text of a pair, or the target of an encoder–decoder, which otherwise
    writes one itself. A picture (a ``Path``, an image or an array) goes with its image processor in
    the place of the tokenizer. A module without either is given ``inputs``: a tensor, a tuple of
    arguments or a dictionary of them, of one text; of a batch the first row is shown. ``layers``
    keeps some of a long text's, counted from 0.

    The model stays as it is: same outputs, mode and device, and no gradient is kept.
    """
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"look takes a torch.nn.Module, got {type(model).__name__}; a run of this project is "
            "looked at with run.explain(text)"
        )
    given = _given(model, tokenizer, text, other, inputs)
    try:
        output, found = observed_call(
            model, lambda: model(*given.args, **given.named), most=MOST_WEIGHTS, layers=layers
        )
    except (IndexError, RuntimeError) as error:  # a table of positions was asked beyond its end
        if (refusal := _too_long(model, given)) is not None:
            raise refusal from error
        raise
    attentions = named(found)
    sides, axes = _axes(attentions, given)
    records = {name: tuple(one.record for one in some) for name, some in attentions.items()}
    outcome = None if given.answer is not None else _outcome(model, output, given)
    return Look.of(
        records,
        source=given.source or ("" if given.picture is not None else type(model).__name__),
        source_tokens=sides["source"].labels if "source" in sides else (),
        target_tokens=sides["target"].labels if "target" in sides else (),
        answer=given.answer if outcome is None else outcome.text,
        warnings=tuple(_warnings(found, layers)),
        task="translation" if outcome is None else type(model).__name__,
        outcome=outcome,
        axes=axes,
        sides=sides,
        picture=given.picture,
    )


# ------------------------------------------------------------------ what the model is given


@dataclass(slots=True)
class ModelInputs:
    """The arguments of a model's forward, and what is known of what they mean."""

    args: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    answer: str | None = None
    """What an encoder–decoder wrote, or the target that it was given."""
    sides: dict[str, Axis] = field(default_factory=dict)
    """``source``, ``target`` (what is written at each step), ``input`` (what was read at it)."""
    picture: Pixels | None = None
    grid: tuple[int, int] | None = None
    """Patches of the picture, rows and columns."""
    tokenizer: Any = None


def _given(model: nn.Module, tokenizer: Any, text: Any, other: Any, inputs: Any) -> ModelInputs:
    if (text is None) == (inputs is None):
        raise ConfigError("look takes a text (or a picture) or inputs, one of the two")
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    if inputs is not None:
        return _from_inputs(model, tokenizer, _moved(inputs, device))
    if isinstance(text, list | tuple) and any(isinstance(one, str) for one in text):
        raise ConfigError(
            f"look takes one text, got {len(text)}: call it for each, or give the second text of a "
            "pair as the next argument, look(model, tokenizer, a, b)"
        )
    if not callable(tokenizer):
        raise ConfigError(
            "a text needs the model's tokenizer, a picture its image processor: "
            "look(model, tokenizer, text); without one, give inputs="
        )
    if not isinstance(text, str):
        return _from_picture(model, tokenizer, text, device)
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return _from_pair(model, tokenizer, text, other, device)
    encoded = _taken(model, _moved(tokenizer(text, other, return_tensors="pt"), device))
    source = text if other is None else f"{text}{PAIR_SEPARATOR}{other}"
    return _from_inputs(model, tokenizer, encoded, source=source)


def _from_inputs(model: nn.Module, tokenizer: Any, inputs: Any, source: str = "") -> ModelInputs:
    """Arguments as they are; ids are named by the tokenizer, where there is one."""
    if not isinstance(inputs, Mapping):
        return ModelInputs(inputs if isinstance(inputs, tuple) else (inputs,))
    given = ModelInputs((), dict(inputs), source, tokenizer=tokenizer)
    ids = {"source": "input_ids", "input": "decoder_input_ids"}
    if tokenizer is not None:
        given.sides = {
            side: Axis(pieces(tokenizer, inputs[key][0].tolist()))
            for side, key in ids.items()
            if isinstance(inputs.get(key), Tensor)
        }
    if isinstance(inputs.get("pixel_values"), Tensor):
        _see_picture(given, model, tokenizer, inputs["pixel_values"])
    if not source and tokenizer is not None and "source" in given.sides:
        given.source = tokenizer.decode(inputs["input_ids"][0], skip_special_tokens=True)
    return given


def _from_picture(model: nn.Module, processor: Any, picture: Any, device: Any) -> ModelInputs:
    image = read_picture(picture) if isinstance(picture, Path) else picture
    encoded = processor(images=image, return_tensors="pt")
    return _from_inputs(model, processor, _taken(model, _moved(encoded, device)))


def _from_pair(model: Any, tokenizer: Any, text: str, target: Any, device: Any) -> ModelInputs:
    """A text, and a target that was given or is written; row t writes token t of it."""
    encoded = _taken(model, _moved(tokenizer(text, return_tensors="pt"), device))
    if target is None:
        ids = _written(model, encoded)
        read, written = ids[:, :-1], ids[:, 1:]
    else:
        written = _moved(tokenizer(text_target=target, return_tensors="pt"), device)["input_ids"]
        read = torch.cat((_start(model, written), written[:, :-1]), dim=1)
        if hasattr(model, "prepare_decoder_input_ids_from_labels"):
            read = model.prepare_decoder_input_ids_from_labels(labels=written)
    given = _from_inputs(model, tokenizer, {**encoded, "decoder_input_ids": read}, source=text)
    given.sides["target"] = Axis(pieces(tokenizer, written[0].tolist()))
    given.answer = tokenizer.decode(written[0], skip_special_tokens=True)
    return given


def _written(model: Any, encoded: Mapping[str, Any]) -> Tensor:
    """(1, n) ids, the start token first: what the model takes for most probable, step by step."""
    if not hasattr(model, "generate") or not model.can_generate():
        raise ConfigError(
            f"{type(model).__name__} reads a target and writes none: give one, "
            "look(model, tokenizer, text, target)"
        )
    room = min(MAX_WRITTEN, (_n_positions(model) or MAX_WRITTEN + 1) - 1)
    with evaluating(model):
        return model.generate(**encoded, num_beams=1, do_sample=False, max_new_tokens=room)


def _start(model: Any, like: Tensor) -> Tensor:
    return torch.full_like(like[:, :1], model.config.decoder_start_token_id)


def _moved(given: Any, device: torch.device) -> Any:
    """The same with its tensors on a device."""
    if isinstance(given, Tensor):
        return given.to(device)
    if isinstance(given, Mapping):
        return {key: _moved(one, device) for key, one in given.items()}
    if isinstance(given, list | tuple):
        return tuple(_moved(one, device) for one in given)
    return given


def _taken(model: nn.Module, encoded: Mapping[str, Any]) -> dict[str, Any]:
    """What of a tokenizer's output the model takes: some tell segments to models without any."""
    known = inspect.signature(model.forward).parameters
    return {key: one for key, one in encoded.items() if key in known}


def _n_positions(model: Any) -> int | None:
    """How many tokens the model reads at most, where it says so."""
    most = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return most if isinstance(most, int) and most > 1 else None


def _too_long(model: Any, given: ModelInputs) -> DataError | None:
    """What a text is told that is longer than what the model has positions for."""
    most = _n_positions(model)
    longest = max((len(side) for side in given.sides.values()), default=0)
    if most is None or longest <= most:
        return None
    return DataError(
        f"{type(model).__name__} reads {counted(most, 'token')} at most, and the text has "
        f"{longest:,}; take a part of it"
    )


# ------------------------------------------------------------------ names of rows and columns


def pieces(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """What to show for each id, as our tokenizers do: ``▁`` is a space, ``\\xe2`` a byte."""
    tokens = [str(one) for one in tokenizer.convert_ids_to_tokens(list(ids))]
    backend = getattr(tokenizer, "backend_tokenizer", None)
    in_bytes = hasattr(tokenizer, "byte_decoder") or isinstance(
        getattr(backend, "decoder", None), decoders.ByteLevel
    )
    special = set(tokenizer.all_special_tokens)
    return tuple(one if one in special else _shown(one, in_bytes) for one in tokens)


def _shown(token: str, in_bytes: bool) -> str:
    text = text_of_bytes(token) if in_bytes else _BYTE.sub(_byte, token)
    return text.replace(" ", SPACE)


def _byte(found: re.Match[str]) -> str:
    number = int(found[1], 16)
    return chr(number) if 32 <= number < 127 else f"\\x{number:02x}"


def _axes(
    attentions: Mapping[str, Sequence[Sighting]], given: ModelInputs
) -> tuple[dict[str, Axis], dict[str, dict[str, str]]]:
    """The sides, and attention -> those that are its rows and columns.

    A side whose tokens are not known is numbered; so is one of an attention that has other lengths
    than the texts (windows, joined positions).
    """
    sides, axes = dict(given.sides), {}
    two_texts = any(name.endswith("cross") for name in attentions)
    for name, layers in attentions.items():
        (n_queries, n_keys), added = layers[0].group.shape, layers[0].added_keys
        writes = two_texts and ("decoder" in name or name.endswith("cross"))
        rows = "target" if writes else "source"
        columns = "source" if name.endswith("cross") or not writes else "input"
        if columns == "input" and "input" not in sides:
            columns = "target"
        told = {"rows": (rows, n_queries, ()), "columns": (columns, n_keys - len(added), added)}
        axes[name] = {which: _side(sides, given, name, which, *one) for which, one in told.items()}
    return sides, axes


def _side(
    sides: dict[str, Axis],
    given: ModelInputs,
    name: str,
    which: str,
    role: str,
    n: int,
    added: tuple[str, ...],
) -> str:
    """The side of ``n`` positions and ``added`` ones; it is made where there is none yet."""
    if role not in sides:
        sides[role] = _patches(given.grid, n) if role == "source" else _numbers(n)
    if len(sides[role]) == n and not added:
        return role
    labels = sides[role].labels if len(sides[role]) == n else _numbers(n).labels
    sides[f"{name}.{which}"] = Axis((*labels, *added))
    return f"{name}.{which}"


def _numbers(n: int) -> Axis:
    return Axis(tuple(map(str, range(n))))


def _patches(grid: tuple[int, int] | None, n: int) -> Axis:
    """Patches of a picture behind what stands before them; numbers, where there is no picture."""
    n_before = -1 if grid is None else n - grid[0] * grid[1]
    if grid is None or n_before < 0:
        return _numbers(n)
    before = ("<cls>", *(f"<{i}>" for i in range(1, n_before)))
    return Axis.patches(*grid, before[:n_before])


def _warnings(found: Sequence[Sighting], layers: Collection[int] | None) -> list[str]:
    """What is not shown of what was seen."""
    told = []
    most = max(one.n_rows for one in found)
    if most > 1:
        told.append(f"attention is of {most:,} rows at once: the first is shown")
    if layers is not None:
        numbers = ", ".join(map(str, sorted(layers)))
        told.append(f"the layers {numbers} of the model are shown, counted anew from 0")
    return told


# ------------------------------------------------------------------ pictures and what came out


def _see_picture(given: ModelInputs, model: Any, processor: Any, pixels: Tensor) -> None:
    """Keep the picture (1, 3, H, W) as the model saw it, and the grid of its patches."""
    size = getattr(getattr(model, "config", None), "patch_size", None)
    if size is None or pixels.dim() != 4 or pixels.shape[1] != 3:
        return
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    given.grid = pixels.shape[-2] // height, pixels.shape[-1] // width
    mean, std = (getattr(processor, f"image_{one}", None) for one in ("mean", "std"))
    picture = pixels[0].float().cpu().permute(1, 2, 0).numpy()
    if mean is not None and std is not None and getattr(processor, "do_normalize", True):
        picture = picture * np.asarray(std) + np.asarray(mean)
    elif picture.min() < 0 or picture.max() > 1:
        picture = (picture - picture.min()) / max(float(np.ptp(picture)), 1e-12)
    given.picture = np.round(picture.clip(0, 1) * 255).astype(np.uint8)


def _outcome(model: Any, output: Any, given: ModelInputs) -> Prediction:
    """A label, the words that may come next, or but a vector."""
    logits = getattr(output, "logits", None)
    config = getattr(model, "config", None)
    if not isinstance(logits, Tensor) or config is None:
        return Prediction("vector", "")
    labels = getattr(config, "id2label", None) or {}
    if logits.dim() == 2 and logits.shape[-1] == len(labels):
        return _label(logits[0].float(), [str(labels[i]) for i in range(len(labels))])
    n_vocab = getattr(config, "vocab_size", None)
    if logits.dim() == 3 and logits.shape[-1] == n_vocab and "source" in given.sides:
        return _words(logits[0].float(), given)
    return Prediction("vector", "")


def _label(logits: Tensor, names: Sequence[str]) -> Prediction:
    found = map(Choice, names, logits.softmax(dim=-1).tolist())
    choices = sorted(found, key=lambda one: -one.probability)[:MOST]
    return Prediction("label", choices[0].text, (TopChoices(None, tuple(choices)),))


def _words(logits: Tensor, given: ModelInputs) -> Prediction:
    """Of logits (T, V): what may stand at each mask, or what may follow the text."""
    ids = given.named["input_ids"][0].tolist()
    mask = getattr(given.tokenizer, "mask_token_id", None)
    masked = [t for t, token in enumerate(ids) if token == mask] if mask is not None else []
    rows = masked or ([] if mask is not None else [len(ids) - 1])
    places = []
    for t in rows:
        best = logits[t].softmax(dim=-1).topk(min(MOST, logits.shape[-1]))
        words = pieces(given.tokenizer, best.indices.tolist())
        places.append(TopChoices((t, t + 1), tuple(map(Choice, words, best.values.tolist()))))
    said = " ".join(place.choices[0].text.removeprefix(SPACE) for place in places)
    return Prediction("words", said, tuple(places))
