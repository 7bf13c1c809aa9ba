"""A translator as one object: it translates, scores, and shows where it looks."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, Unpack

import numpy as np
import torch
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import DataError
from regard.core.numbers import counted, mentioned
from regard.data.examples import Example
from regard.decoding.ensemble import members_of
from regard.decoding.greedy import Dropped, Ended
from regard.decoding.hypothesis import Hypothesis
from regard.inspection.capture import CROSS, attentions
from regard.inspection.edits import edited
from regard.models.base import SequenceModel
from regard.models.presets import n_parameters
from regard.tasks import edits
from regard.tasks.generation import Sampling, StopWords, cut_at, stop_words, text_pieces
from regard.tasks.importance import ForcedAnswer
from regard.tasks.look import Look
from regard.tasks.one_source import OneSource, Tree, prefix_ids, text_prefixes
from regard.tasks.opening import (
    Tokenizers,
    TrainedRun,
    check_vocabulary,
    load_tokenizers,
    one_or_many,
    one_text,
    open_run,
)
from regard.tasks.recipe import Recipe
from regard.tasks.translating import (
    DECODE_TOKENS,
    Engine,
    TokenScores,
    decode,
    length_limits,
    search_settings,
    target_ids,
    token_scores,
)
from regard.text import words
from regard.text.specials import BEGIN_ID, END_ID, UNKNOWN_ID
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class LengthWarnings:
    """How many translations are to be doubted, and for what."""

    most: int
    """Tokens of a target with its end token: where it is cut off, however long its source is."""
    trained: int
    """Tokens of a source with its end token: none longer was trained on (``model.max_len``)."""
    n_cut: int = 0
    n_long: int = 0
    what: tuple[str, str] = ("translation", "translations")
    """What is written, one and many."""
    remedy: str = "take shorter texts"
    """Against what is cut off."""

    def having(self, n_read: int, n_written: int) -> LengthWarnings:
        """With one more translation: tokens that were read and written, without the end tokens.

        A target that ends has one token less than the most. A model that babbles on about a short
        text is no matter of length: its limit comes sooner.
        """
        n_cut, n_long = int(n_written >= self.most), int(n_read >= self.trained)
        return self + replace(self, n_cut=n_cut, n_long=n_long)

    def __add__(self, other: LengthWarnings) -> LengthWarnings:
        """Of both, which are of one run."""
        n_cut, n_long = self.n_cut + other.n_cut, self.n_long + other.n_long
        return replace(self, n_cut=n_cut, n_long=n_long)

    def lines(self) -> list[str]:
        """What a user should know; nothing, if all is well."""
        lines = []
        if self.n_cut:
            lines.append(
                f"{self.n_cut:,} {self.what[self.n_cut != 1]} cut off after {self.most:,} tokens, "
                f"the most that decode.max_len or the model allows; {self.remedy}"
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


def copies(
    model: SequenceModel,
    reader: Tokenizer,
    source: str,
    written: Sequence[int],
    device: torch.device,
) -> list[str]:
    """What to say for each unknown token of ``written``, in order.

    The source word with the largest weight of cross-attention, all heads and layers together, at
    the step that wrote the token; of an ensemble, the mean of its members. Nothing, where the
    system does not attend.
    """
    read = reader.encode(source)
    ids = (
        torch.tensor([[*read, END_ID]], device=device),
        torch.tensor([[BEGIN_ID, *written[:-1]]], device=device),  # row t writes token t,
    )
    found = [attentions(member, *ids).get(CROSS, ()) for member in members_of(model)]
    looks = [np.concatenate(layers).mean(axis=0) for layers in found if layers]  # each (T, S)
    if not looks:
        return []
    looked_at = np.mean(looks, axis=0)[:, : len(read)].argmax(axis=1)  # the end token is no word
    places, spoken = reader.word_ids(source), words.split(source)
    chosen = [places[looked_at[t]] for t, token in enumerate(written) if token == UNKNOWN_ID]
    return ["" if place is None else spoken[place] for place in chosen]


LOOKED_AT = 2048
"""Source tokens of a look, the end token included: twice as many take four times the memory.

