"""Masked words: what may stand where a text leaves a word out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from regard.core.errors import ConfigError, DataError
from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.records import Labelled
from regard.data.row_batches import Masking, fixed_masked, masked_stream
from regard.data.splits import Data
from regard.data.stream import Stream
from regard.evaluation.label_metrics import perplexity
from regard.models.base import LazyLogits
from regard.models.encoder import Encoder
from regard.tasks.base import TASKS, Evaluation, Scoring
from regard.tasks.encoder_tasks import Begin, EncodingTask, PreparedEncoding, with_tables
from regard.tasks.encoding import READ_TOKENS, Chosen, EncoderInput, EncoderRun
from regard.tasks.examples import PageExample
from regard.tasks.look import MOST, Choice, Prediction, TopChoices
from regard.tasks.opening import one_text
from regard.tasks.reading_verbs import EMBED, FILL, NEAREST
from regard.tasks.texts import Subject, given_texts
from regard.tasks.verb import Form, Unit
from regard.text.settings import TEXT_SETTINGS
from regard.text.specials import MASK
from regard.text.words import spans
from regard.training.distributed import divided
from regard.training.losses import Losses, Objective, cross_entropy


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

    weighs = True

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
        mask = self.tokenizer.specials.mask
        places = [i for i, token in enumerate(read) if token == mask]
        shares = logits[places].float().softmax(dim=-1).cpu()
        silent = self._silent(shares.shape[-1])
        shares[:, silent] = -1  # they are no words, and come after all of them
        best = shares.topk(min(n, shares.shape[-1] - len(silent)))
        chosen = iter(best.indices[:, 0].tolist())
        written = [next(chosen) if token == mask else token for token in read]
        guesses = [
            [Guess(*one) for one in zip(self.tokenizer.tokens(ids), shares, strict=True)]
            for ids, shares in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        return Filled(self.tokenizer.decode(written), guesses)

    def _silent(self, width: int) -> list[int]:
        """Ids below ``width`` that are no words."""
        return [*{*self.tokenizer.specials.named().values(), *self.tokenizer.nameless(width)}]

    @override
    def chosen(self, output: Tensor, laid: EncoderInput) -> Chosen:
        """The best guess for each mask, of logits (S, V)."""
        mask, said = self.tokenizer.specials.mask, output.clone()
        said[:, self._silent(output.shape[-1])] = -torch.inf
        rows = tuple(i for i, token in enumerate(laid.ids) if token == mask)
        ids = tuple(said[list(rows)].argmax(dim=-1).tolist())
        return Chosen(tuple(self.tokenizer.tokens(ids)), ids, rows)

    @override
    def looked_at(self, text: str) -> list[int]:
        return self._masked(text) if MASK in self._marked(text) else self.tokenizer.encode(text)

    @override
    def unknown_spans(self, text: str) -> list[tuple[int, int]]:
        mask = self.tokenizer.specials.mask
        marks = [MASK] if mask is None else [MASK, self.tokenizer.tokens([mask])[0]]
        for mark in marks:  # as many spaces, so that places stay
            text = text.replace(mark, " " * len(mark))
        return EncoderRun.unknown_spans(self, text)

    @override
    def outcome(self, output: Tensor, laid: EncoderInput) -> Prediction:
        """The text with its masks filled, and the guesses for each."""
        found = self._filled(output, laid.ids, MOST)
        mask = self.tokenizer.specials.mask
        rows = [(i, i + 1) for i, token in enumerate(laid.ids) if token == mask]
        places = [
            TopChoices(row, tuple(Choice(*guess) for guess in guesses))
            for row, guesses in zip(rows, found.masks, strict=True)
        ]
        return Prediction("words", found.text if places else "", tuple(places))

    def _marked(self, text: str) -> str:
        """The text with our mask, if it was written with the tokenizer's own, such as [MASK]."""
        mask = self.tokenizer.specials.mask
        return text if mask is None else text.replace(self.tokenizer.tokens([mask])[0], MASK)

    def _masked(self, text: str) -> list[int]:
        """Ids of a text with masks; a piece takes the space before it along, so a mask does."""
        first, *others = self._marked(text).split(MASK)
        mask = self.tokenizer.specials.mask
        if not others or mask is None:
            raise DataError(f"there is no {MASK} in {text!r}; write it where a word is left out")
        ids = self.tokenizer.encode(first.rstrip())
        for i, part in enumerate(others):
            last = i == len(others) - 1
            ids += [mask, *self.tokenizer.encode(part if last else part.rstrip())]
        return ids

    @override
    def scored(self, examples: Sequence[Labelled], split: str) -> Evaluation:
        """Scores on any texts; those without any token are left out."""
        ids = self.tokenizer.encode_batch([one.text for one in examples])
        table, _ = self.layout.cut([Example(text, ()) for text in ids if text])
        masking = Masking(self.layout, self.tokenizer.n_vocab)
        scores = guessing(self.model, fixed_masked(table, masking, READ_TOKENS), self.device)
        return self.evaluation(split, len(examples), scores)


