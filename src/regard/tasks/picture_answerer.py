"""A run that answers questions about pictures: what it says, where it looks, how well it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.data.batch import pad_sequences
from regard.data.examples import Ints
from regard.data.picture_records import PictureQuestion
from regard.data.pictures import Pixels
from regard.data.worlds.scene_records import mask_of
from regard.evaluation.metrics import computed
from regard.evaluation.saliency import Maps, looking, pointing_accuracy
from regard.inspection.capture import AttentionCalls, Place, watch
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.visual_questions import JointReader, StackedReader
from regard.tasks import edits
from regard.tasks.base import Evaluation
from regard.tasks.classification import Labels
from regard.tasks.importance import ForcedAnswer, label_answer
from regard.tasks.look import MOST, Choice, Look, Prediction, TopChoices
from regard.tasks.opening import one_or_many, one_text
from regard.tasks.picture_run import PictureRun, is_one
from regard.tasks.recipe import Recipe
from regard.tasks.texts import Reading
from regard.text.settings import TextSettings
from regard.text.specials import UNKNOWN_ID
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided
from regard.visual.payload import Axis

OWN_METRICS = ("accuracy",)
"""Of a validation, beside the loss and what the recipe names."""
READ_AT_ONCE = 256
"""Questions that are read in one batch where nothing is learned."""
LOOKS, JOINT = "looks", "joint.self"
"""Attention from the question to the picture, and among words and patches."""
Pairs = Sequence[tuple[Any, str]]
"""Pictures in any form, each with a question."""


class PictureAnswer(NamedTuple):
    """An answer, and how sure the model is of it."""

    answer: str
    probability: float


def said(answer: str, settings: TextSettings) -> str:
    """An answer as it is compared: in small letters where questions are read so."""
    return answer.lower() if settings.lowercase else answer


def question_ids(question: str, tokenizer: Tokenizer, most: int) -> Ints:
    """The begin token and the question; what is longer than ``most`` is cut."""
    return np.array([tokenizer.specials.begin, *tokenizer.encode(question)][:most], np.int64)


@dataclass(frozen=True, slots=True, repr=False)
class PictureAnswerer(PictureRun):
    """A trained model that answers questions about pictures, with all it needs to be used."""

    weighs = True
    folder: RunFolder
    recipe: Recipe
    model: StackedReader | JointReader
    device: torch.device
    tokenizer: Tokenizer
    labels: Labels

    @property
    @override
    def reader(self) -> Tokenizer:
        return self.tokenizer

    def ask(self, pictures: Any, questions: Any, *, with_scores: bool = False) -> Any:
        """The answer to a question about a picture: a path, bytes, an image or an array.

        Of several a list: questions about one picture, one question about several pictures, or
        lists of equal length. With ``with_scores`` each is a ``PictureAnswer``.
        """
        asked, shown = one_or_many(questions), [pictures] if is_one(pictures) else [*pictures]
        if len(asked) == 1:
            asked = asked * len(shown)
        if len(shown) == 1:
            shown = shown * len(asked)
        if len(shown) != len(asked):
            raise DataError(
                f"{len(asked)} questions about {len(shown)} pictures; give one for all, or as many "
                "of both"
            )
        found: list[Any] = []
        for row in self.probabilities([*zip(shown, asked, strict=True)]):
            number = int(row.argmax())
            best = PictureAnswer(self.labels.names[number], float(row[number]))
            found.append(best if with_scores else best.answer)
        return found[0] if is_one(pictures) and isinstance(questions, str) else found

    def probabilities(self, pairs: Pairs) -> Any:
        """(n, answers): how likely each answer is, in the order of ``labels.names``."""
        return self.log_probs(pairs).exp().numpy()

    @torch.inference_mode()
    def log_probs(self, pairs: Pairs) -> Tensor:
        """In natural logarithms."""
        found = divided(self.inputs(pairs), lambda inputs: self.model(*inputs).float().cpu())
        return torch.cat(found).log_softmax(dim=-1) if found else torch.zeros(0, 0)

    def inputs(self, pairs: Pairs) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Batches as the model reads them; a picture that comes again is read once."""
        for i in range(0, len(pairs), READ_AT_ONCE):
            some = pairs[i : i + READ_AT_ONCE]
            given = {id(picture): picture for picture, _ in some}
            places = {key: place for place, key in enumerate(given)}
            which = [places[id(picture)] for picture, _ in some]
            pixels = self.pixels(np.stack([*map(self.fitted, given.values())]))
            ids, _ = pad_sequences([self.ids(question) for _, question in some])
            yield pixels, ids.to(self.device), torch.tensor(which, device=self.device)

    def ids(self, question: str) -> Ints:
        """A question as the model reads it."""
        if not question.strip():
            raise DataError("the question is empty; ask something")
        return question_ids(question, self.tokenizer, self.config.max_len)

    def n_cut(self, questions: Sequence[str]) -> int:
        """How many questions are longer than the model reads."""
        most = self.config.max_len - 1
        return sum(len(self.tokenizer.encode(question)) > most for question in questions)

    def check_question(self, question: str, at_most: int) -> None:
        """Refuse a question of more tokens than ``at_most`` or than the model reads."""
        most = min(at_most, self.config.max_len - 1)
        n_tokens = len(self.tokenizer.encode(question))
        if n_tokens > most:
            raise DataError(f"the question has {n_tokens} tokens, at most {most} go in; shorten it")

    # ---------------------------------------------------------------- looking

    def explain(self, picture: Any, other: str | None = None, edit: Any = ()) -> Look:
        """Where a question (``other``) looks in a picture, and the answer that comes out."""
        changes = edits.edits_from(edit)
        question, seen, inputs = self._asked(picture, other, changes)
        with edited(self.model, edits.of_model(changes)):
            output, found = recorded_call(self.model, *inputs)
        edits.check_keys(changes, found)
        found = {name: found[name] for name in sorted(found, key=lambda one: one != LOOKS)}
        shares = output[0].float().softmax(dim=-1).tolist()
        choices = sorted(map(Choice, self.labels.names, shares), key=lambda one: -one.probability)
        words = self.tokenizer.tokens(inputs[1][0].tolist()) if JOINT in found else ()
        axis = self.patches(*words)
        rows = {LOOKS: "question"}
        return Look.of(
            found,
            changes,
            source=question,
            source_tokens=axis.labels,
            target_tokens=(),
            answer=choices[0].text,
            task=self.task,
            outcome=Prediction(
                "label", choices[0].text, (TopChoices(None, tuple(choices[:MOST])),)
            ),
            axes={n: {"rows": rows.get(n, "source"), "columns": "source"} for n in found},
            sides={"source": axis, "question": Axis((question,))},
            picture=seen,
        )

    @override
    def fixed_answer(self, source: Any, other: str | None = None, edit: Any = ()) -> ForcedAnswer:
        changes = edits.edits_from(edit)
        _, _, inputs = self._asked(source, other, changes)
        return label_answer(self.model, inputs, self.labels.names, edits.of_model(changes))

    def _asked(
        self, picture: Any, other: str | None, changes: Sequence[edits.AnyEdit]
    ) -> tuple[str, Pixels, tuple[Tensor, Tensor]]:
        """The question after all swaps, the picture as it is seen, and both as they are read."""
        if other is None:
            raise ConfigError("what is asked? Give a question beside the picture")
        if edits.forced_tokens(changes):
            raise ConfigError("force_token: this run chooses an answer and writes no words")
        question = edits.swapped(one_text(other, "a question"), changes)
        seen = self.seen(picture, changes)
        ids = torch.from_numpy(self.ids(question)[None]).to(self.device)
        return question, seen, (self.pixels(seen[None]), ids)

    @torch.inference_mode()
    def maps(self, pairs: Pairs) -> dict[Place, Maps]:
        """Attention and layer -> (n, heads, R, C): where each question looks in its picture.

        Of a joint reader it is the row of the first token, from which the answer is read.
        """
        parts: dict[Place, list[Tensor]] = {}
        for inputs in self.inputs(pairs):
            with watch(self.model) as views:
                self.model(*inputs)
            for place, view in views.items():
                if place[0] in (LOOKS, JOINT):
                    parts.setdefault(place, []).append(self._map(view))
        return {place: torch.cat(some).numpy() for place, some in parts.items()}

    def _map(self, view: AttentionCalls) -> Tensor:
        rows, columns = self.config.grid
        first = view.weights()[:, :, 0, -rows * columns :]  # patches come last
        return first.unflatten(-1, (rows, columns)).float().cpu()

    def pointed(self, examples: Sequence[PictureQuestion]) -> tuple[dict[Place, Maps], Any]:
        """Maps of the questions whose objects are known, and their masks (n, H, W)."""
        masks = [mask_of(one) for one in examples]
        sides = {*self.config.grid}
        known = [
            (one, mask)
            for one, mask in zip(examples, masks, strict=True)
            if mask is not None and mask.any() and not any(len(mask) % side for side in sides)
        ]
        if not known:
            return {}, np.zeros((0, 0, 0), bool)
        maps = self.maps([(one.picture, one.question) for one, _ in known])
        return maps, np.stack([mask for _, mask in known])

    # ---------------------------------------------------------------- scoring

    @override
    def scored(self, examples: Sequence[PictureQuestion], split: str) -> Evaluation:
        """Accuracy, that of each kind of question, and where the last attention looks.

        Where it looks is told of questions whose objects are known, as those of scenes are.
        """
        given, scores = self.answered(examples)
        maps, masks = self.pointed(examples)
        if maps:
            last = maps[max(maps, key=lambda place: place[1])].mean(axis=1)
            scores["looking"] = {"n": len(masks), **looking(last, masks)}
        found = self.evaluation(split, len(examples), scores, given)
        right = [said(one.answer, self.recipe.text) for one in examples]
        return replace(found, notes=tuple(unseen_note(right, self.labels, split)))

    def answered(self, examples: Sequence[PictureQuestion]) -> tuple[list[str], dict[str, Any]]:
        """Answers to questions, and their scores.

        An answer that training did not show counts as wrong; the loss leaves it out.
        """
        log_probs = self.log_probs([(one.picture, one.question) for one in examples])
        right = [said(one.answer, self.recipe.text) for one in examples]
        given = [self.labels.names[number] for number in log_probs.argmax(dim=-1).tolist()]
        numbers = self.labels.numbers
        losses = [-log_probs[i, numbers[x]].item() for i, x in enumerate(right) if x in numbers]
        scores = computed((*OWN_METRICS, *self.recipe.train.metrics), given, right)
        scores |= {"loss": sum(losses) / len(losses)} if losses else {}
        kinds = accuracy_by_kind(examples, given, right)
        return given, scores | ({"accuracy_by_kind": kinds} if kinds else {})

    def readings(self, examples: Sequence[PictureQuestion]) -> Iterator[Reading]:
        """Questions with their pictures in batches, as heads are measured on them."""
        n = len(self.patches())
        for pixels, ids, which in self.inputs([(one.picture, one.question) for one in examples]):
            patches = np.full((len(ids), n), UNKNOWN_ID)
            both = np.concatenate((ids.cpu().numpy(), patches), axis=1)
            asked = np.full((len(ids), 1), UNKNOWN_ID)
            sides = {LOOKS: (asked, patches), JOINT: (both, both)}
            yield Reading(
                (pixels[which], ids),
                lambda name, sides=sides, patches=patches: sides.get(name, (patches, patches)),  # type: ignore[misc]
            )

    def pointing(self, examples: Sequence[PictureQuestion]) -> dict[str, dict[Any, float]]:
        """``pointing`` -> head -> how often its largest weight is on an object that is asked about.

        Empty where no picture knows its objects.
        """
        maps, masks = self.pointed(examples)
        found = {
            f"{name} layer {layer} head {head}": pointing_accuracy(some[:, head], masks)
            for (name, layer), some in maps.items()
            for head in range(some.shape[1])
        }
        return {"pointing": found} if found else {}

    @override
    def facts(self) -> dict[str, Any]:
        return {**PictureRun.facts(self), "labels": list(self.labels.names)}


def accuracy_by_kind(
    examples: Sequence[PictureQuestion], given: Sequence[str], right: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Kind of question -> how many there are (``n``) and their ``accuracy``; none without kinds."""
    n, n_right = Counter[str](), Counter[str]()
    for one, answer, wanted in zip(examples, given, right, strict=True):
        n[one.kind] += 1
        n_right[one.kind] += answer == wanted
    return {kind: {"n": n[kind], "accuracy": n_right[kind] / n[kind]} for kind in sorted(n) if kind}


def unseen_note(right: Sequence[str], labels: Labels, split: str) -> list[str]:
    """A line on answers that training did not show, if there are any."""
    unseen = [answer for answer in right if answer not in labels.numbers]
    if not unseen:
        return []
    shown = ", ".join(map(repr, [*dict.fromkeys(unseen)][:3]))
    told = f"{counted(len(unseen), 'answer')} of {len(right):,} never seen in training"
    return [f"{split}: {told}, such as {shown}; counted as wrong"]
