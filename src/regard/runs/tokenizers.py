"""The tokenizers of a run: one for both sides, or one each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.pairs import Pair
from regard.text.pretrained import MARKS, PretrainedTokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

SHARED, SOURCE, TARGET = "tokenizer.json", "source.json", "target.json"


@dataclass(frozen=True, slots=True)
class Tokenizers:
    """How a run reads and writes."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """Whether both sides use the same."""
        return self.source is self.target

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, or source.json and target.json."""
        if self.shared:
            self.source.save(folder / SHARED)
        else:
            self.source.save(folder / SOURCE)
            self.target.save(folder / TARGET)


def load_tokenizers(folder: Path) -> Tokenizers:
    """What ``save`` wrote."""
    read = PretrainedTokenizer.load if (folder / MARKS).exists() else Tokenizer.load
    if (folder / SOURCE).exists():
        return Tokenizers(read(folder / SOURCE), read(folder / TARGET))
    shared = read(folder / SHARED)
    return Tokenizers(shared, shared)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The one tokenizer of a run that reads one text."""
    return load_tokenizers(folder).target


def train_tokenizers(pairs: Sequence[Pair], settings: TextSettings) -> Tokenizers:
    """Tokenizers for pairs like these."""
    sources = [pair.source for pair in pairs]
    targets = [pair.target for pair in pairs]
    if settings.shared:
        shared = Tokenizer.train([*sources, *targets], settings)
        return Tokenizers(shared, shared)
    return Tokenizers(Tokenizer.train(sources, settings), Tokenizer.train(targets, settings))