Where source and target are one text, only what the target looks at is kept, and that is linear."""


class Translation(NamedTuple):
    """What came out, and how sure the model is: log-probability over the length penalty."""

    text: str
    score: float


@dataclass(frozen=True, slots=True, repr=False)
class Run(TrainedRun):
    """A trained run with all it needs to be used: ``regard.Run``, here one that translates.

    ``regard.load`` gives the kind that fits the task: runs that write, classify, fill in or read
    pictures have ``explain``, ``evaluate``, ``heads``, ``serve`` and ``export`` too, and a verb of
    their own in the place of ``translate``.
    """

    weighs = True
    folder: RunFolder
    recipe: Recipe
    tokenizers: Tokenizers
    model: SequenceModel
    device: torch.device
    engine: Engine | None = None
    """What writes in place of the model, such as CTranslate2 with the same weights."""

    @property
    @override
    def reader(self) -> Tokenizer:
        return self.tokenizers.source

    @property
    @override
    def kind(self) -> str:
        return self.recipe.data.direction

    @property
    def members(self) -> tuple[Run, ...]:
        """The runs of an ensemble; any other run is the only one."""
        return (self,)

    def source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text as the model reads it, without the end token."""
        return self.tokenizers.source.encode_batch(list(texts))

    def __str__(self) -> str:
        facts = {
            "folder": self.folder.path,
            "system": self.recipe.model.preset,
            "languages": self.recipe.data.direction,
            "parameters": f"{n_parameters(self.model):,}",
            "device": self.device,
        }
        return "\n".join(f"{name:11} {value}" for name, value in facts.items())

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        beam: int | None = None,
        n_best: int | None = None,
        seed: int | None = None,
        with_scores: bool = False,
        batch_tokens: int = DECODE_TOKENS,
        prefix: str | Sequence[str] = "",
        stop: StopWords = (),
        engine: Engine | None = None,
        **sampling: Unpack[Sampling],
    ) -> Any:
        """Translate a sentence, or a list of them: str -> str, list -> list.

        With ``with_scores`` each translation is a ``Translation(text, score)``; with ``n_best``
        each sentence gets a list of them, best first. With a ``temperature``, ``top_k`` or
        ``top_p`` translations are sampled, and the ``seed`` decides which. They begin with the
        ``prefix``, a text for all or one for each, and end before the first ``stop``. The model
        writes itself, or lets an ``engine`` of ``regard.interop`` write. What is cut off, too long
        for the model, or not in its vocabulary, is told to the logger ``regard``.
        """
        many = one_or_many(texts)
        found = self.hypotheses(
            many,
            beam=beam,
            n_best=1 if n_best is None else n_best,
            seed=seed,
            batch_tokens=batch_tokens,
            prefix=prefix,
            stop=stop,
            engine=engine,
            **sampling,
        )
        self.warn_of_unknown(*many)
        self.length_warnings(many, [hypotheses[0] for hypotheses in found]).log()
        results: list[Any] = []
        for text, hypotheses in zip(many, found, strict=True):
            written = [cut_at(self.text(text, one), stop_words(stop))[0] for one in hypotheses]
            scores = [one.score for one in hypotheses]
            shown = list(map(Translation, written, scores)) if with_scores else written
            results.append(shown[0] if n_best is None else shown)
        return results[0] if isinstance(texts, str) else results

    def written(self, texts: Sequence[str], *, beam: int | None = None) -> list[str]:
        """The best translation of each text, to be scored: data is read as it is, without a word.

        Only lengths are warned of.
        """
        best = [several[0] for several in self.hypotheses(texts, beam=beam)]
        self.length_warnings(texts, best).log()
        return [self.text(text, one) for text, one in zip(texts, best, strict=True)]

    def hypotheses(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        batch_tokens: int = DECODE_TOKENS,
        prefix: str | Sequence[str] = "",
        stop: StopWords = (),
        engine: Engine | None = None,
        **sampling: Any,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each text, best first; nothing is made of an empty text.

        All begin with the ``prefix``: one text, or one for each. ``sampling`` may have a
        temperature, ``top_k``, ``top_p`` and a seed.
        """
        settings = search_settings(self.recipe.decode, beam=beam, n_best=n_best, **sampling)
        sources = self.source_ids(texts)
        spoken = [i for i, source in enumerate(sources) if source]
        say, stops = self.tokenizers.target.decode, stop_words(stop)
        ended: Ended | None = (lambda _, ids: cut_at(say(ids), stops)[1]) if stops else None
        own = partial(decode, self.model, device=self.device, ended=ended)
        read, write = [sources[i] for i in spoken], engine or self.engine or own
        begun = self._prefixes(prefix, texts, sources)
        begun = [begun[i] for i in spoken] if any(begun) else []
        found = write(read, settings, n_best=n_best, batch_tokens=batch_tokens, prefixes=begun)
        silence = Hypothesis(ids=(), log_prob=0.0, score=0.0, finished=True)
        by_text = dict(zip(spoken, found, strict=True))
        return [by_text.get(i, [silence] * n_best) for i in range(len(sources))]

    def stream(
        self,
        text: str,
        *,
        seed: int | None = None,
        prefix: str = "",
        stop: StopWords = (),
        dropped: Dropped | None = None,
        **sampling: Unpack[Sampling],
    ) -> Iterator[str]:
        """A translation in pieces as they come, found greedily or sampled; no beam.

        It begins with the ``prefix`` and ends before the first ``stop``.
        """
        settings = self.recipe.decode.chosen(beam=1, seed=seed, **sampling)
        (source,) = self.source_ids([one_text(text)])
        if not source:
            return iter(())
        (begun,) = self._prefixes(one_text(prefix), [text], [source])
        coming = target_ids(
            self.model, source, settings, device=self.device, prefix=begun, dropped=dropped
        )
        return text_pieces(coming, self.tokenizers.target.decode, frozenset(), stop_words(stop))

    def _prefixes(
        self, prefix: str | Sequence[str], texts: Sequence[str], sources: Sequence[Sequence[int]]
    ) -> list[list[int]]:
        """The ids that the translation of each text begins with; ``sources`` are the texts' ids."""
        several = [prefix] * len(texts) if isinstance(prefix, str) else one_or_many(prefix)
        if len(several) != len(texts):
            raise DataError(
                f"prefix: {counted(len(several), 'text')} for {counted(len(texts), 'source')}; "
                "give one for all, or one for each"
            )
        found, most = text_prefixes(several, self.tokenizers.target), self.recipe.decode.max_len
        for text, source, ids in zip(texts, sources, found, strict=True):
            if not (source and ids):
                continue
            limit = int(length_limits(self.model, torch.tensor([[*source, END_ID]]), most))
            if len(ids) >= limit:
                raise DataError(
                    f"prefix: it has {counted(len(ids), 'token')}, but the translation of "
                    f"{mentioned(text)} may have {limit} with the end token; shorten it"
                )
        return found

    def length_warnings(self, texts: Sequence[str], best: Sequence[Hypothesis]) -> LengthWarnings:
        """Which translations may be fragments, going by lengths; sums up with those of others."""
        found = self._no_warnings()
        read = self.tokenizers.source.encode_batch(list(texts))
        for ids, hypothesis in zip(read, best, strict=True):
            found = found.having(len(ids), len(hypothesis.ids))
        return found

    def score(self, sources: str | Sequence[str], targets: str | Sequence[str]) -> Any:
        """The log-probability of each target given its source, the end token included.

        str, str -> float; list, list -> list. No length penalty: that belongs to searching.
        """
        if isinstance(sources, str) != isinstance(targets, str):
            raise DataError("score takes two texts, or two lists of texts; not one of each")
        judged = self.token_scores(one_or_many(sources), one_or_many(targets))
        scores = [float(one.log_probs.sum()) for one in judged]
        return scores[0] if isinstance(sources, str) else scores

    def token_scores(self, sources: Sequence[str], targets: Sequence[str]) -> list[TokenScores]:
        """How the model judges every token of each target, the end token included."""
        if len(sources) != len(targets):
            raise DataError(f"{len(sources)} sources but {len(targets)} targets; pair them up")
        written = self.tokenizers.target.encode_batch(list(targets))
        examples = list(map(Example, self.source_ids(sources), written))
        return token_scores(self.model, examples, device=self.device) if examples else []

    def explain(self, source: str, target: str | None = None, edit: Any = ()) -> Look:
        """Where every attention looks while the source is read and the target written.

        The target is the given one, or what the model itself would write. An ``edit``, or several,
        as objects or JSON (``regard.tasks.edits``), asks what would be if: the model writes and
        looks under it, and is as before afterwards.
        """
        changes = edits.edits_from(edit)
        source, read, sentence, written = self._written(source, target, changes)
        with edited(self.model, edits.of_model(changes)):
            judged, found = sentence.looked_at(written)
        edits.check_keys(changes, found)
        n_own = len(written) if target is None else 0
        warnings = self._no_warnings().having(len(read), n_own)
        warnings.log()
        of_one_text = {"rows": "target", "columns": "read"}
        return Look.of(
            found,
            changes,
            axes=dict.fromkeys(found, of_one_text) if self.model.reads_as_one else {},
            source=source,
            source_tokens=tuple(self.tokenizers.source.tokens([*read, END_ID])),
            target_tokens=tuple(self.tokenizers.target.tokens([*written, END_ID])),
            answer=self.tokenizers.target.decode(written),
            warnings=(*self.unknown_warnings(source), *warnings.lines()),
            written=judged,
        )

    @override
    def fixed_answer(self, source: str, target: str | None = None, edit: Any = ()) -> ForcedAnswer:
        changes = edits.edits_from(edit)
        _, _, sentence, written = self._written(source, target, changes)
        return sentence.answer(written, changes)

    def _written(
        self, source: str, target: str | None, changes: Sequence[edits.AnyEdit]
    ) -> tuple[str, list[int], OneSource, list[int]]:
        """The source after all swaps, its ids, as it is searched, and the ids of its target."""
        edits.refuse_patches(changes)
        source = edits.swapped(one_text(source), changes)
        given = None if target is None else one_text(target)
        read = self._read(source, "look at")
        if len(read) >= LOOKED_AT and not self.model.reads_as_one:
            raise DataError(
                f"a look holds the weights between all tokens: {LOOKED_AT:,} can be looked at, and "
                f"the text has {len(read) + 1:,} with the end token; take a part of it"
            )
        if given is None and (why := self.nothing_known(source)) is not None:
            raise DataError(why)
        sentence = self._sentence(read)
        with edited(self.model, edits.of_model(changes)):
            own = self._own(source) if given is None else self.tokenizers.target.encode(given)
            return source, read, sentence, sentence.forced(own, changes)

    def beam(
        self, source: str, n_beams: int = 4, prefix: Sequence[str] = (), edit: Any = ()
    ) -> Tree:
        """How a translation is searched for: every hypothesis, what was pruned, and why.

        ``prefix`` are target tokens to begin with, such as ``tree.path(node)`` of a branch. Under
        an ``edit``, or several, as ``explain`` takes them, the search is that of the edited model;
        tokens that are forced are given, with all that stands before them.
        """
        changes = edits.edits_from(edit)
        edits.refuse_patches(changes)
        source = edits.swapped(one_text(source), changes)
        sentence = self._sentence(self._read(source, "translate"))
        asked = prefix_ids(prefix, self.tokenizers.target)
        with edited(self.model, edits.of_model(changes)):
            given = sentence.begun(asked, changes, lambda: self._own(source))
            tree = sentence.tree(n_beams, given)
            if edits.force_keys(changes):
                edits.check_keys(changes, sentence.records(tree.longest()))
        return tree

    def _read(self, source: str, purpose: str) -> list[int]:
        """The ids of a text, without the end token."""
        (read,) = self.source_ids([source])
        if not read and source.strip():
            raise DataError(self.nothing_known(source))
        if not read:
            raise DataError(f"there is nothing to {purpose} in an empty text")
        return read

    def _sentence(self, read: Sequence[int]) -> OneSource:
        words, settings = self.tokenizers.target, self.recipe.decode
        source = torch.tensor([[*read, END_ID]], device=self.device)
        limit = int(length_limits(self.model, source, settings.max_len))
        return OneSource(self.model, source, limit, words, settings)

    def _no_warnings(self) -> LengthWarnings:
        """Of a run that has not translated anything yet."""
        config, most = self.model.config, self.recipe.decode.max_len
        longest = most if config.longest is None else config.longest - 1
        return LengthWarnings(most=min(most, longest), trained=config.max_len)

    def _own(self, source: str) -> Sequence[int]:
        """What the model writes by itself."""
        return self.hypotheses([source])[0][0].ids

    @override
    def facts(self) -> dict[str, Any]:
        languages, marks = self.recipe.data.direction.split("-"), self.tokenizers.target.special_ids
        return {**TrainedRun.facts(self), "languages": languages, "special_ids": marks}

    def fits(self, source: str, target: str = "") -> bool:
        """Whether the model can read both; learned positions set a limit, and some families do."""
        longest = self.model.config.longest
        if longest is None:
            return True
        sides = self.tokenizers.source.encode(source), self.tokenizers.target.encode(target)
        return max(map(len, sides)) < longest  # the end token takes one place

    def unreadable(self, text: str) -> str | None:
        """Why the model cannot read a source: too long, or not a word that it knows; else None.

        Where unknown words are carried over, none has to be known.
        """
        if not self.fits(text):
            return self.too_long(text)
        return None if self.recipe.decode.replace_unknown else self.nothing_known(text)

    def too_long(self, text: str, tokenizer: Tokenizer | None = None) -> str:
        """Why the model cannot read a source, or a text in another tokenizer's tokens."""
        n_tokens = len((tokenizer or self.tokenizers.source).encode(text)) + 1
        longest, remedy = self.model.config.longest, "train with a larger model.max_len"
        limit = f"the model reads at most model.max_len={longest}"
        if getattr(self.model.config, "positions", None) == "learned":
            limit = f"the model's learned positions know {longest}"
            remedy += " or sinusoidal positions"
        return f"{n_tokens} tokens with the end token, but {limit}; shorten the line, or {remedy}"

    def text(self, source: str, hypothesis: Hypothesis) -> str:
        """What a hypothesis says; unknown words are replaced where the recipe wants it."""
        ids = hypothesis.ids
        if not (self.recipe.decode.replace_unknown and UNKNOWN_ID in ids):
            return self.tokenizers.target.decode(ids)
        said = copies(self.model, self.tokenizers.source, source, ids, self.device)
        return self.tokenizers.target.decode(ids, said)


R = TypeVar("R", bound=Run)


def load_translator(path: str | Path, *, device: str | None = None) -> Run:
    """Open the folder of a translator. Nothing in it is executed."""
    return load_pair_run(path, Run, "translation", "a translator", device)


def load_pair_run(path: str | Path, kind: type[R], task: str, called: str, device: str | None) -> R:
    """Open the folder of a run that writes a target for a source."""
    folder, recipe, model, place = open_run(path, task, called, device)
    tokenizers, config = load_tokenizers(folder.path, recipe.data), model.config
    check_vocabulary(folder, tokenizers.source, config.n_source_vocab, of="source ")
    check_vocabulary(folder, tokenizers.target, config.n_target_vocab, of="target ")
    return kind(folder, recipe, tokenizers, model, place)
