"""What models of texts are rewarded for: samples of their own, judged by a metric of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.data.batch import Batch
from regard.decoding.sampling import Sampler, noise_for, sample
from regard.evaluation.metrics import METRICS
from regard.functional.attend import is_drawn
from regard.models.base import SequenceModel
from regard.models.settings import SequenceConfig
from regard.tasks.recipe import Recipe
from regard.tasks.translating import length_limits
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID
from regard.training.expected_reward import Samples
from regard.training.settings import LIKELIHOOD, TrainSettings

Reward = Callable[[str, str], float]
"""What was written, and what is right -> how good it is; more is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTranslations:
    """Draws some translations of every source of a batch, all in one search, and rewards them."""

    n: int
    """Of each source."""
    reward: Reward
    references: Sequence[str]
    """The right text of each training example, by its number."""
    say: Callable[[Sequence[int]], str]
    """Ids of a target -> its text."""
    max_len: int

    def __call__(self, model: SequenceModel, batch: Batch, rng: torch.Generator) -> Samples:
        """Samples of the sources (B, S); each comes with its reward."""
        source = batch.source.repeat_interleave(self.n, dim=0)
        limits = length_limits(model, batch.source, self.max_len).repeat_interleave(self.n)
        noise = noise_for(limits.tolist(), rng).to(source.device)
        found = sample(model, source, limits=limits, sampler=Sampler(noise))
        rows = [[BEGIN_ID, *one.ids, *([END_ID] if one.finished else [])] for one in found]
        ids = pad_sequence([torch.tensor(row) for row in rows], True, PAD_ID)
        right = [self.references[number] for number in batch.numbers for _ in range(self.n)]
        rewards = [
            self.reward(self.say(one.ids), text) for one, text in zip(found, right, strict=True)
        ]
        earned = torch.tensor(rewards, device=source.device).view(-1, self.n)
        return Samples(ids.to(source.device), earned)


def reward_of(name: str) -> Reward:
    """A metric of single texts as a reward: of 0 … 1 where it counts points, and more is better."""
    metric = METRICS[name]
    scale = 100.0 if metric.unit == "points" else 1.0
    return lambda said, right: -metric.cost(metric([said], [right])) / scale


def check_objective(recipe: Recipe) -> None:
    """Refuse a reward that is none, compiling it, and its settings where there is no reward."""
    settings = recipe.train
    if not settings.rewards:
        fields = TrainSettings.model_fields
        for name in ("samples", "likelihood_weight"):
            if (value := getattr(settings, name)) != fields[name].default:
                raise ConfigError(
                    f"train.{name}={value} does nothing with train.objective={LIKELIHOOD}; leave "
                    "it out, or name a reward such as gleu"
                )
        return
    able = [n for n, m in METRICS.items() if m.function is not None and m.takes == "texts"]
    known = [LIKELIHOOD, *able]
    if settings.objective not in known:
        hint = did_you_mean(settings.objective, known)
        raise ConfigError(
            f"unknown train.objective {settings.objective!r}{hint}; known: {', '.join(known)}"
        )
    if settings.compile is True:
        raise ConfigError(
            f"train.compile=true: train.objective={settings.objective} learns from samples, no two "
            "batches of which have one shape, and cannot be compiled; leave it at auto"
        )


def check_rewarded(config: SequenceConfig) -> None:
    """Refuse a model that samples otherwise than it learns."""
    normaliser = getattr(config, "normaliser", "softmax")
    if is_drawn(normaliser):
        raise ConfigError(
            f"model.normaliser={normaliser} draws one key in training and takes the best when it "
            "writes, so that rewards would teach another model; use softmax"
        )
