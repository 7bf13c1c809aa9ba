"""A run that answers questions about texts with words of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.core.errors import ConfigError, DataError
from regard.data.questions import Question
from regard.evaluation.metrics import exact_match, f1
from regard.runs.evaluation import Evaluation
from regard.runs.finding import Answer, Asked
from regard.runs.given import one_or_many
from regard.runs.kinds.encoder_run import READ_TOKENS, EncoderRun, Texts, open_encoder
from regard.runs.questions import load_questions


@dataclass(frozen=True, slots=True, repr=False)
class Answerer(EncoderRun):
    """An encoder that finds where an answer starts and where it ends."""

    def answer(
        self, questions: str | Sequence[str], contexts: str | Sequence[str], *, top: int = 1
    ) -> Any:
        """The answer to a question in a text: ``Answer(text, start, end, probability)``.

        Of several questions a list; they may all be about one text, or each about its own. With
        ``top`` more than 1, each answer is a list of so many, the best first. A text may be as
        long as you like.
        """
        asked = one_or_many(questions)
        texts = [contexts] * len(asked) if isinstance(contexts, str) else one_or_many(contexts)
        if len(texts) != len(asked):
            raise DataError(
                f"{len(asked)} questions about {len(texts)} texts; give one text for all, or one "
                "for each"
            )
        found: list[Any] = self.answers(list(zip(asked, texts, strict=True)), top)
        if top == 1:
            found = [best for (best,) in found]
        return found[0] if isinstance(questions, str) else found

    @torch.inference_mode()
    def answers(self, pairs: Sequence[tuple[str, str]], n: int = 1) -> list[list[Answer]]:
        """The ``n`` best answers to each question in its text; there may be fewer."""
        if n < 1:
            raise ConfigError(f"{n} answers were asked for; ask for at least 1")
        for question, context in pairs:
            if not question.strip():
                raise DataError("the question is empty; ask something")
            if not context.strip():
                raise DataError("the text is empty; give one that has the answer in it")
        asked = Asked.of(pairs, self.tokenizer, self.layout)
        return asked.answers(asked.read(self.model, self.device, READ_TOKENS), n)

    def n_cut(self, texts: Texts) -> int:
        """How many questions lose their end; texts are read in windows and lose nothing.

        Of texts without questions, as ``embed`` takes them: how many are cut.
        """
        pairs = [one for one in texts if not isinstance(one, str)]
        alone = [one for one in texts if isinstance(one, str)]
        asked = Asked.of(pairs, self.tokenizer, self.layout)
        return asked.windows.n_cut + EncoderRun.n_cut(self, alone)

    def evaluate(self, split: str = "test") -> Evaluation:
        """Scores on a split of the data the run was trained with."""
        return self.scored(load_questions(self.recipe.data).split(split), split)

    def scored(self, questions: Sequence[Question], split: str) -> Evaluation:
        """Scores on any questions; the texts of the evaluation are the answers."""
        found = self.answers([(one.text, one.context) for one in questions])
        given = [best.text for (best,) in found]
        right = [one.answers for one in questions]
        scores = {"exact_match": exact_match(given, right), "f1": f1(given, right)}
        about = {"task": self.task, "split": split, "n": len(questions)}
        return Evaluation({**about, **scores}, given)


def load_answerer(path: str | Path, *, device: str | None = None) -> Answerer:
    """Open the folder of a run that answers questions. Nothing in it is executed."""
    return Answerer(*open_encoder(path, "answers", device).parts())