@torch.inference_mode()
def guessing(model: Encoder, batches: Sequence[Batch], device: torch.device) -> dict[str, float]:
    """Accuracy, perplexity and loss of the masked places."""

    def judged(given: Batch) -> tuple[int, float, int]:
        batch = given.to(device)
        inputs = model.inputs(batch.ids, batch.segments)
        logits = F.linear(*model(*inputs, places=batch.positions)).float()  # (N, V)
        log_probs = logits.log_softmax(dim=-1)
        right = int((log_probs.argmax(dim=-1) == batch.targets).sum())
        total = log_probs.gather(1, batch.targets.unsqueeze(1)).double().sum().item()
        return right, total, len(batch.targets)

    found = divided(batches, judged)
    right, n = sum(one[0] for one in found), sum(one[2] for one in found)
    total = sum(one[1] for one in found)
    if not n:
        raise DataError("the texts have no word that could be left out and guessed; give others")
    return {"accuracy": right / n, "perplexity": perplexity(total, n), "loss": -total / n}


class MaskedLoss(Objective):
    """Cross-entropy of the words left out, summed over them."""

    def __init__(self, smoothing: float, *, compiled: bool = False) -> None:
        self.smoothing = smoothing
        self._lazy_logits = torch.compile(_lazy_logits) if compiled else _lazy_logits

    def __call__(self, model: Encoder, batch: Batch) -> Losses:
        """Without the logits of any other place."""
        inputs = model.inputs(batch.ids, batch.segments)
        logits = self._lazy_logits(model, batch.positions, *inputs)
        loss = cross_entropy(logits, batch.targets, label_smoothing=self.smoothing)
        return Losses.of("cross_entropy", loss, batch.count)


def _lazy_logits(model: Encoder, places: Tensor, *inputs: Tensor) -> LazyLogits:
    return model(*inputs, places=places)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMasked(PreparedEncoding):
    """Texts, and an encoder that guesses what is left out of them."""

    criteria = ("loss", "accuracy")
    masking: Masking

    @override
    def stream(self) -> Stream:
        settings = self.recipe.train
        return masked_stream(
            self.train, self.masking, batch_tokens=settings.batch_tokens, seed=settings.seed
        )

    @override
    def objective(self) -> MaskedLoss:
        return MaskedLoss(self.recipe.train.label_smoothing, compiled=self.compiled)

    @override
    def validation(self) -> Scoring:
        """The loss is the plain one, without smoothing."""
        batches = fixed_masked(self.valid, self.masking, self.recipe.train.batch_tokens)
        return Scoring(lambda model: guessing(model, batches, self.device))


class MaskedTask(EncodingTask):
    """Texts, and an encoder that guesses what is left out of them."""

    name, run, unit = "masked", Filler, Unit("guess", "guesses")
    hub_task = "fill-mask"
    verbs = (FILL, EMBED, NEAREST)
    heeds = TEXT_SETTINGS | {"train.init", "train.label_smoothing"}
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9, "head": "masked"}
    head_scores = ("loss", "accuracy")
    of_sentences = (
        {"text": f"the animal did not cross the street because {MASK} was too tired"},
        {"text": f"the animal did not cross the {MASK} because it was too wide"},
        {"text": f"jane {MASK} africa in {MASK}"},
    )
    well_known = ({"text": f"The capital of France is {MASK}."},)

    @override
    def prepared(self, data: Data[Any], begun: Path | None, begin: Begin) -> PreparedMasked:
        fields = with_tables(begin(head="masked"))
        masking = Masking(fields["layout"], fields["tokenizer"].n_vocab)
        return PreparedMasked(**fields, masking=masking)

    @override
    def given_subject(self, run: Filler, texts: Sequence[str], name: str, n: int) -> Subject:
        """Texts need no labels: words are left out of them."""
        given = given_texts(texts, name, n)
        examples = [Labelled(text) for text in given]
        judge = self.scorer(lambda: run.scored(examples, name).scores)
        return self.measured_on(run, given, judge, name)

    @override
    def form(self, run: Filler) -> Form:
        return Form(
            label="A text with words left out",
            go="Fill in",
            answer="Filled in",
            hint=f"Write {MASK} where a word is left out.",
            about="guesses words",
            stands="The words stand.",
            view="masks",
        )

    @override
    def asked_of(self, run: Filler, records: Sequence[Any]) -> Iterator[PageExample]:
        """Texts without their longest word."""
        for one in records:
            if found := spans(one.text):
                start, end = max(found, key=lambda span: span[1] - span[0])
                yield {"text": one.text[:start] + MASK + one.text[end:]}


TASKS.add("masked")(MaskedTask())
