"""What models of texts are rewarded for: samples of their own, judged by a metric of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.data.batch import Batch
from regard.decoding.sampling import Sampler, noise_for, sample
from regard.evaluation.metrics import METRICS, Metric, judges
from regard.functional.attend import is_drawn
from regard.models.base import SequenceModel
from regard.models.settings import Config, without_dropout
from regard.tasks.base import TASKS
from regard.tasks.recipe import Recipe
from regard.tasks.translating import SourceBatch
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID
from regard.training.expected_reward import ExpectedReward, Samples, encoded
from regard.training.losses import Objective
from regard.training.settings import LIKELIHOOD, TrainSettings

NO_DROPOUT = "dropout is off: what is rewarded is sampled from the whole model"
Reward = Callable[[str, str], float]
"""What was written, and what is right -> how good it is; more is better."""
Sources = Callable[[SequenceModel, Batch], SourceBatch]
"""What a model reads of a batch, and how long its targets may become."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTexts:
    """Draws some texts for every source of a batch, all in one search, and rewards them.

    Where several texts are right, a sample earns what the nearest of them gives it.
    """

    n: int
    """Of each source."""
    reward: Reward
    sources: Sources
    references: Sequence[tuple[str, ...]]
    """The right texts of each training example, by its number."""
    say: Callable[[Sequence[int]], str]
    """Ids of a target -> its text."""

    def __call__(self, model: SequenceModel, batch: Batch, rng: torch.Generator) -> Samples:
        """Samples of the sources (B, …); each comes with its reward."""
        source, limits, numbers = self.sources(model, batch)
        limits = limits.repeat_interleave(self.n)
        noise = noise_for(limits.tolist(), rng).to(source.device)
        rows = source.repeat_interleave(self.n, dim=0)
        found = sample(_ReadOnce(model, self.n), rows, limits=limits, sampler=Sampler(noise))
        texts = [[BEGIN_ID, *one.ids, *([END_ID] if one.finished else [])] for one in found]
        ids = pad_sequence([torch.tensor(text) for text in texts], True, PAD_ID)
        right = [self.references[number] for number in numbers for _ in range(self.n)]
        rewards = [
            max(self.reward(self.say(one.ids), text) for text in several)
            for one, several in zip(found, right, strict=True)
        ]
        earned = torch.tensor(rewards, device=source.device).view(-1, self.n)
        return Samples(source, ids.to(source.device), earned)


@dataclass(frozen=True, slots=True)
class _ReadOnce:
    """A model that reads a source once for its n targets, whose rows lie side by side."""

    model: SequenceModel
    n: int

    def __call__(self, source: Tensor, target: Tensor) -> Any:
        return self.model(source, target)

    def encode(self, source: Tensor) -> Any:
        return encoded(self.model, source[:: self.n], self.n)

    def start(self, memory: Any) -> Any:
        return self.model.start(memory)

    def step(self, ids: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        return self.model.step(ids, memory, state)


def rewarded(
    settings: TrainSettings,
    likelihood: Objective,
    *,
    sources: Sources,
    references: Iterable[tuple[str, ...]],
    say: Callable[[Sequence[int]], str],
) -> Objective:
    """The likelihood, with the reward of samples beside it where the settings name one.

    ``references`` are gone through for a reward alone: they are as many as there are examples.
    """
    if not settings.rewards:
        return likelihood
    draw = SampledTexts(
        n=settings.samples,
        reward=reward_of(settings.objective),
        sources=sources,
        references=list(references),
        say=say,
    )
    return ExpectedReward(settings, likelihood, draw)


def reward_of(name: str) -> Reward:
    """A metric of single texts as a reward: of 0 … 1 where it counts points, and more is better."""
    metric = METRICS[name]
    scale = 100.0 if metric.unit == "points" else 1.0
    return lambda said, right: -metric.cost(metric([said], [right])) / scale


def check_objective(recipe: Recipe) -> None:
    """Refuse a reward that is none, compiling it, and its settings where there is no reward.

    Tasks without rewards refuse all of these with the other settings that do nothing.
    """
    settings = recipe.train
    if "train.objective" not in TASKS[recipe.task].heeds:
        return
    if not settings.rewards:
        fields = TrainSettings.model_fields
        for name in ("samples", "likelihood_weight"):
            if (value := getattr(settings, name)) != fields[name].default:
                raise ConfigError(
                    f"train.{name}={value} does nothing with train.objective={LIKELIHOOD}; leave "
                    "it out, or name a reward such as gleu"
                )
        return
    known = [LIKELIHOOD, *(name for name in METRICS if _fits(METRICS[name], recipe))]
    if settings.objective not in known:
        given = settings.objective
        wrong = (
            f"train.objective={given} does not judge single texts of this data"
            if given in METRICS
            else f"unknown train.objective {given!r}{did_you_mean(given, known)}"
        )
        raise ConfigError(
            f"{wrong}; with this data there are {', '.join(known)}, which judge each text by itself"
        )
    if settings.init is None:
        raise ConfigError(
            f"train.objective: {settings.objective!r} rewards what a trained model writes: name a "
            "run to begin as, train.init=RUN"
        )
    if settings.compile is True:
        raise ConfigError(
            f"train.compile=true: train.objective={settings.objective} learns from samples, no two "
            "batches of which have one shape, and cannot be compiled; leave it at auto"
        )


def _fits(metric: Metric, recipe: Recipe) -> bool:
    """Whether a metric judges single texts of such data."""
    judges_texts = metric.function is not None and metric.takes == "texts" and metric.judges_one
    return judges_texts and judges(metric, recipe.data.world)


def without_noise(config: Config, settings: TrainSettings) -> tuple[Config, tuple[str, ...]]:
    """The architecture that is trained, and notes on it: whoever is rewarded has no dropout.

    One that samples otherwise than it learns is refused.
    """
    if not settings.rewards:
        return config, ()
    normaliser = getattr(config, "normaliser", "softmax")
    if is_drawn(normaliser):
        raise ConfigError(
            f"model.normaliser={normaliser} draws one key in training and takes the best when it "
            "writes, so that rewards would teach another model; use softmax"
        )
    return without_dropout(config), (NO_DROPOUT,)
