"""A run that guesses words that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import ConfigError, DataError
from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.labelled import Labelled
from regard.data.masking import Masking, fixed_masked
from regard.data.row_batches import Layout
from regard.evaluation.metrics import perplexity
from regard.models.encoder import Encoder
from regard.runs.evaluation import Evaluation
from regard.runs.given import one_text
from regard.runs.kinds.encoder_run import READ_TOKENS, EncoderRun, open_encoder
from regard.runs.labelled import load_labelled
from regard.runs.looking.outcome import MOST, Choice, Outcome, Place
from regard.runs.looking.reading import Laid
from regard.text.specials import MASK
from regard.text.tokenizer import Tokenizer


class Guess(NamedTuple):
    """A token that may stand at a mask, and how likely it is."""

    token: str
    probability: float


class Filled(NamedTuple):
    """A text whose masks are filled with the best guesses, and all guesses for each mask."""

    text: str
    masks: list[list[Guess]]


@dataclass(frozen=True, slots=True, repr=False)
class Filler(EncoderRun):
    """An encoder that knows which words fit."""

    def fill(self, text: str, n: int = 5) -> Filled:
        """Guess what stands at each ``<mask>`` of a text, each by itself, the best first."""
        if n < 1:
            raise ConfigError(f"n={n} guesses were asked for; ask for at least 1")
        read, segments = self.layout.row(self._masked(one_text(text)))
        if len(read) > self.model.config.max_len:
            raise DataError(
                f"the text has {len(read)} tokens with those at its ends, and the model reads "
                f"{self.model.config.max_len}; shorten it"
            )
        with torch.inference_mode():
            ids, kinds = (torch.tensor([row], device=self.device) for row in (read, segments))
            return self._filled(self.model(*self.model.inputs(ids, kinds))[0], read, n)

    def _filled(self, logits: Tensor, read: Sequence[int], n: int) -> Filled:
        """The guesses for each mask of what was read, given logits (S, V)."""
        mask = self.tokenizer.marks.mask
        places = [i for i, token in enumerate(read) if token == mask]
        shares = logits[places].float().softmax(dim=-1).cpu()
        width = shares.shape[-1]
        silent = {*self.tokenizer.marks.named().values(), *self.tokenizer.nameless(width)}
        shares[:, [*silent]] = -1  # they are no words, and come after all of them
        best = shares.topk(min(n, width - len(silent)))
        chosen = iter(best.indices[:, 0].tolist())
        written = [next(chosen) if token == mask else token for token in read]
        return Filled(self.tokenizer.decode(written), self._guesses(best.values, best.indices))

    def looked_at(self, text: str) -> list[int]:
        """The ids of a text, which may have masks."""
        return self._masked(text) if MASK in self._marked(text) else self.tokenizer.encode(text)

    def unknown_words(self, text: str) -> list[str]:
        """As ``EncoderRun.unknown_words``; a mask is none."""
        return EncoderRun.unknown_words(self, self._marked(text).replace(MASK, " "))

    def outcome(self, output: Tensor, laid: Laid) -> Outcome:
        """The text with its masks filled, and the guesses for each."""
        found = self._filled(output, laid.ids, MOST)
        mask = self.tokenizer.marks.mask
        rows = [(i, i + 1) for i, token in enumerate(laid.ids) if token == mask]
        places = [
            Place(row, tuple(Choice(*guess) for guess in guesses))
            for row, guesses in zip(rows, found.masks, strict=True)
        ]
        return Outcome("words", found.text if places else "", tuple(places))

    def _marked(self, text: str) -> str:
        """The text with our mask, if it was written with the tokenizer's own, such as [MASK]."""
        mask = self.tokenizer.marks.mask
        return text if mask is None else text.replace(self.tokenizer.tokens([mask])[0], MASK)

    def _masked(self, text: str) -> list[int]:
        """Ids of a text with masks; a piece takes the space before it along, so a mask does."""
        first, *others = self._marked(text).split(MASK)
        mask = self.tokenizer.marks.mask
        if not others or mask is None:
            raise DataError(f"there is no {MASK} in {text!r}; write it where a word is left out")
        ids = self.tokenizer.encode(first.rstrip())
        for i, part in enumerate(others):
            last = i == len(others) - 1
            ids += [mask, *self.tokenizer.encode(part if last else part.rstrip())]
        return ids

    def _guesses(self, values: Tensor, indices: Tensor) -> list[list[Guess]]:
        return [
            [Guess(*one) for one in zip(self.tokenizer.tokens(ids), shares, strict=True)]
            for ids, shares in zip(indices.tolist(), values.tolist(), strict=True)
        ]

    def evaluate(self, split: str = "test") -> Evaluation:
        """Scores on a split of the data the run was trained with, the same words left out."""
        return self.scored(load_labelled(self.recipe.data, "text").split(split), split)

    def scored(self, examples: Sequence[Labelled], split: str) -> Evaluation:
        """Scores on any texts."""
        masking = Masking.of(self.layout, self.tokenizer.n_vocab)
        table = masked_examples(examples, self.tokenizer, self.layout)
        scores = guessing(self.model, fixed_masked(table, masking, READ_TOKENS), self.device)
        return Evaluation({"task": self.task, "split": split, "n": len(examples), **scores}, [])


def masked_examples(
    examples: Sequence[Labelled], tokenizer: Tokenizer, layout: Layout
) -> Sequence[Example]:
    """Texts as ids that fit; those without any token are left out."""
    ids = tokenizer.encode_batch([one.text for one in examples])
    return layout.cut([Example(text, ()) for text in ids if text])[0]


@torch.inference_mode()
def guessing(model: Encoder, batches: Sequence[Batch], device: torch.device) -> dict[str, float]:
    """Accuracy, perplexity and loss of the masked places."""
    right, total, n = 0, 0.0, 0
    for batch in batches:
        here = batch.to(device)
        log_probs = masked_logits(model, here.ids, here.segments, here.positions).log_softmax(
            dim=-1
        )
        right += int((log_probs.argmax(dim=-1) == here.targets).sum())
        total += log_probs.gather(1, here.targets.unsqueeze(1)).double().sum().item()
        n += len(here.targets)
    if not n:
        raise DataError("the texts have no word that could be left out and guessed; give others")
    return {"accuracy": right / n, "perplexity": perplexity(total, n), "loss": -total / n}


def masked_logits(model: Encoder, ids: Tensor, segments: Tensor, places: Tensor) -> Tensor:
    """What may stand at some of the B · S places -> (N, V), in float32."""
    return F.linear(*model(*model.inputs(ids, segments), places=places)).float()


def load_filler(path: str | Path, *, device: str | None = None) -> Filler:
    """Open the folder of a run that guesses words. Nothing in it is executed."""
    return Filler(*open_encoder(path, "masked", device).parts())
