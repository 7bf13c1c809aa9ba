"""How well a language model does tasks that are written as texts to go on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from regard.data.exercises import Exercise, Item
from regard.decoding.continuing import Manner
from regard.evaluation.metrics import computed
from regard.models.decoder import LanguageModel
from regard.recipes.recipe import Recipe
from regard.runs.writing.framing import Framing
from regard.runs.writing.language_scores import log_probs_after
from regard.runs.writing.pen import Pen, seeded


class Solver(Protocol):
    """What is needed of a language model's run."""

    @property
    def recipe(self) -> Recipe:
        """How long its answers may be."""
        ...

    @property
    def framing(self) -> Framing:
        """How it reads."""
        ...

    @property
    def model(self) -> LanguageModel:
        """What says how probable answers are."""
        ...

    @property
    def device(self) -> torch.device:
        """Where."""
        ...

    @property
    def context(self) -> int:
        """Tokens that it can read."""
        ...

    @property
    def pen(self) -> Pen:
        """What writes."""
        ...

    def manner(self, **choices: Any) -> Manner:
        """How to write."""
        ...


def exercise_scores(run: Solver, exercises: Sequence[Exercise]) -> dict[str, dict[str, Any]]:
    """Scores of each exercise by its name.

    Where the answers are few, the most probable one is taken: ``accuracy``. Where any text may be
    one, it is written, the most probable token each time: ``exact_match``, ``bleu`` and ``chrf``.
    What is too long to be read counts as not answered.
    """
    return {one.name: _scores(run, one) for one in exercises}


def _scores(run: Solver, exercise: Exercise) -> dict[str, Any]:
    items = exercise.items
    prompts = [run.framing.read(item.prompt) for item in items]
    if exercise.options:
        return {"n": len(items), "accuracy": _accuracy(run, prompts, items, exercise.options)}
    return {"n": len(items), **_text_scores(_written(run, prompts), items)}


def _accuracy(
    run: Solver, prompts: Sequence[list[int]], items: Sequence[Item], options: Sequence[str]
) -> float:
    """The share of items whose answer is the most probable of the options."""
    after = [run.framing.inside(f" {option}") for option in options]
    most = run.context + 1 - max(map(len, after))  # the last token is never read
    short = [place for place, prompt in enumerate(prompts) if len(prompt) <= most]
    asked = [(prompts[place], one) for place in short for one in after]
    scores = log_probs_after(run.model, asked, device=run.device)
    right = 0
    for row, place in enumerate(short):
        of_item = scores[row * len(options) : (row + 1) * len(options)]
        right += options[of_item.index(max(of_item))] == items[place].answer
    return right / len(items)


def _written(run: Solver, prompts: Sequence[list[int]]) -> list[str]:
    """What the model writes after each prompt."""
    manner = run.manner(max_new=run.recipe.decode.max_len, temperature=0.0)
    short = [place for place, prompt in enumerate(prompts) if len(prompt) <= run.context]
    found = run.pen.write([prompts[place] for place in short], manner, rng=seeded(0))
    texts = [""] * len(prompts)
    for place, (one,) in zip(short, found, strict=True):
        texts[place] = one.text.strip()
    return texts


def _text_scores(texts: Sequence[str], items: Sequence[Item]) -> Mapping[str, Any]:
    answers = [item.answer for item in items]
    return computed(("exact_match", "bleu", "chrf"), texts, answers)
