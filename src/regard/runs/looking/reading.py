"""A look at an encoder that reads a text, or two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import ConfigError, DataError
from regard.data.examples import Example
from regard.data.row_batches import Layout
from regard.inspection.capture import POOL
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.encoder import Encoder
from regard.runs import edits
from regard.runs.edits import AnyEdit, ForceToken
from regard.runs.looking.limits import check_length
from regard.runs.looking.look import Look
from regard.runs.looking.outcome import Outcome
from regard.text.tokenizer import Tokenizer

TAB = "\t"
"""Between the two texts of a pair."""


@dataclass(frozen=True, slots=True)
class Laid:
    """A text or a pair as an encoder reads it."""

    ids: tuple[int, ...]
    segments: tuple[int, ...]
    cut: bool
    """Whether it was longer than the model can read."""
    texts: tuple[str, ...]


Came = Callable[[Tensor, Laid], Outcome]
"""What the model gave for a text, without the axis of the batch, and the text -> its outcome."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What is needed of a run, and all that is."""

    task: str
    model: Encoder
    tokenizer: Tokenizer
    layout: Layout
    device: torch.device
    pairs: bool | None
    """Whether it takes two texts; None where it takes one or two."""
    encode: Callable[[str], list[int]]
    came: Came

    def look(self, text: str, other: str | None, edit: Any) -> Look:
        """Where every attention looks while it is read."""
        changes = edits.edits_from(edit)
        _refuse_writing(changes)
        source = edits.swapped(self._source(text, other), changes)
        laid = self._laid([source] if self.pairs is False else source.split(TAB, 1))
        check_length(self.model.config, len(laid.ids))
        ids, kinds = (torch.tensor([row], device=self.device) for row in (laid.ids, laid.segments))
        with edited(self.model, edits.of_model(changes)):
            output, found = recorded_call(self.model, *self.model.inputs(ids, kinds))
        edits.check_keys(changes, found)
        outcome = self.came(output[0], laid)
        return Look(
            source=source,
            source_tokens=tuple(self.tokenizer.tokens(laid.ids)),
            target_tokens=(outcome.text,) if POOL in found else (),
            answer=outcome.text,
            attentions={name: tuple(one.weights for one in all_) for name, all_ in found.items()},
            records=found,
            edits=tuple(map(edits.as_json, changes)),
            doubts=self._doubts(laid),
            task=self.task,
            outcome=outcome,
        )

    def _source(self, text: str, other: str | None) -> str:
        """The text, or both with a tab between them."""
        for one in (text, "" if other is None else other):
            if not isinstance(one, str):
                raise DataError(f"explain takes texts, got {type(one).__name__}")
        if self.pairs and other is None and TAB not in text:
            raise DataError("this run reads pairs of texts: give two, or a tab between them")
        if self.pairs is False and other is not None:
            raise DataError("this run reads each text alone: give one, not two")
        return text if other is None else f"{text}{TAB}{other}"

    def _laid(self, texts: Sequence[str]) -> Laid:
        encoded = [self.encode(text) for text in texts]
        if not any(encoded):
            raise DataError("there is nothing to look at in an empty text")
        first, second = encoded if len(encoded) > 1 else (encoded[0], ())
        table, n_cut = self.layout.cut([Example(first, second)])
        ids, segments = self.layout.row(table.source[0], table.target[0])
        return Laid(tuple(map(int, ids)), tuple(segments), n_cut > 0, tuple(texts))

    def _doubts(self, laid: Laid) -> tuple[str, ...]:
        if not laid.cut:
            return ()
        most = self.model.config.max_len
        return (f"the text is longer than the {most:,} tokens that the model reads: it was cut",)


def _refuse_writing(changes: Sequence[AnyEdit]) -> None:
    if any(isinstance(change, ForceToken) for change in changes):
        raise ConfigError("force_token: this run reads and writes nothing, so no token is forced")
