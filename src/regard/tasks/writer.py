"""A language model as one object: it writes on, judges texts, and shows where it looks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from regard.checkpoints.run_folder import RunFolder, load_model
from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.data.language_texts import prompted_splits, text_splits
from regard.data.splits import split_of
from regard.data.worlds.prompted import PromptedTask
from regard.decoding.greedy import Dropped
from regard.decoding.protocol import ControlIds
from regard.decoding.sampling import seeded
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.decoder import LanguageModel
from regard.models.presets import n_parameters
from regard.tasks import edits
from regard.tasks.base import Evaluation
from regard.tasks.chat import Conversation, Truncate, check_truncate, conversation
from regard.tasks.edits import AnyEdit, ForceToken
from regard.tasks.generation import (
    Framing,
    GeneratedText,
    GenerationConfig,
    StopWords,
    TextGenerator,
    framing_for,
    generate,
)
from regard.tasks.language_scores import Judge, exercise_scores
from regard.tasks.look import MOST, Candidates, Choice, Look, Prediction, check_length
from regard.tasks.opening import (
    check_task,
    check_vocabulary,
    common_facts,
    load_tokenizer,
    one_or_many,
    one_text,
    pick_device,
    several,
)
from regard.tasks.recipe import Recipe, recipe_in
from regard.tasks.translating import number_format, token_ids
from regard.text.chat import Message
from regard.text.pretrained import PretrainedTokenizer
from regard.text.tokenizer import Tokenizer, unknown_words

MAX_TOKENS = 20
"""Tokens that the model writes where nothing is given."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is read first, and the model that goes on from it."""

    model: LanguageModel
    framing: Framing
    device: torch.device
    config: GenerationConfig
    """Its ``max_new`` is replaced by what there is room for."""

    def look(self, prompt: str, continuation: str | None, max_tokens: int, edit: Any) -> Look:
        """Where every attention looks while the prompt is read and what follows is written."""
        changes = edits.edits_from(edit)
        prompt = edits.swapped(_text(prompt), changes)
        read = self.framing.read(prompt)
        self._check(len(read), max_tokens)
        with edited(self.model, edits.of_model(changes)):
            if continuation is None:
                written = self._continued(read, (), max_tokens)
            else:
                written = self.framing.inside(_text(continuation))
            written = self._forced(read, written, changes, max_tokens)
            seen = self._seen(read, written)
            logits, found = recorded_call(self.model, torch.tensor([seen], device=self.device))
        edits.check_keys(changes, found)
        said, tokens = self.framing.said_after(read, written), self.framing.tokenizer.tokens
        return Look.of(
            found,
            changes,
            source=prompt,
            source_tokens=tuple(tokens(read)),
            target_tokens=tuple(tokens(seen[len(read) :])),
            answer=said,
            task="language",
            axes={name: {"rows": "text", "columns": "text"} for name in found},
            outcome=next_tokens(logits[0], self.framing.tokenizer, said),
        )

    def _seen(self, read: Sequence[int], written: Sequence[int]) -> list[int]:
        """What the model reads of both: the last token of a full context is written, never read."""
        whole, context = [*read, *written], self.model.config.max_len
        seen = whole[:-1] if written and len(whole) == context + 1 else whole
        self._check(len(seen))
        return seen

    def _check(self, n_tokens: int, max_tokens: int = 0) -> None:
        if max_tokens < 0:
            raise ConfigError(f"max_tokens must be at least 0: {max_tokens}")
        context = self.model.config.max_len
        if n_tokens > context:
            raise DataError(
                f"the text has {n_tokens:,} tokens, but the model's context holds {context:,}; "
                "take a part of it"
            )
        check_length(self.model.config, n_tokens)

    def _continued(self, read: Sequence[int], begun: Sequence[int], max_tokens: int) -> list[int]:
        """What begins so and is written on, always by the most probable token."""
        before = [*read, *begun]
        room = min(max_tokens - len(begun), self.model.config.max_len + 1 - len(before))
        if room < 1:
            return list(begun)
        config = replace(self.config, max_new=room)
        rng = torch.Generator()  # nothing is drawn
        ((one,),) = generate(self.model, [before], config, rng=rng, device=self.device)
        return [*begun, *one.ids]

    def _forced(
        self, read: Sequence[int], written: list[int], changes: Sequence[AnyEdit], max_tokens: int
    ) -> list[int]:
        """What is written once every forced token stands where it should, the first one first."""
        forced = [change for change in changes if isinstance(change, ForceToken)]
        for change in sorted(forced, key=lambda one: one.position):
            if not 0 <= change.position <= len(written):
                raise ConfigError(
                    f"force_token.position: {len(written)} tokens follow the prompt, so it is from "
                    f"0 to {len(written)}, not {change.position}"
                )
            (said,) = token_ids([change.token], self.framing.tokenizer, "force_token.token")
            begun = written[: change.position]
            ends = said in self.config.control.ends
            written = begun if ends else self._continued(read, [*begun, said], max_tokens)
        return written


