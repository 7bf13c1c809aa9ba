"""The vocabularies beside a model.bin, and how their ids become ours."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.interop.hf_folder import CONFIG, read_config
from regard.interop.renumbering import Renumbering, specials_first
from regard.text.specials import BEGIN, END, PAD, UNKNOWN

SHARED, SOURCE, TARGET = "shared_vocabulary", "source_vocabulary", "target_vocabulary"
PADDINGS = (PAD, "<blank>")
"""What padding is called, where there is a token for it."""


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """Their tokens by their ids, and what their description says of them."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    shared: bool
    said: Mapping[str, Any]

    @property
    def reads_end(self) -> bool:
        """Whether the end token of a source is read."""
        return bool(self.said.get("add_source_eos", False))

    def numbering(self) -> tuple[Renumbering, Renumbering]:
        """How ids of source and target become ours."""
        return self._side(self.source), self._side(self.target)

    def _side(self, tokens: Sequence[str]) -> Renumbering:
        ids = {token: number for number, token in enumerate(tokens)}
        pad = next((ids[name] for name in PADDINGS if name in ids), None)
        begin = self.said.get("decoder_start_token") or self.said.get("bos_token") or BEGIN
        end, unknown = self.said.get("eos_token") or END, self.said.get("unk_token") or UNKNOWN
        for token in {end, begin} if tokens is self.target else {end}:
            if token not in ids:
                raise CheckpointError(f"the vocabulary has no {token!r}, which its model needs")
        first = ids.get(begin, ids[end])
        return specials_first(
            len(tokens), pad=pad, begin=first, end=ids[end], unknown=ids.get(unknown)
        )


def read_vocabularies(folder: Path, n_source: int, n_target: int) -> Vocabularies:
    """One for both sides, or one each; as many tokens as the model has rows."""
    said = read_config(folder) if (folder / CONFIG).exists() else {}
    unknown = said.get("unk_token") or UNKNOWN
    shared = _tokens(folder, SHARED, n_source, unknown)
    if shared is not None:
        return Vocabularies(shared, shared, True, said)
    source = _tokens(folder, SOURCE, n_source, unknown)
    target = _tokens(folder, TARGET, n_target, unknown)
    if source is None or target is None:
        raise CheckpointError(
            f"{folder} has no vocabulary: expected {SHARED}, or {SOURCE} and {TARGET}, "
            "as .json or .txt"
        )
    return Vocabularies(source, target, False, said)


def _tokens(folder: Path, name: str, n: int, unknown: str) -> tuple[str, ...] | None:
    for ending in (".json", ".txt"):
        path = folder / (name + ending)
        if path.exists():
            break
    else:
        return None
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if ending == ".json" else text.removesuffix("\n").split("\n")
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if not isinstance(found, list) or not all(isinstance(token, str) for token in found):
        raise CheckpointError(f"{path} must hold a list of tokens")
    if unknown not in found and len(found) == n - 1:
        found = [*found, unknown]  # old vocabularies leave the last one out
    if len(found) != n:
        raise CheckpointError(f"{path} has {len(found)} tokens, but its model has {n} rows")
    return tuple(found)
