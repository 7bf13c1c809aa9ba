"""Why a translation may be less than the whole: lengths beyond what was allowed or trained for."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from regard.core.counting import counted
from regard.decoding.settings import DecodeSettings
from regard.models.base import SequenceConfig


@dataclass(frozen=True, slots=True)
class Doubts:
    """How many translations are to be doubted, and for what."""

    most: int
    """Tokens of a target with its end token: where it is cut off, however long its source is."""
    trained: int
    """Tokens of a source with its end token: none longer was trained on (``model.max_len``)."""
    n_cut: int = 0
    n_long: int = 0

    def having(self, n_read: int, n_written: int) -> Doubts:
        """With one more translation: tokens that were read and written, without the end tokens.

        A target that ends has one token less than the most. A model that babbles on about a short
        text is no matter of length: its limit comes sooner.
        """
        cut = n_written >= self.most
        long = n_read >= self.trained
        return Doubts(self.most, self.trained, self.n_cut + cut, self.n_long + long)

    def __add__(self, other: Doubts) -> Doubts:
        """Of both, which are of one run."""
        n_cut, n_long = self.n_cut + other.n_cut, self.n_long + other.n_long
        return Doubts(self.most, self.trained, n_cut, n_long)

    def lines(self) -> list[str]:
        """What a user should know; nothing, if all is well."""
        lines = []
        if self.n_cut:
            lines.append(
                f"{counted(self.n_cut, 'translation')} cut off after {self.most:,} tokens, the "
                "most that decode.max_len or the model allows; take shorter texts"
            )
        if self.n_long:
            lines.append(
                f"{counted(self.n_long, 'text')} longer than the {self.trained:,} tokens that the "
                "model was trained for (model.max_len): much may be left out; take shorter texts"
            )
        return lines

    def log(self) -> None:
        """Tell who listens to the logger ``regard``; Python prints it where nobody does."""
        for line in self.lines():
            logging.getLogger("regard").warning("%s", line)


def no_doubts(config: SequenceConfig, settings: DecodeSettings) -> Doubts:
    """Of a run that has not translated anything yet."""
    longest = settings.max_len if config.longest is None else config.longest - 1
    return Doubts(most=min(settings.max_len, longest), trained=config.max_len)