def _text(text: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"explain takes one text, got {type(text).__name__}")
    return text


def next_tokens(logits: Tensor, tokenizer: Tokenizer, written: str) -> Prediction:
    """Logits (T, V) -> what was written, and what may come after each token that was read."""
    named = logits.clone()
    nameless = tokenizer.nameless(logits.shape[-1])
    named[:, nameless] = -math.inf
    best = named.topk(min(MOST, logits.shape[-1] - len(nameless)))
    shares = (best.values.float() - logits.float().logsumexp(dim=-1, keepdim=True)).exp()
    places = [
        Candidates((t, t + 1), tuple(map(Choice, tokenizer.tokens(ids), some)))
        for t, (ids, some) in enumerate(zip(best.indices.tolist(), shares.tolist(), strict=True))
    ]
    return Prediction("text", written, tuple(places))


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
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        beam: int | None = None,
        n: int | None = None,
        n_best: int | None = None,
        with_scores: bool = False,
        stop: StopWords = (),
        truncate: Truncate = None,
    ) -> Any:
        """Write on after a prompt, or after each of several: str -> str, list -> list.

        The prompt is not repeated, so prompt + text is the whole. Tokens are sampled, by default
        with temperature 1; temperature 0 takes the most probable each time, and a ``beam`` searches
        for the most probable text. With ``n`` each prompt gets a list of so many texts, with
        ``n_best`` so many of a beam, best first; with ``with_scores`` each text is a
        ``GeneratedText`` that knows its score. Each text stops before the first ``stop``.
        """
        prompts = one_or_many(prompt)
        if n is not None and n_best is not None:
            raise ConfigError("n texts are sampled, the n_best are searched for: ask for one")
        config = self.generation(
            max_new=max_new,
            beam=beam,
            n_best=n_best,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        n = n if n_best is None else n_best
        written = self.written(
            prompts, config, rng=self.rng(seed), n=n or 1, stop=stop, truncate=truncate
        )
        texts: list[Any] = [
            [one if with_scores else one.text for one in several] for several in written
        ]
        if n is None:
            texts = [several[0] for several in texts]
        return texts[0] if isinstance(prompt, str) else texts

    def stream(
        self,
        prompt: str = "",
        *,
        max_new: int = MAX_NEW,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: StopWords = (),
        truncate: Truncate = None,
        dropped: Dropped | None = None,
    ) -> Iterator[str]:
        """The text of ``generate`` in pieces as they come; it ends early once ``dropped``."""
        config = self.generation(max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p)
        ids = self.prompt_ids(one_text(prompt), max_new, truncate)
        return self.generator.pieces(ids, config, rng=self.rng(seed), stop=stop, dropped=dropped)

    def writing(self, *, seed: int | None = None, stop: StopWords = (), **choices: Any) -> Writing:
        """A way to write on after one prompt after the other: one seed is for all of them."""
        return Writing(self, self.generation(**choices), self.rng(seed), stop)

    def chat(self, messages: Sequence[Message], **how: Any) -> str:
        """The model's answer to ``[{"role": "user", "content": "…"}, …]``, by its own template."""
        return self.conversation(messages, **how).reply()

    def conversation(self, messages: Sequence[Message] = (), **how: Any) -> Conversation:
        """A conversation that remembers its turns, and streams; ``how`` as ``generate`` has it."""
        return conversation(self, messages, **how)

    def generation(
        self,
        *,
        max_new: int,
        beam: int | None = None,
        n_best: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> GenerationConfig:
        """How to write, within what this model can; what is not given, as the recipe has it."""
        framing, n_vocab = self.framing, self.model.config.n_vocab
        if n_best is not None and beam is None:
            beam = max(self.recipe.decode.beam, n_best)
        settings = self.recipe.decode.chosen(
            beam=beam, temperature=temperature, top_k=top_k, top_p=top_p
        )
        settings.check_vocabulary(n_vocab)
        hidden = (*framing.hidden_ids, *self.tokenizer.nameless(n_vocab))
        return GenerationConfig(
            max_new=max_new,
            context=self.context,
            control=ControlIds(framing.end_ids, hidden),
            temperature=settings.temperature_or(1.0 if beam is None else 0.0),
            top_k=settings.top_k,
            top_p=settings.top_p,
            beam=settings.beam,
            length_penalty=settings.length_penalty,
            stop_rule=settings.stop,
        )

    def written(
        self,
        prompts: Sequence[str],
        config: GenerationConfig,
        *,
        rng: torch.Generator,
        n: int = 1,
        stop: StopWords = (),
        truncate: Truncate = None,
        dropped: Dropped | None = None,
    ) -> list[list[GeneratedText]]:
        """``n`` texts for each prompt, with all there is to know about them.

        Once ``dropped`` says that nobody waits any more, they stay as they are.
        """
        ids = [self.prompt_ids(prompt, config.max_new, truncate) for prompt in prompts]
        return self.generator.texts(ids, config, rng=rng, n=n, stop=stop, dropped=dropped)

    def rng(self, seed: int | None) -> torch.Generator:
        """Random numbers from a seed, or from that of the recipe."""
        return seeded(self.recipe.decode.seed if seed is None else seed)

    @property
    def generator(self) -> TextGenerator:
        """What writes."""
        dtype = number_format(self.recipe.decode.precision, self.device)
        return TextGenerator(self.model, self.framing, self.device, dtype, self.recipe.decode.fast)

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
        exercises = prompted_splits(self.recipe.data)
        texts = split_of(text_splits(self.recipe.data, exercises), split)
        found = self.evaluate_texts(texts, split=split, stride=stride)
        return self.with_parts(found, exercises.get(split, ()))

    def with_parts(self, found: Evaluation, exercises: Sequence[PromptedTask]) -> Evaluation:
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
        target: str | None = None,
        *,
        max_tokens: int = MAX_TOKENS,
        edit: Any = (),
    ) -> Look:
        """Where every attention looks while the prompt is read and what follows it is written.

        What follows is the ``target``, or what the model itself takes for most probable, up
        to ``max_tokens``. An ``edit``, or several, as objects or JSON (``regard.runs.edits``), asks
        what would be if: the model writes and looks under it, and is as before afterwards.
        """
        config = self.generation(max_new=max(1, max_tokens), beam=1, temperature=0.0)
        asked = Prompt(self.model, self.framing, self.device, config)
        return asked.look(prompt, target, max_tokens, edit)

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
    config: GenerationConfig
    rng: torch.Generator
    stop: StopWords

    def __call__(
        self, prompts: Sequence[str], n: int = 1, truncate: Truncate = None
    ) -> list[list[GeneratedText]]:
        """``n`` texts for each prompt."""
        return self.run.written(
            prompts, self.config, rng=self.rng, n=n, stop=self.stop, truncate=truncate
        )

    def pieces(self, prompt: str, truncate: Truncate = None) -> Iterator[str]:
        """One text as it comes."""
        ids = self.run.prompt_ids(prompt, self.config.max_new, truncate)
        return self.run.generator.pieces(ids, self.config, rng=self.rng, stop=self.stop)


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
