"""Captioning: a picture is read, and what it shows is written."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder, load_config
from regard.core.errors import ConfigError
from regard.core.numbers import counted
from regard.data.batch import Batch
from regard.data.picture_records import CaptionedPicture
from regard.data.worlds.scenes import SceneRecord
from regard.decoding.settings import GENERATING, DecodeSettings
from regard.evaluation.metrics import values
from regard.evaluation.text_metrics import bleu
from regard.functional.attend import is_drawn
from regard.inspection.capture import CROSS, kept_outputs, kept_weights, viewpoints
from regard.models.base import SequenceModel
from regard.models.captioner import CaptioningConfig, CaptionModel, doubly_stochastic
from regard.models.presets import build, resolve_for
from regard.models.settings import ModelConfig
from regard.tasks.base import TASKS, Evaluation, JudgedRun
from regard.tasks.caption_scores import (
    GALLERY,
    pointing_by_head,
    share_true,
    understood,
    write_gallery,
)
from regard.tasks.caption_writer import CaptionWriter
from regard.tasks.examples import EXAMPLES
from regard.tasks.opening import (
    SHARED,
    TOKENIZER_FILES,
    begin_as,
    check_memory,
    check_vocabulary,
    initial_run,
    load_tokenizer,
    open_run,
)
from regard.tasks.picture_run import READ_AT_ONCE
from regard.tasks.picture_verbs import CAPTION
from regard.tasks.pictures import (
    PICTURE_EDITS,
    PICTURE_SETTINGS,
    PICTURE_VIEWS,
    Augmenting,
    PictureTask,
    PreparedPictures,
    image_size,
)
from regard.tasks.recipe import Recipe
from regard.tasks.rewards import rewarded, without_noise
from regard.tasks.texts import TEXTS_INSTEAD, Subject, check_data
from regard.tasks.translating import SourceBatch, longest_target, searched
from regard.tasks.verb import TOKEN, Form
from regard.tasks.verbs import check_side
from regard.text.settings import TEXT_SETTINGS
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided
from regard.training.flops import BACKWARD, CallFlops
from regard.training.losses import Losses, Objective
from regard.training.token_loss import TokenLoss

OWN_METRICS = ("bleu", "cider")
"""Of a validation, beside the loss and what the recipe names."""
VALID_PICTURES = 200
"""So many are described at each validation: enough for a curve, and quick."""
JUDGED_PICTURES = 100
"""So many are described for each head that is ablated."""
N_SAMPLES = 8


class CaptionLoss(TokenLoss, Augmenting):
    """Cross-entropy of the words, what hard attention learns, and up to two terms beside it.

    The doubly stochastic one is that of Xu et al. 2015: Σ_i (1 − Σ_t α_ti)² a caption, times λ; α
    is the mean of all heads and layers, where there are several. The other is that of concepts.
    """

    def __init__(self, recipe: Recipe, *, compiled: bool = False) -> None:
        TokenLoss.__init__(self, recipe.train, compiled=compiled)
        Augmenting.__init__(self, recipe)

    @override
    def inputs(self, batch: Batch) -> tuple[Tensor, Tensor, Any]:
        return batch.pixels, batch.target_in, batch.target_of

    @override
    def __call__(self, model: CaptionModel, batch: Batch) -> Losses:  # type: ignore[override]
        batch = self.augmented(batch)
        if not model.training or model.concepts is None:
            return self._written(model, batch)
        with kept_outputs(model.encoder) as grids:
            losses = self._written(model, batch)
        term = model.concepts.loss(grids[0], batch.target, batch.target_of, first_word=END_ID + 1)
        config: Any = model.config
        weighted = config.concepts * term
        return losses + Losses.of("concepts", weighted, len(batch.target))

    def _written(self, model: CaptionModel, batch: Batch) -> Losses:
        """Of the words, with the doubly stochastic term where it is asked for."""
        strength = self.settings.doubly_stochastic if model.training else 0.0
        if not strength:
            return super().__call__(model, batch)
        with kept_weights(model, CROSS) as kept:
            losses = super().__call__(model, batch)
        layers = [
            torch.cat([one.weights for one in calls if one.weights is not None], dim=2).mean(dim=1)
            for calls in kept.values()
        ]
        alpha = torch.stack(layers).mean(dim=0)  # (R, T, N)
        term = doubly_stochastic(alpha, batch.target_out != PAD_ID)
        return losses + Losses.of("doubly_stochastic", strength * term, len(alpha))


class CaptionValidation:
    """An evaluator for the training loop: loss of the whole set, captions of a part of it."""

    def __init__(self, prepared: PreparedCaptions) -> None:
        self.prepared = prepared
        self.objective = CaptionLoss(prepared.recipe)
        self.batches = prepared.valid_batches()
        self.count = sum(batch.count for batch in self.batches)
        self.examples = list(prepared.data.splits["valid"][:VALID_PICTURES])
        self.settings = prepared.recipe.decode.chosen(beam=1)
        training = prepared.recipe.train
        self.metrics = (*OWN_METRICS, *training.metrics, *training.rewards)

    def __call__(self, model: CaptionModel) -> Mapping[str, float]:
        """``loss``, the metrics of greedy search and, of scenes, how many captions are true."""
        said = self.write(model)
        references = [list(one.captions) for one in self.examples]
        scores = {"loss": self.loss(model), **values(self.metrics, said, references)}
        claims = understood(self.examples, said, self.prepared.recipe.data.language)
        if claims is not None:
            scores["true_captions"] = share_true(self.examples, claims)
        return scores

    def write(self, model: CaptionModel, settings: DecodeSettings | None = None) -> list[str]:
        """The captions of a part of the set."""
        how, device, n = settings or self.settings, self.prepared.device, len(self.examples)
        pixels = torch.cat([batch.pixels for batch in self.batches])[:n]
        limits = torch.full((n,), longest_target(model.config, how.max_len), device=device)
        batches = [
            SourceBatch(pixels[i : i + READ_AT_ONCE], limits[i : i + READ_AT_ONCE], numbers)
            for i in range(0, n, READ_AT_ONCE)
            for numbers in [range(i, min(n, i + READ_AT_ONCE))]
        ]
        found = searched(model, batches, n, how, device=device)
        return [self.prepared.tokenizer.decode(best[0].ids) for best in found]

    def rehearse(self, model: CaptionModel) -> float:
        """A fresh model is made to write as much as the references are."""
        began = time.perf_counter()
        self.loss(model)
        mean_length = round(self.count / sum(len(batch.target) for batch in self.batches))
        self.write(model, self.settings.model_copy(update={"max_len": mean_length}))
        return time.perf_counter() - began

    @torch.inference_mode()
    def loss(self, model: CaptionModel) -> float:
        """The loss per token, smoothed as in training."""
        losses = divided(self.batches, lambda one: self.objective(model, one).total.item())
        return sum(losses) / self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCaptions(PreparedPictures):
    """Pictures with captions, their tokenizer and a fresh captioner."""

    config: CaptioningConfig
    model: CaptionModel
    tokenizer: Tokenizer
    reading: CallFlops
    """Of the encoder alone: a picture is read once for all its captions."""
    takes = "texts"

    @property
    @override
    def criteria(self) -> tuple[str, ...]:
        of_scenes = isinstance(self.data.splits["valid"][0].picture, SceneRecord)
        return ("loss", *OWN_METRICS, *(["true_captions"] if of_scenes else []))

    @property
    @override
    def size(self) -> Mapping[str, int]:
        n = sum(len(one.captions) for one in self.data.splits["train"])
        known = {"training pictures": len(self.train.pixels), "training captions": n}
        return {**known, "vocabulary": self.tokenizer.n_vocab}

    @property
    @override
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        return (self.tokenizer,)

    @override
    def objective(self) -> Objective:
        likelihood = CaptionLoss(self.recipe, compiled=self.compiled)

        def sources(model: SequenceModel, batch: Batch) -> SourceBatch:
            pixels = likelihood.augmented(batch).pixels
            limit = longest_target(model.config, self.recipe.decode.max_len)
            limits = torch.full((len(pixels),), limit, device=pixels.device)
            return SourceBatch(pixels, limits, batch.numbers)

        return rewarded(
            self.recipe.train,
            likelihood,
            sources=sources,
            references=(one.captions for one in self.data.splits["train"]),
            say=self.tokenizer.decode,
        )

    @override
    def validation(self) -> CaptionValidation:
        return CaptionValidation(self)

    @override
    def flops(self, batch: Any) -> float:
        pixels, target = batch.pixels[:1], batch.target_in[:1]
        read = self.reading.training(pixels)
        written = self.formula.training(pixels, target) - read
        n_read, n_written = len(batch.pixels), float(len(batch.target))
        settings = self.recipe.train
        if settings.rewards:  # for samples, as long as captions: written, then learned from
            n_written += n_read * settings.samples * (1 + 1 / BACKWARD)
            read *= 2 + 1 / BACKWARD
        return n_read * read + n_written * written

    @override
    def scored(self, run: CaptionWriter, split: str) -> Evaluation:
        """Of the first test set with a gallery."""
        found = PreparedPictures.scored(self, run, split)
        if split == self.test_sets[0]:
            write_gallery(run, self.data.split(split), found.outputs, split)
        return found

    @override
    def judged(self, out: Path, test_sets: Sequence[str] | None) -> JudgedRun:
        """With some captions of each test set beside the first of their references."""
        found, samples = PreparedPictures.judged(self, out, test_sets), []
        for name, evaluation in found.evaluations.items():
            pairs = zip(self.data.splits[name], evaluation.outputs, strict=True)
            samples += [(one.where, text, one.captions[0]) for one, text in pairs][: N_SAMPLES // 2]
        return replace(found, samples=samples[:N_SAMPLES])

    @override
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / SHARED)


class CaptioningTask(PictureTask):
    """Pictures with captions, and a model that writes them."""

    name, unit, records = "captioning", TOKEN, "caption"
    hub_task = "image-to-text"
    verbs, config, attends = (CAPTION,), CaptioningConfig, "show-attend-tell2015"
    files = (*TOKENIZER_FILES, GALLERY, EXAMPLES)
    heeds = PICTURE_SETTINGS | {
        "data.columns",
        "data.language",
        "train.init",
        "train.label_smoothing",
        "train.likelihood_weight",
        "train.metrics",
        "train.objective",
        "train.samples",
        "train.teacher_forcing",
        "train.doubly_stochastic",
        *TEXT_SETTINGS,
        *GENERATING,
    }
    smallest: ClassVar[Mapping[str, Any]] = {"n_target_vocab": 9}
    looks, evaluation_options = frozenset({"target"}), frozenset({"beam"})

    @override
    def prepare(
        self,
        recipe: Recipe,
        device: torch.device,
        *,
        begun: Path | None = None,
        cache: Path | None = None,
    ) -> PreparedCaptions:
        data = self.load_data(recipe)
        init = initial_run(recipe, begun)
        known = begun or (None if init is None else init.path)  # weights there know no other ids
        if known is None:
            texts = [text for one in data.splits["train"] for text in one.captions]
            tokenizer = Tokenizer.train(texts, recipe.text)
        else:
            tokenizer = load_tokenizer(known)
        torch.manual_seed(recipe.train.seed)
        sizes = {"n_target_vocab": tokenizer.n_vocab, "image_size": image_size(recipe, data)}
        config = resolve_for(self.name, CaptioningConfig, recipe.model, **sizes)
        config, told = without_noise(config, recipe.train)
        check_memory(config, device)
        model = cast("CaptionModel", build(config))
        _check_term(recipe, model)
        if init is not None:
            if recipe.train.rewards:
                _check_pictures(config, init)
            begin_as(model, config, init)
        encoder = _Encoder(tokenizer, config.max_len)
        tables = self.tables(recipe, data, cache, target=encoder, counts="target")
        return PreparedCaptions(
            recipe=recipe,
            config=cast("CaptioningConfig", config),
            formula=CallFlops(model),
            reading=CallFlops(model, "encode"),
            model=model.to(device),
            notes=(*data.notes, *encoder.notes, *told),
            device=device,
            tokenizer=tokenizer,
            **tables,
        )

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> CaptionWriter:
        folder, recipe, model, place = open_run(path, self.name, "a captioner", device)
        tokenizer = load_tokenizer(folder.path)
        check_vocabulary(folder, tokenizer, model.config.n_target_vocab)
        return CaptionWriter(folder, recipe, model, place, tokenizer)

    @override
    def shown(
        self, run: CaptionWriter, examples: Sequence[CaptionedPicture], found: Evaluation
    ) -> Evaluation:
        note = write_gallery(run, examples, found.outputs, found.scores["split"])
        return replace(found, notes=(*found.notes, note))

    @override
    def check_look(self, run: CaptionWriter, at_most: int, source: Any, **more: Any) -> None:
        run.fitted(source)
        target = more.get("target") or ""
        check_side(run, at_most, run.tokenizer, target, able="can be looked at")

    @override
    def subject(self, run: CaptionWriter, split: str, n: int) -> Subject:
        check_data(run.folder, run.recipe.data, TEXTS_INSTEAD)
        examples = self.kept_data(run.recipe, split).split(split)[:n]
        few = examples[:JUDGED_PICTURES]

        def judge() -> dict[str, float]:
            found = run.token_scores(examples, [one.captions for one in examples])
            total = sum(float(one.log_probs.double().sum()) for one in found)
            said = run.caption(list(few), beam=1)
            scores = {"loss": -total / sum(len(one.right) for one in found)}
            scores["bleu"] = bleu(said, [list(one.captions) for one in few])
            claims = understood(few, said, run.recipe.data.language)
            return scores | ({} if claims is None else {"true_captions": share_true(few, claims)})

        return Subject(
            run.model,
            run.device,
            lambda: run.readings(examples),
            judge,
            split,
            len(examples),
            known=lambda: {"pointing": pointing_by_head(run, examples)},
            facts={"n_bleu": len(few)},
        )

    @override
    def form(self, run: CaptionWriter) -> Form:
        return Form(
            label="A picture",
            go="Describe",
            answer="Caption",
            about="says what a picture shows",
            stands="The caption stands.",
            language=run.language or "",
            view="caption",
            views=(*PICTURE_VIEWS[:-1], "beam", "heads"),
            edits=(*PICTURE_EDITS, "force_token"),
        )

    @override
    def tokenizers(self, run: CaptionWriter) -> tuple[None, Tokenizer]:
        return None, run.tokenizer


class _Encoder:
    """Records -> for each the ids of its captions, cut where the model could not read them."""

    def __init__(self, tokenizer: Tokenizer, max_len: int) -> None:
        self.tokenizer, self.max_len = tokenizer, max_len
        self.n_cut = 0

    def __call__(self, records: Sequence[CaptionedPicture]) -> list[tuple[NDArray[np.int64], ...]]:
        """With a begin and an end token each."""
        texts = [text for one in records for text in one.captions]
        most, coming = self.max_len - 1, iter(self.tokenizer.encode_batch(texts))
        found = []
        for one in records:
            several = [next(coming) for _ in one.captions]
            self.n_cut += sum(len(ids) > most for ids in several)
            found.append(
                tuple(np.array([BEGIN_ID, *ids[:most], END_ID], np.int64) for ids in several)
            )
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """What was cut."""
        told = f"{counted(self.n_cut, 'caption')} cut to max_len={self.max_len} tokens"
        return (told,) if self.n_cut else ()


def _check_term(recipe: Recipe, model: CaptionModel) -> None:
    """Refuse the doubly stochastic term where there are no weights that could learn by it."""
    if not recipe.train.doubly_stochastic:
        return
    looks = any(name == CROSS for (name, _), _ in viewpoints(model))
    if not looks or is_drawn(model.config.normaliser):  # type: ignore[attr-defined]
        why = "draws where it looks" if looks else "does not look at the picture for each word"
        raise ConfigError(
            f"train.doubly_stochastic is for soft attention, and this model {why}; leave it out"
        )


def _check_pictures(config: ModelConfig, init: RunFolder) -> None:
    """Refuse to reward a run for pictures unlike those that it was trained with.

    Many weights take pictures of any size, and would be filled without a word.
    """
    known = load_config(init)
    for name in ("data.image_size", "model.patch_size"):
        _, key = name.split(".")
        was, asked = getattr(known, key, None), getattr(config, key)
        if was not in (None, asked):
            raise ConfigError(
                f"train.init: {init.path} was trained with {key}={was}, and this recipe has "
                f"{asked}; set {name}={was}"
            )


TASKS.add("captioning")(CaptioningTask())
