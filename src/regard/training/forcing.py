"""Whether a model that learns to write is shown the right words so far, or its own."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.models.base import SequenceModel
from regard.training.settings import ForcingSchedule


def forced_share(setting: float | ForcingSchedule, step: int) -> float:
    """The chance that a word shown is the right one, at a step counted from 0."""
    if isinstance(setting, float):
        return setting
    done = min(1.0, step / setting.steps)
    return setting.start + (setting.end - setting.start) * done


def written(model: SequenceModel, source: Tensor, target: Tensor, share: float) -> Tensor:
    """Logits (B, T, V) for target ids (B, T) from the begin token on, some replaced as we go.

    Each next word is the right one with the chance ``share``, else the model's own best guess:
    scheduled sampling (Bengio et al. 2015), and with a share of 0 free running. Whoever reads its
    own words must write one after the other, so this is a loop of steps for every model.
    """
    memory = model.encode(source)
    state = model.start(memory)
    ids, logits = target[:, 0], []
    for right in (*target[:, 1:].unbind(dim=1), None):
        guess, state = model.step(ids, memory, state)
        logits.append(guess)
        if right is not None:
            shown = torch.rand(len(ids), device=ids.device) < share
            ids = torch.where(shown, right, guess.detach().argmax(dim=-1))
    return torch.stack(logits, dim=1)
