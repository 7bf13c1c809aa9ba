"""A captioner as one object: it says what a picture shows, and where it looked for each word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError, DataError
from regard.data.picture_records import CaptionedPicture
from regard.data.pictures import Pixels
from regard.decoding.greedy import Dropped
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodeSettings
from regard.functional.attend import is_drawn
from regard.inspection.capture import CROSS
from regard.inspection.edits import edited
from regard.inspection.records import Record
from regard.models.captioner import CaptionModel, ContextGate
from regard.tasks import edits
from regard.tasks.base import Evaluation
from regard.tasks.caption_scores import caption_scores
from regard.tasks.generation import Sampling, text_pieces
from regard.tasks.importance import ForcedAnswer
from regard.tasks.look import Look, Prediction
from regard.tasks.one_source import OneSource, Tree, prefix_ids
from regard.tasks.opening import one_or_many, one_text
from regard.tasks.picture_run import READ_AT_ONCE, PictureRun, is_one
from regard.tasks.recipe import Recipe
from regard.tasks.texts import PatchGrid, Reading, padded
from regard.tasks.translating import (
    SourceBatch,
    TokenScores,
    coming_ids,
    judged,
    longest_target,
    search_settings,
    searched,
)
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided

HYPOTHESES_AT_ONCE = 256


class ScoredCaption(NamedTuple):
    """What was said, and how sure the model is: log-probability over the length penalty."""

    text: str
    score: float


class ForcedCaptions(NamedTuple):
    """Pictures and captions of them, as a model reads them."""

    pixels: Tensor
    """(B, 3, S, S)"""
    targets: Tensor
    """(R, T): ids with a begin and an end token, then padding."""
    of: Tensor
    """(R,): which picture each caption is of."""


@dataclass(frozen=True, slots=True, repr=False)
class CaptionWriter(PictureRun):
    """A trained captioner with all it needs to be used."""

    weighs = True
    folder: RunFolder
    recipe: Recipe
    model: CaptionModel
    device: torch.device
    tokenizer: Tokenizer

    def caption(
        self,
        pictures: Any,
        *,
        beam: int | None = None,
        n_best: int | None = None,
        seed: int | None = None,
        with_scores: bool = False,
        **sampling: Unpack[Sampling],
    ) -> Any:
        """What a picture shows, or each of a list: a path, bytes, an image or an array.

        With ``with_scores`` each caption is a ``ScoredCaption(text, score)``; with ``n_best`` each
        picture gets a list of them, best first. With a ``temperature``, ``top_k`` or ``top_p``
        captions are sampled, and the ``seed`` decides which.
        """
        many = [pictures] if is_one(pictures) else pictures
        found = self.hypotheses(many, beam=beam, n_best=n_best or 1, seed=seed, **sampling)
        results: list[Any] = []
        for hypotheses in found:
            said = [ScoredCaption(self.text(one), one.score) for one in hypotheses]
            shown: list[Any] = said if with_scores else [one.text for one in said]
            results.append(shown[0] if n_best is None else shown)
        return results[0] if is_one(pictures) else results

    def hypotheses(
        self, pictures: Sequence[Any], *, beam: int | None = None, n_best: int = 1, **how: Any
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each picture, best first, or samples.

        ``how`` may have a temperature, ``top_k``, ``top_p``, a seed and ``max_len``.
        """
        settings = search_settings(self.recipe.decode, beam=beam, n_best=n_best, **how)
        each = n_best if settings.samples else settings.beam
        size = max(1, min(READ_AT_ONCE, HYPOTHESES_AT_ONCE // each))
        batches = self._source_batches(pictures, size, settings)
        return searched(
            self.model, batches, len(pictures), settings, device=self.device, n_best=n_best
        )

    def stream(
        self,
        picture: Any,
        *,
        seed: int | None = None,
        dropped: Dropped | None = None,
        **sampling: Unpack[Sampling],
    ) -> Iterator[str]:
        """A caption in pieces as they come, found greedily or sampled; no beam."""
        settings = self.recipe.decode.chosen(beam=1, seed=seed, **sampling)
        (alone,) = self._source_batches([picture], 1, settings)
        coming = coming_ids(self.model, alone, settings, dropped=dropped)
        return text_pieces(coming, self.tokenizer.decode, frozenset())

    def _source_batches(
        self, pictures: Sequence[Any], size: int, settings: DecodeSettings
    ) -> Iterator[SourceBatch]:
        first, limit = 0, longest_target(self.config, settings.max_len)
        for pixels in self.batches(pictures, size):
            n = len(pixels)
            limits = torch.full((n,), limit, device=self.device)
            yield SourceBatch(pixels, limits, range(first, first + n))
            first += n

    def text(self, hypothesis: Hypothesis) -> str:
        """What a hypothesis says."""
        return self.tokenizer.decode(hypothesis.ids)

    def score(self, pictures: Any, captions: str | Sequence[str]) -> Any:
        """The log-probability of each caption given its picture, the end token included.

        picture, str -> float; list, list -> list. No length penalty.
        """
        one = is_one(pictures)
        if one != isinstance(captions, str):
            raise DataError("score takes a picture and a text, or a list of each")
        many, texts = [pictures] if one else pictures, one_or_many(captions)
        if len(many) != len(texts):
            raise DataError(f"{len(many)} pictures but {len(texts)} captions; pair them up")
        judged_ = self.token_scores(many, [[text] for text in texts])
        scores = [float(found.log_probs.sum()) for found in judged_]
        return scores[0] if one else scores

    @torch.inference_mode()
    def token_scores(
        self, pictures: Sequence[Any], captions: Sequence[Sequence[str]]
    ) -> list[TokenScores]:
        """How the model judges every token of each picture's captions, end tokens included."""

        def judge(batch: ForcedCaptions) -> list[TokenScores]:
            pixels, targets, of = batch
            lengths = (targets[:, 1:] != PAD_ID).sum(dim=1).tolist()
            return judged(self.model(pixels, targets[:, :-1], of), targets[:, 1:], lengths)

        found = divided(self.forced(pictures, captions), judge)
        return [one for some in found for one in some]

    def forced(
        self, pictures: Sequence[Any], captions: Sequence[Sequence[str]]
    ) -> Iterator[ForcedCaptions]:
        """Pictures, each with its captions, in batches."""
        first = 0
        for pixels in self.batches(pictures):
            some = captions[first : first + len(pixels)]
            first += len(pixels)
            read = self.tokenizer.encode_batch([text for several in some for text in several])
            n_ids = 2 + max(map(len, read))
            ids = padded([[BEGIN_ID, *one, END_ID] for one in read], n_ids, PAD_ID)
            of = [row for row, several in enumerate(some) for _ in several]
            yield ForcedCaptions(pixels, *(x.to(self.device) for x in (ids, torch.tensor(of))))

    def explain(self, picture: Any, target: str | None = None, edit: Any = ()) -> Look:
        """Where every attention looks while a picture is read and its caption written.

        The caption is the given one, or what the model itself would write. An ``edit``, or several
        (``regard.tasks.edits``), asks what would be if: the model writes and looks under it.
        """
        changes = _changes(edit)
        seen, source, written = self._written(picture, target, changes)
        with edited(self.model, edits.of_model(changes)), gates_of(self.model) as gates:
            judged, found = source.looked_at(written)
        edits.check_keys(changes, found)
        said = self.tokenizer.decode(written)
        axis = self.patches()
        return Look.of(
            found,
            changes,
            source="",
            source_tokens=axis.labels,
            target_tokens=tuple(self.tokenizer.tokens([*written, END_ID])),
            answer=said,
            task=self.task,
            outcome=Prediction("text", said),
            sides={"source": axis},
            picture=seen,
            gates=tuple(gates),
            drawn=self._drawn(found.get(CROSS, ())),
            written=judged,
        )

    @override
    def fixed_answer(self, source: Any, target: str | None = None, edit: Any = ()) -> ForcedAnswer:
        changes = _changes(edit)
        _, one, written = self._written(source, target, changes)
        return one.answer(written, changes)

    def _written(
        self, picture: Any, target: str | None, changes: Sequence[edits.AnyEdit]
    ) -> tuple[Pixels, OneSource, list[int]]:
        """The picture as it is seen, as it is searched, and the ids of its caption."""
        given = None if target is None else one_text(target)
        seen = self.seen(picture, changes)
        source = self._one(seen)
        with edited(self.model, edits.of_model(changes)):
            own = self._own(seen) if given is None else self.tokenizer.encode(given)
            return seen, source, source.forced(own, changes)

    def beam(
        self, picture: Any, n_beams: int = 4, prefix: Sequence[str] = (), edit: Any = ()
    ) -> Tree:
        """How a caption is searched for: every hypothesis, what was pruned, and why."""
        changes = _changes(edit)
        seen = self.seen(picture, changes)
        source, asked = self._one(seen), prefix_ids(prefix, self.tokenizer)
        with edited(self.model, edits.of_model(changes)):
            given = source.begun(asked, changes, lambda: self._own(seen))
            tree = source.tree(n_beams, given)
            if edits.force_keys(changes):
                edits.check_keys(changes, source.records(tree.longest()))
        return tree

    def _one(self, seen: Any) -> OneSource:
        settings = self.recipe.decode
        limit = longest_target(self.config, settings.max_len)
        return OneSource(self.model, self.pixels(seen[None]), limit, self.tokenizer, settings)

    def _own(self, seen: Any) -> Sequence[int]:
        """What the model writes by itself."""
        return self.hypotheses([seen])[0][0].ids

    def _drawn(self, layers: Sequence[Record]) -> tuple[int, ...]:
        """The patch that each word's hard attention took; nothing where there is no such one."""
        if len(layers) != 1 or len(layers[0].weights) != 1 or not is_drawn(self.config.normaliser):
            return ()
        return tuple(layers[0].weights[0].argmax(axis=1).tolist())

    @override
    def scored(
        self, examples: Sequence[CaptionedPicture], split: str, *, beam: int | None = None
    ) -> Evaluation:
        said = self.caption(list(examples), beam=beam)
        scores = caption_scores(self, examples, said)
        return self.evaluation(split, len(examples), scores, said)

    def readings(self, examples: Sequence[CaptionedPicture]) -> Iterator[Reading]:
        """Pictures with the first caption of each, as heads are measured on them."""
        n = len(self.patches())
        for pixels, targets, _ in self.forced(examples, [one.captions[:1] for one in examples]):
            patches = np.full((len(pixels), n), UNKNOWN_ID)
            words = targets.cpu().numpy()
            read = np.where(words[:, :-1] == END_ID, PAD_ID, words[:, :-1])  # behind a shorter one
            ids = {
                "encoder.self": (patches, patches),
                "decoder.self": (read, read),
                CROSS: (words[:, 1:], patches),
            }
            grids = {"encoder.self": PatchGrid(self.config.grid, self.cell)}
            yield Reading((pixels, targets[:, :-1]), ids.__getitem__, grids)

    @override
    def facts(self) -> dict[str, Any]:
        marks = self.tokenizer.special_ids
        return {**PictureRun.facts(self), "special_ids": marks, "language": self.language}

    @property
    def language(self) -> str | None:
        """Of its captions, where they come from a world."""
        return None if self.recipe.data.world is None else self.recipe.data.language


def _changes(edit: Any) -> tuple[edits.AnyEdit, ...]:
    changes = edits.edits_from(edit)
    if any(isinstance(one, edits.Swap) for one in changes):
        raise ConfigError("swap: a picture has no words that could change places; leave it out")
    return changes


@contextmanager
def gates_of(model: CaptionModel) -> Iterator[list[float]]:
    """The β of each word that one picture's caption has inside the block; none without a gate."""
    found: list[float] = []
    handles = [
        module.register_forward_hook(lambda _m, _i, beta: found.append(float(beta[0, 0])))
        for module in model.modules()
        if isinstance(module, ContextGate)
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
