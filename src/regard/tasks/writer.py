"""A language model as one object: it writes on, judges texts, and shows where it looks."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError, DataError
from regard.data.language import prompted_splits, text_splits
from regard.data.splits import split_of
from regard.data.worlds.prompted import PromptedTask
from regard.decoding.greedy import Dropped
from regard.decoding.protocol import ControlIds
from regard.decoding.sampling import seeded
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.decoder import LanguageModel
from regard.tasks import edits
from regard.tasks.base import Evaluation
from regard.tasks.chat import Conversation, Truncate, check_truncate, ended_by, load_prompts
from regard.tasks.generation import (
    Framing,
    GeneratedText,
    GenerationConfig,
    Sampling,
    StopWords,
    TextGenerator,
    framing_for,
    generate,
)
from regard.tasks.importance import ForcedAnswer, copies_of, shares_of
from regard.tasks.language_scores import (
    exercise_scores,
    judged,
    log_probs_after,
    shares,
    summed_up,
    word_perplexity,
)
from regard.tasks.look import Look, Prediction, check_length, top_choices, written_as
from regard.tasks.one_source import with_forced
from regard.tasks.opening import (
    TrainedRun,
    check_vocabulary,
    load_tokenizer,
    one_or_many,
    one_text,
    open_run,
    several,
)
from regard.tasks.recipe import Recipe
from regard.tasks.translating import number_format
from regard.text.chat import Message
from regard.text.pretrained import PretrainedTokenizer
from regard.text.tokenizer import Tokenizer

MAX_TOKENS, MAX_NEW, MAX_ANSWER = 20, 200, 500
"""Tokens that are written where nothing is said: of a look, a text, and an answer in a chat."""


@dataclass(frozen=True, slots=True, repr=False)
class Writer(TrainedRun):
    """A trained language model with all it needs to be used."""

    weighs = True
    folder: RunFolder
    recipe: Recipe
    framing: Framing
    model: LanguageModel
    device: torch.device

    @property
    def tokenizer(self) -> Tokenizer:
        """How it reads and writes."""
        return self.framing.tokenizer

    reader = tokenizer

    @property
    def context(self) -> int:
        """Tokens that it can read."""
        return self.model.config.max_len

    @property
    @override
    def kind(self) -> str:
        return f"context {self.context}"

    def generate(
        self,
        prompt: str | Sequence[str] = "",
        *,
        max_new: int = MAX_NEW,
        seed: int | None = None,
        beam: int | None = None,
        n: int | None = None,
        n_best: int | None = None,
        with_scores: bool = False,
        stop: StopWords = (),
        truncate: Truncate = None,
        **sampling: Unpack[Sampling],
    ) -> Any:
        """Write on after a prompt, or after each of several: str -> str, list -> list.

        The prompt is not repeated, so prompt + text is the whole. Tokens are sampled, by default
        with ``temperature`` 1, perhaps from the ``top_k`` or ``top_p`` of them; temperature 0 takes
        the most probable each time, and a ``beam`` searches for the most probable text. With ``n``
        each prompt gets a list of so many texts, with ``n_best`` so many of a beam, best first;
        with ``with_scores`` each text is a ``GeneratedText`` that knows its score. Each text stops
        before the first ``stop``. Words that are unknown are told to the logger ``regard``.
        """
        prompts = one_or_many(prompt)
        self.warn_of_unknown(*prompts)
        if n is not None and n_best is not None:
            raise ConfigError("n texts are sampled, the n_best are searched for: ask for one")
        config = self.generation(max_new=max_new, beam=beam, n_best=n_best, **sampling)
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
        seed: int | None = None,
        stop: StopWords = (),
        truncate: Truncate = None,
        dropped: Dropped | None = None,
        **sampling: Unpack[Sampling],
    ) -> Generator[str, None, bool]:
        """The text of ``generate`` in pieces as they come; it ends early once ``dropped``."""
        config, rng = self.generation(max_new=max_new, **sampling), self.rng(seed)
        text, how = one_text(prompt), {"stop": stop, "dropped": dropped}
        return self.pieces(text, config, truncate=truncate, rng=rng, **how)

    def pieces(
        self, prompt: str, config: GenerationConfig, *, truncate: Truncate = None, **how: Any
    ) -> Generator[str, None, bool]:
        """One text as it comes -> whether it ended itself."""
        ids = self.prompt_ids(prompt, config.max_new, truncate)
        return self.generator.pieces(ids, config, **how)

    def chat(self, messages: Sequence[Message], **how: Any) -> str:
        """The model's answer to ``[{"role": "user", "content": "…"}, …]``, by its own template."""
        return self.conversation(messages, **how).reply()

    def conversation(
        self,
        messages: Sequence[Message] = (),
        *,
        max_new: int = MAX_ANSWER,
        seed: int | None = None,
        stop: StopWords = (),
        truncate: Truncate = None,
        **sampling: Unpack[Sampling],
    ) -> Conversation:
        """A conversation that remembers its turns, and streams; begun, or gone on with."""
        prompts = load_prompts(self.folder.path, self.tokenizer, self.context)
        plain = self.generation(max_new=max_new, **sampling)
        config = ended_by(plain, prompts.end_of_turn())
        rng, turns = seeded(seed), list(messages)
        return Conversation(prompts, self.generator, config, rng, stop, truncate, turns)

    def generation(
        self,
        *,
        max_new: int,
        beam: int | None = None,
        n_best: int | None = None,
        **sampling: Unpack[Sampling],
    ) -> GenerationConfig:
        """How to write, within what this model can; what is not given, as the recipe has it."""
        framing, n_vocab = self.framing, self.model.config.n_vocab
        if n_best is not None and beam is None:
            beam = max(self.recipe.decode.beam, n_best)
        settings = self.recipe.decode.chosen(beam=beam, **sampling)
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
        truncate: Truncate = None,
        **how: Any,
    ) -> list[list[GeneratedText]]:
        """Texts for each prompt, with all there is to know; ``how`` as ``TextGenerator.texts``."""
        ids = [self.prompt_ids(prompt, config.max_new, truncate) for prompt in prompts]
        return self.generator.texts(ids, config, **how)

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

    def unreadable(self, prompt: str) -> str | None:
        """Why the model cannot read a prompt; None where it can."""
        return self.nothing_known(prompt) if self.fits(prompt) else self.too_long(prompt)

    def too_long(self, prompt: str) -> str:
        """Why a prompt does not fit, and what to do."""
        return (
            f"the prompt has {len(self.framing.read(prompt)):,} tokens, but the model's context "
            f"holds {self.context:,}; shorten it, or let its beginning be cut off "
            "(--truncate left, truncate='left')"
        )

    def score(self, texts: str | Sequence[str]) -> Any:
        """The log-probability of each text, its end included: str -> float, list -> list.

        What is longer than the context is judged with at least half a context before each token.
        The first token of a foreign model that knows no beginning is not counted.
        """
        stride, totals = max(1, self.context // 2), []
        for text in one_or_many(texts):
            found = judged(self.model, self.framing.scored([text]), self.device, stride)
            totals.append(float(found.log_probs.double().sum()))
        return totals[0] if isinstance(texts, str) else totals

    def perplexity(self, texts: str | Sequence[str], *, stride: int | None = None) -> float:
        """Of a text, or of several end to end, as they are learned.

        Windows of the whole context begin ``stride`` apart, and each token is scored once, with at
        least context - stride tokens before it where there are so many. Without a stride windows
        do not overlap.
        """
        ids = self.framing.scored(one_or_many(texts))
        return float(summed_up(judged(self.model, ids, self.device, stride))["perplexity"])

    def choose(self, prompt: str, options: Sequence[str]) -> dict[str, float]:
        """Given that one of the options follows the prompt: how probable is each?

        An option begins with a space where one belongs between it and the prompt.
        """
        among = several(options)
        if not 2 <= len(among) == len(set(among)):
            raise DataError(f"choose takes two options or more, all different: {options!r}")
        before = self.framing.read(one_text(prompt))
        asked = [(before, self.framing.inside(option)) for option in among]
        found = log_probs_after(self.model, asked, device=self.device)
        return dict(zip(among, shares(found), strict=True))

    def evaluate_split(self, split: str = "test", *, stride: int | None = None) -> Evaluation:
        """Scores on a split of the data the run was trained with; ``stride`` as ``perplexity``."""
        exercises = prompted_splits(self.recipe.data)
        texts = split_of(text_splits(self.recipe.data, exercises), split)
        asked = exercises.get(split, ())
        return self.evaluate_texts(texts, split=split, stride=stride, exercises=asked)

    def evaluate_texts(
        self,
        texts: Sequence[str],
        *,
        split: str,
        stride: int | None = None,
        exercises: Sequence[PromptedTask] = (),
    ) -> Evaluation:
        """Scores on any texts, end to end.

        Perplexity a word is told where nothing is unknown: what is read as ``<unk>`` costs nothing.
        ``parts`` are how well the tasks are done that the texts are made of.
        """
        ids = self.framing.laid(texts)
        found = judged(self.model, ids, self.device, stride)
        scores = {"task": self.task, "split": split, "n": len(texts), **summed_up(found)}
        if stride is not None:
            scores["stride"] = stride
        unread = self.tokenizer.specials.unread
        n_unknown = 0 if unread is None else int((ids[1:] == unread).sum())
        if n_unknown:
            scores["unknown"] = n_unknown
        else:
            scores["word_perplexity"] = word_perplexity(found, texts)
        if exercises:
            scores["parts"] = exercise_scores(self, exercises)
        return Evaluation(scores, [])

    def explain(
        self,
        prompt: str = "",
        target: str | None = None,
        *,
        max_tokens: int = MAX_TOKENS,
        edit: Any = (),
    ) -> Look:
        """Where every attention looks while the prompt is read and what follows it is written.

        What follows is the ``target``, or what the model itself takes for most probable, up to
        ``max_tokens``. An ``edit``, or several, as objects or JSON (``regard.tasks.edits``), asks
        what would be if: the model writes and looks under it, and is as before afterwards.
        """
        changes = edits.edits_from(edit)
        prompt, read, written = self._written(prompt, target, max_tokens, changes)
        return self.look_at_ids(read, written, prompt=prompt, changes=changes)

    def look_at_ids(
        self,
        read: Sequence[int],
        written: Sequence[int],
        *,
        prompt: str = "",
        changes: Sequence[edits.AnyEdit] = (),
    ) -> Look:
        """The look of ``explain`` at what was read and written, such as a conversation."""
        seen = [*read, *self._seen(read, written)]
        self._check(len(seen))
        with edited(self.model, edits.of_model(changes)):
            logits, found = recorded_call(self.model, torch.tensor([seen], device=self.device))
        edits.check_keys(changes, found)
        said, tokens = self.framing.said_after(read, written), self.tokenizer.tokens
        begun = len(read) - 1  # the position that has read all of the prompt writes the first token
        return Look.of(
            found,
            changes,
            source=prompt,
            source_tokens=tuple(tokens(read)),
            target_tokens=tuple(tokens(seen[len(read) :])),
            answer=said,
            warnings=tuple(self.unknown_warnings(prompt)),
            task=self.task,
            axes={name: {"rows": "text", "columns": "text"} for name in found},
            outcome=next_tokens(logits[0], self.tokenizer, said),
            written=written_as(logits[0, begun:-1], seen[len(read) :], self.tokenizer),
        )

    @override
    def fixed_answer(
        self,
        source: str = "",
        target: str | None = None,
        *,
        max_tokens: int = MAX_TOKENS,
        edit: Any = (),
    ) -> ForcedAnswer:
        changes = edits.edits_from(edit)
        _, read, written = self._written(source, target, max_tokens, changes)
        said = self._seen(read, written)
        self._check(len(read) + len(said))
        seen = torch.tensor([[*read, *said]], device=self.device)
        ids = seen[0, len(read) :]

        def judge(n: int) -> Tensor:
            return shares_of(self.model(copies_of(seen, n))[:, len(read) - 1 : -1], ids)

        row, changed = seen.shape[1] * self.model.config.n_vocab, edits.of_model(changes)
        return ForcedAnswer(self.model, tuple(self.tokenizer.tokens(said)), judge, row, changed)

    def _written(
        self, prompt: str, target: str | None, max_tokens: int, changes: Sequence[edits.AnyEdit]
    ) -> tuple[str, list[int], list[int]]:
        """The prompt after all swaps, its ids, and the ids of what follows it under the edits."""
        edits.refuse_patches(changes)
        prompt = edits.swapped(_text(prompt), changes)
        read = self.framing.read(prompt)
        if max_tokens < 0:
            raise ConfigError(f"max_tokens must be at least 0: {max_tokens}")
        self._check(len(read))
        if target is None and (why := self.nothing_known(prompt)) is not None:
            raise DataError(why)
        with edited(self.model, edits.of_model(changes)):
            if target is None:
                written = self._continued(read, max_tokens, ())
            else:
                written = self.framing.inside(_text(target))
            go_on = partial(self._continued, read, max_tokens)
            wrong = "{0} tokens follow the prompt, so it is from 0 to {0}"
            return prompt, read, with_forced(written, changes, self.tokenizer, go_on, wrong)

    def _seen(self, read: Sequence[int], written: Sequence[int]) -> list[int]:
        """What is written and read again: the token that fills the context is not."""
        full = bool(written) and len(read) + len(written) == self.context + 1
        return list(written[:-1] if full else written)

    def _check(self, n_tokens: int) -> None:
        """Refuse a look at more tokens than the context or the memory holds."""
        if n_tokens > self.context:
            raise DataError(
                f"the text has {n_tokens:,} tokens, but the model's context holds "
                f"{self.context:,}; take a part of it"
            )
        check_length(self.model.config, n_tokens)

    def _continued(self, read: Sequence[int], max_tokens: int, begun: Sequence[int]) -> list[int]:
        """What begins so and is written on, always by the most probable token."""
        if begun and begun[-1] in self.framing.end_ids:
            return list(begun[:-1])
        before = [*read, *begun]
        room = min(max_tokens - len(begun), self.context + 1 - len(before))
        if room < 1:
            return list(begun)
        config = self.generation(max_new=room, beam=1, temperature=0.0)
        rng = torch.Generator()  # nothing is drawn
        ((one,),) = generate(self.model, [before], config, rng=rng, device=self.device)
        return [*begun, *one.ids]

    @override
    def facts(self) -> dict[str, Any]:
        data = self.recipe.data
        languages = [] if data.world is None else data.direction.split("-")[:1]
        return {**TrainedRun.facts(self), "languages": languages, "context": self.context}


def _text(text: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"explain takes one text, got {type(text).__name__}")
    return text


def next_tokens(logits: Tensor, tokenizer: Tokenizer, written: str) -> Prediction:
    """Logits (T, V) -> what was written, and what may come after each token that was read."""
    return Prediction("text", written, tuple(top_choices(logits, tokenizer)))


def load_writer(path: str | Path, *, device: str | None = None) -> Writer:
    """Open the folder of a language model. Nothing in it is executed."""
    folder, recipe, model, place = open_run(path, "language", "a language model", device)
    tokenizer = load_tokenizer(folder.path, recipe.data)
    spare = isinstance(tokenizer, PretrainedTokenizer)
    check_vocabulary(folder, tokenizer, model.config.n_vocab, spare=spare)
    return Writer(folder, recipe, framing_for(tokenizer, recipe.data), model, place)
