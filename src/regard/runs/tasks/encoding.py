"""What the tasks of an encoder have in common before the first step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from regard.data.examples import Column, Table
from regard.data.labelled import Labelled
from regard.data.row_batches import Layout
from regard.models.encoder import Encoder, EncoderConfig
from regard.recipes.recipe import Recipe
from regard.runs.evaluation import Evaluation
from regard.runs.kinds.encoder_run import EncoderRun
from regard.runs.labelled import LabelledData
from regard.runs.prepared import Judged, Prepared
from regard.runs.reports.encoding import write_encoding_report
from regard.runs.tasks.beginning import Begun
from regard.runs.tokenizers import SHARED
from regard.text.tokenizer import Tokenizer
from regard.training.flops import TextFlops, encoder_flops


class Loaded(Protocol):
    """Opens the trained run, so that it can be scored."""

    def __call__(self, path: Path, *, device: str | None) -> EncoderRun:
        """The run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEncoding(Prepared):
    """Texts, their tokenizer and an encoder."""

    config: EncoderConfig
    model: Encoder
    data: LabelledData
    tokenizer: Tokenizer
    layout: Layout
    train: Table
    valid: Table
    formula: TextFlops
    load: Loaded

    @property
    def size(self) -> dict[str, int]:
        """As ``Prepared.size``."""
        return {"training texts": len(self.train), "vocabulary": self.tokenizer.n_vocab}

    @property
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        """As ``Prepared.vocabularies``."""
        return (self.tokenizer,)

    def flops(self, batch: Any) -> float:
        """As ``Prepared.flops``."""
        n_rows, n_tokens = batch.ids.shape
        return self.formula.training(n_rows, n_tokens, batch.n_target_tokens)

    def example(self, number: int) -> str:
        """As ``Prepared.example``."""
        return self.data.splits["train"][number].text

    def judged(self, out: Path, test_sets: Sequence[str] | None) -> Judged:
        """As ``Prepared.judged``."""
        run = self.load(out, device=str(self.device))
        names = self.data.test_sets if test_sets is None else test_sets
        return Judged(run, {name: self.scored(run, name) for name in names})

    def scored(self, run: Any, split: str) -> Evaluation:
        """A run's scores on a split that is in memory already."""
        return run.scored(self.data.split(split), split)

    def report(self, judged: Judged, facts: Mapping[str, Any]) -> None:
        """As ``Prepared.report``."""
        write_encoding_report(judged.run, self.data, judged.evaluations, facts)

    def save(self, folder: Path) -> None:
        """As ``Prepared.save``."""
        self.tokenizer.save(folder / SHARED)


def parts(
    recipe: Recipe, data: LabelledData, start: Begun, layout: Layout, device: torch.device
) -> dict[str, Any]:
    """What every preparation of an encoder consists of, by field."""
    train, train_notes = encoded(data.splits["train"], start.tokenizer, layout, "train")
    valid, valid_notes = encoded(data.splits["valid"], start.tokenizer, layout, "valid")
    return {
        "recipe": recipe,
        "config": start.config,
        "model": start.model,
        "notes": (*data.notes, *start.notes, *train_notes, *valid_notes),
        "device": device,
        "data": data,
        "tokenizer": start.tokenizer,
        "layout": layout,
        "train": train,
        "valid": valid,
        "formula": encoder_flops(start.model),
    }


def encoded(
    examples: Sequence[Labelled], tokenizer: Tokenizer, layout: Layout, name: str
) -> tuple[Table, tuple[str, ...]]:
    """Examples as ids that fit, and a note on those that had to be cut."""
    sides = ([one.text for one in examples], [one.other or "" for one in examples])
    whole = Table(*(Column.joined(tokenizer.encode_batch(side)) for side in sides))
    table, n_cut = layout.cut(whole)
    note = f"{name}: {n_cut} examples cut to max_len={layout.max_len} tokens"
    return table, (note,) if n_cut else ()


def all_texts(examples: Iterable[Labelled]) -> Iterable[str]:
    """What a tokenizer learns from."""
    for one in examples:
        yield one.text
        if one.other is not None:
            yield one.other
