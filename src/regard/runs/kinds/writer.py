"""A language model as one object: it writes on, and says how probable texts are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from regard.checkpoints.run_folder import RunFolder, load_model
from regard.core.counting import counted
from regard.core.errors import DataError
from regard.data.exercises import Exercise, exercise_splits
from regard.data.plain_texts import text_splits
from regard.decoding.continuing import Dropped, Manner
from regard.models.decoder import LanguageModel
from regard.models.presets import n_parameters
from regard.recipes.recipe import Recipe
from regard.runs.device import pick_device
from regard.runs.evaluation import Evaluation
from regard.runs.facts import common_facts
from regard.runs.given import one_or_many, one_text, several
from regard.runs.looking.look import Look
from regard.runs.looking.writing import MAX_TOKENS, Prompt
from regard.runs.opening import check_vocabulary, recipe_in
from regard.runs.splits import split_of
from regard.runs.tokenizers import load_tokenizer
from regard.runs.translation import number_format
from regard.runs.verbs import check_task
from regard.runs.writing.chat import Conversation, conversation
from regard.runs.writing.chat_prompts import Truncate, check_truncate
from regard.runs.writing.exercises import exercise_scores
from regard.runs.writing.framing import Framing, framing_for
from regard.runs.writing.judge import Judge
from regard.runs.writing.pen import Pen, Stop, Written, seeded
from regard.text.chat import Message
from regard.text.pretrained import PretrainedTokenizer
from regard.text.tokenizer import Tokenizer, unknown_words

MAX_NEW = 200
"""Tokens that are written where nothing is said."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A trained language model with all it needs to be used."""

    folder: RunFolder
    recipe: Recipe
    framing: Framing
    model: LanguageModel
    device: torch.device

    @property
    def task(self) -> str:
        """What the model does."""
        return "language"

    @property
    def tokenizer(self) -> Tokenizer:
        """How it reads and writes."""
        return self.framing.tokenizer

    @property
    def context(self) -> int:
        """Tokens that it can read."""
        return self.model.config.max_len

    def __repr__(self) -> str:
        size = counted(n_parameters(self.model), "parameter")
        return (
            f"<Writer {self.folder.path}: {self.recipe.model.preset}, context {self.context}, "
            f"{size}, {self.device}>"
        )

    # ---------------------------------------------------------------- writing

    def generate(
        self,
        prompt: str | Sequence[str] = "",
        *,
        max_new: int = MAX_NEW,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        n: int | None = None,
        stop: Stop = (),
        truncate: Truncate = None,
    ) -> Any:
        """Write on after a prompt, or after each of several: str -> str, list -> list.

        The prompt is not repeated, so prompt + text is the whole; with ``n`` each prompt gets a
        list of so many texts. Temperature 0 takes the most probable token each time. Each text
        stops before the first ``stop``, if it comes to one.
        """
        prompts = one_or_many(prompt)
        manner = self.manner(max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p)
        written = self.written(
            prompts, manner, rng=seeded(seed), n=1 if n is None else n, stop=stop, truncate=truncate
        )
        texts: list[Any] = [[one.text for one in several] for several in written]
        if n is None:
            texts = [several[0] for several in texts]
        return texts[0] if isinstance(prompt, str) else texts

    def stream(
        self,
        prompt: str = "",
        *,
        max_new: int = MAX_NEW,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: Stop = (),
        truncate: Truncate = None,
        dropped: Dropped | None = None,
    ) -> Iterator[str]:
        """The text of ``generate`` in pieces as they come; it ends early once ``dropped``."""
        manner = self.manner(max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p)
        ids = self.prompt_ids(one_text(prompt), max_new, truncate)
        return self.pen.pieces(ids, manner, rng=seeded(seed), stop=stop, dropped=dropped)

    def writing(self, *, seed: int | None = None, stop: Stop = (), **choices: Any) -> Writing:
        """A way to write on after one prompt after the other: one seed is for all of them."""
        return Writing(self, self.manner(**choices), seeded(seed), stop)

    def chat(self, messages: Sequence[Message], **how: Any) -> str:
        """The model's answer to ``[{"role": "user", "content": "…"}, …]``, by its own template."""
        return self.conversation(messages, **how).reply()

    def conversation(self, messages: Sequence[Message] = (), **how: Any) -> Conversation:
        """A conversation that remembers its turns, and streams; ``how`` as ``generate`` has it."""
        return conversation(self, messages, **how)

    def manner(self, **choices: Any) -> Manner:
        """How to write, within what this model can."""
        framing = self.framing
        nameless = self.tokenizer.nameless(self.model.config.n_vocab)
        return Manner(
            context=self.context,
            end_ids=framing.end_ids,
            hidden_ids=(*framing.hidden_ids, *nameless),
            **choices,
        )

    def written(
        self,
        prompts: Sequence[str],
        manner: Manner,
        *,
        rng: torch.Generator,
        n: int = 1,
        stop: Stop = (),
        truncate: Truncate = None,
        dropped: Dropped | None = None,
    ) -> list[list[Written]]:
        """``n`` texts for each prompt, with all there is to know about them.

        Once ``dropped`` says that nobody waits any more, they stay as they are.
        """
        ids = [self.prompt_ids(prompt, manner.max_new, truncate) for prompt in prompts]
        return self.pen.write(ids, manner, rng=rng, n=n, stop=stop, dropped=dropped)

    @property
    def pen(self) -> Pen:
        """What writes."""
        dtype = number_format(self.recipe.decode.precision, self.device)
        return Pen(self.model, self.framing, self.device, dtype, self.recipe.decode.fast)

    def prompt_ids(self, prompt: str, max_new: int, truncate: Truncate = None) -> list[int]:
        """A prompt as ids that fit into the context.

        Where its beginning is cut off, room is made for ``max_new`` tokens, but at least half of
        the context is kept. What a foreign model finds before every text stays there.
        """
        check_truncate(truncate)
        ids = self.framing.read(prompt)
        if len(ids) <= self.context:
            return ids
        if truncate is None:
            raise DataError(self.too_long(prompt))
        foreign = isinstance(self.tokenizer, PretrainedTokenizer)
        opening = self.framing.opening if foreign else ()
        n = max(self.context // 2, self.context + 1 - max_new) - len(opening)
        return [*opening, *ids[-max(1, n) :]]

    def fits(self, prompt: str) -> bool:
        """Whether the context holds a prompt."""
        return len(self.framing.read(prompt)) <= self.context

    def too_long(self, prompt: str) -> str:
        """Why a prompt does not fit, and what to do."""
        return (
            f"the prompt has {len(self.framing.read(prompt)):,} tokens, but the model's context "
            f"holds {self.context:,}; shorten it, or let its beginning be cut off (--truncate left)"
        )

    # ---------------------------------------------------------------- judging

    def score(self, texts: str | Sequence[str]) -> Any:
        """The log-probability of each text, its end included: str -> float, list -> list.

        What is longer than the context is judged with at least half a context before each token.
        The first token of a foreign model that knows no beginning is not counted.
        """
        totals = self.judge.log_probs(one_or_many(texts))
        return totals[0] if isinstance(texts, str) else totals

    def perplexity(self, texts: str | Sequence[str], *, stride: int | None = None) -> float:
        """Of a text, or of several end to end, as they are learned.

        Windows of the whole context begin ``stride`` apart, and each token is scored once, with at
        least context - stride tokens before it where there are so many. Without a stride windows
        do not overlap.
        """
        return self.judge.perplexity(one_or_many(texts), stride)

    def choose(self, prompt: str, options: Sequence[str]) -> dict[str, float]:
        """Given that one of the options follows the prompt: how probable is each?

        An option begins with a space where one belongs between it and the prompt.
        """
        among = several(options)
        if not 2 <= len(among) == len(set(among)):
            raise DataError(f"choose takes two options or more, all different: {options!r}")
        chances = self.judge.chances(one_text(prompt), among)
        return dict(zip(among, chances, strict=True))

    def evaluate(self, split: str = "test", *, stride: int | None = None) -> Evaluation:
        """Scores on a split of the data the run was trained with; ``stride`` as ``perplexity``."""
        exercises = exercise_splits(self.recipe.data)
        texts = split_of(text_splits(self.recipe.data, exercises), split)
        found = self.evaluate_texts(texts, split=split, stride=stride)
        return self.with_parts(found, exercises.get(split, ()))

    def with_parts(self, found: Evaluation, exercises: Sequence[Exercise]) -> Evaluation:
        """The same with ``parts``: how well the tasks are done that the texts are made of."""
        if not exercises:
            return found
        parts = exercise_scores(self, exercises)
        return replace(found, scores={**found.scores, "parts": parts})

    def evaluate_texts(
        self, texts: Sequence[str], *, split: str, stride: int | None = None
    ) -> Evaluation:
        """Scores on any texts, end to end."""
        named = {"task": self.task, "split": split}
        return Evaluation({**named, **self.judge.scores(texts, stride)}, [])

    @property
    def judge(self) -> Judge:
        """What says how probable texts are."""
        return Judge(self.model, self.framing, self.device)

    # ---------------------------------------------------------------- looking

    def explain(
        self,
        prompt: str = "",
        continuation: str | None = None,
        *,
        max_tokens: int = MAX_TOKENS,
        edit: Any = (),
    ) -> Look:
        """Where every attention looks while the prompt is read and what follows it is written.

        What follows is the ``continuation``, or what the model itself takes for most probable, up
        to ``max_tokens``. An ``edit``, or several, as objects or JSON (``regard.runs.edits``), asks
        what would be if: the model writes and looks under it, and is as before afterwards.
        """
        manner = self.manner(max_new=max(1, max_tokens), temperature=0.0)
        asked = Prompt(self.model, self.framing, self.device, manner)
        return asked.look(prompt, continuation, max_tokens, edit)

    # ---------------------------------------------------------------- telling

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text in which something is that the model has never seen."""
        return unknown_words(self.tokenizer, text)

    def facts(self) -> dict[str, Any]:
        """What was trained, as plain data."""
        data = self.recipe.data
        return {
            **common_facts(self.recipe, self.model, self.model.config),
            "languages": [] if data.world is None else data.direction.split("-")[:1],
            "context": self.context,
            "special_ids": self.tokenizer.special_ids,
        }


@dataclass(frozen=True, slots=True)
class Writing:
    """How a run writes on after one prompt after the other."""

    run: Writer
    manner: Manner
    rng: torch.Generator
    stop: Stop

    def __call__(
        self, prompts: Sequence[str], n: int = 1, truncate: Truncate = None
    ) -> list[list[Written]]:
        """``n`` texts for each prompt."""
        return self.run.written(
            prompts, self.manner, rng=self.rng, n=n, stop=self.stop, truncate=truncate
        )

    def pieces(self, prompt: str, truncate: Truncate = None) -> Iterator[str]:
        """One text as it comes."""
        ids = self.run.prompt_ids(prompt, self.manner.max_new, truncate)
        return self.run.pen.pieces(ids, self.manner, rng=self.rng, stop=self.stop)


def load_writer(path: str | Path, *, device: str | None = None) -> Writer:
    """Open the folder of a language model. Nothing in it is executed."""
    folder = RunFolder(Path(path))
    recipe = recipe_in(folder)
    place = pick_device(device)
    check_task(folder.path, recipe.task, "language", "a language model")
    model, tokenizer = cast("LanguageModel", load_model(folder)), load_tokenizer(folder.path)
    spare = isinstance(tokenizer, PretrainedTokenizer)
    check_vocabulary(folder, tokenizer, model.config.n_vocab, spare=spare)
    framing = framing_for(tokenizer, recipe.data)
    return Writer(folder, recipe, framing, model.to(place).eval(), place)
