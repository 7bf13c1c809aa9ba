"""One change of the weights: gradients of some batches, clipped, handed to the optimiser.

An update is a function of whole micro-batches and their token count alone: k micro-batches give
the update of one batch of all their tokens, and so do batches of several processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from regard.checkpoints.run_folder import copy_all
from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.kernels.call import without_host
from regard.training.distributed import Ranks
from regard.training.losses import (
    Losses,
    Objective,
    balance_losses,
    balances,
    expert_accounts,
)
from regard.training.optimisers import (
    OPTIMISERS,
    freeze,
    make_optimisers,
    parameter_groups,
    set_learning_rate,
)
from regard.training.settings import TrainSettings

EAGER_STEPS = 3
"""Updates that run kernel by kernel: compilers and libraries settle before one is recorded."""


class UpdateResult(NamedTuple):
    """Losses and the gradient of an update; numbers that may still be on their way."""

    losses: Losses
    """Summed over all target tokens."""
    n_tokens: int
    """Target tokens of all processes."""
    norm: Tensor
    """Of the gradient of the loss per token, before clipping."""


Observer = Callable[[UpdateResult], object]


class Update:
    """Learns from micro-batches as if they were one batch."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        settings: TrainSettings,
        device: torch.device,
        ranks: Ranks = Ranks(),  # noqa: B008  frozen
    ) -> None:
        self.model, self.objective, self.settings = model, objective, settings
        self.device, self.ranks = device, ranks
        self.accounts = expert_accounts(model)
        freeze(model, settings.freeze)
        groups = parameter_groups(
            model, layer_decay=settings.layer_decay, weight_decay=settings.weight_decay
        )
        self.optimisers = make_optimisers(
            settings.optimiser, settings.optimiser_options, groups, device
        )

    def __call__(
        self,
        batches: Sequence[Batch],
        lr: float,
        observe: Observer = lambda _result: None,
        seeds: Sequence[int] | None = None,
    ) -> None:
        """Change the weights once. An observer that raises leaves them as they are.

        ``seeds`` are those of what is drawn with each batch; without any, drawing goes on.
        """
        n_local = sum(batch.count for batch in batches)
        n_tokens = int(self.ranks.add([n_local])[0])
        losses = self.accumulate(batches, n_tokens, seeds or [None] * len(batches))
        if self.settings.parallel == "replicate":  # shards add up theirs while they are computed
            self.ranks.add_gradients(self.model, exact=self.settings.exact)
        observe(UpdateResult(losses, n_tokens, self.clip()))
        set_learning_rate(self.optimisers, lr)
        self.step()
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)

    def accumulate(
        self, batches: Sequence[Batch], n_tokens: int, seeds: Sequence[int | None]
    ) -> Losses:
        """Leave the summed gradients of all batches with the weights; their losses.

        Where ``train.exact`` is on, they are added in pairs, which processes can do as well.
        """
        losses, gradients = Losses({}), PairwiseSum()
        for batch, seed in zip(batches, seeds, strict=True):
            if seed is not None:
                seed_generators(seed, self.device)
            losses += self.backward(batch.to(self.device), n_tokens)
            if self.settings.exact:
                gradients.add(take_gradients(self.model))
        if self.settings.exact and batches:
            learning = (one for one in self.model.parameters() if one.requires_grad)
            for parameter, gradient in zip(learning, gradients.total(), strict=True):
                parameter.grad = gradient
        return losses

    def backward(self, batch: Batch, n_tokens: int | Tensor) -> Losses:
        """Add a batch's gradients to the others; its losses, those of busy experts among them.

        A tensor of ``n_tokens`` counts this batch alone: a graph is replayed with other batches.
        """
        with autocast(self.device, self.settings.precision), balances(self.accounts) as kept:
            losses = self.objective(self.model, batch)
        told = n_tokens if isinstance(n_tokens, Tensor) else None
        losses += balance_losses(kept, batch.count, told)
        (losses.total / n_tokens).backward()
        return losses.detached()

    def clip(self) -> Tensor:
        """Shorten the gradient to ``train.clip``, if that is on; the norm it had."""
        if self.settings.clip:
            norm: Any = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        else:
            gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
            norm = nn.utils.get_total_norm(gradients)
        return norm.full_tensor() if self.settings.parallel == "shard" else norm

    def step(self) -> None:
        """Let the optimisers move the weights."""
        for optimiser in self.optimisers:
            optimiser.step()


class CapturedUpdate(Update):
    """An update of one micro-batch, recorded as one graph of kernels for each shape of a batch.

    A small model on a fast GPU spends its time waiting for Python to name the next kernel. Batches
    that are packed all have the same shapes, and tiled ones few, so the kernels of one update are
    those of many others; only the numbers in their inputs change. The observer is called
    afterwards: to ask in between, the host would have to wait. An optimiser whose step cannot be
    recorded follows the graph.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._recordings: dict[Shapes, Recording] = {}
        self._n_seen: Counter[Shapes] = Counter()
        self._n_steps = 0

    @override
    def __call__(
        self,
        batches: Sequence[Batch],
        lr: float,
        observe: Observer = lambda _result: None,
        seeds: Sequence[int] | None = None,
    ) -> None:
        (batch,) = batches
        shapes = tuple(x.shape for x in batch_tensors(batch))
        self._n_steps += 1
        self._n_seen[shapes] += 1
        with without_host():
            if self._n_steps <= EAGER_STEPS or self._n_seen[shapes] == 1:
                super().__call__(batches, lr, observe, seeds)
                return
            if shapes not in self._recordings:
                self._recordings[shapes] = self._record(batch)
        recording = self._recordings[shapes]
        for here, there in zip(batch_tensors(recording.batch), batch_tensors(batch), strict=True):
            here.copy_(there, non_blocking=True)
        recording.n_tokens.fill_(batch.count)
        set_learning_rate(self.optimisers, lr)
        for seed in seeds or ():
            seed_generators(seed, self.device)
        recording.graph.replay()
        if not self._records_step:
            self._step_after(recording)
        sums = {name: value.clone() for name, value in recording.result.losses.sums.items()}
        counts = dict.fromkeys(sums, batch.count)
        observe(UpdateResult(Losses(sums, counts), batch.count, recording.result.norm.clone()))

    @property
    def _records_step(self) -> bool:
        return OPTIMISERS[self.settings.optimiser].capturable

    def _record(self, batch: Batch) -> Recording:
        """Nothing is computed here; gradients come to lie in memory that the graph owns."""
        here, n_tokens = batch.to(self.device), torch.zeros((), device=self.device)
        graph = torch.cuda.CUDAGraph()
        pool = next((one.graph.pool() for one in self._recordings.values()), None)
        # Other threads go on meanwhile: the one that makes batches pins memory.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            losses = self.backward(here, n_tokens)
            result = UpdateResult(losses, batch.count, self.clip())
            if self._records_step:
                self.step()
        gradients = [p.grad for p in self.model.parameters()]
        self.model.zero_grad(set_to_none=True)
        return Recording(graph, here, n_tokens, result, gradients)

    def _step_after(self, recording: Recording) -> None:
        """Let the optimisers move the weights by the gradients that a graph has computed."""
        for parameter, gradient in zip(self.model.parameters(), recording.gradients, strict=True):
            parameter.grad = gradient
        self.step()
        self.model.zero_grad(set_to_none=True)


Shapes = tuple[torch.Size, ...]


class Recording(NamedTuple):
    """A graph of kernels, and where its inputs and its results lie."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    n_tokens: Tensor
    result: UpdateResult
    gradients: list[Tensor | None]


class PairwiseSum:
    """Adds lists of tensors in pairs, then pairs of pairs, and so on.

    Where there is a power of two of them, some in a row can be added apart, if they are a power of
    two as well, and the sums then: each number is the same to the last bit.
    """

    def __init__(self) -> None:
        self._sums: list[tuple[int, list[Tensor]]] = []  # of how many each, in their order

    def add(self, tensors: list[Tensor]) -> None:
        """Take in the next list."""
        n = 1
        while self._sums and self._sums[-1][0] == n:
            tensors = [*torch._foreach_add(self._sums.pop()[1], tensors)]
            n *= 2
        self._sums.append((n, tensors))

    def total(self) -> list[Tensor]:
        """The sum of all."""
        *others, (_, total) = self._sums
        for _, tensors in reversed(others):
            total = [*torch._foreach_add(tensors, total)]
        return total


def take_gradients(model: nn.Module) -> list[Tensor]:
    """The gradients of all that learns, zeros where there is none; the model keeps none."""
    found = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            gradient, parameter.grad = parameter.grad, None
            found.append(torch.zeros_like(parameter) if gradient is None else gradient)
    return found


def seed_generators(seed: int, device: torch.device) -> None:
    """What torch draws from now on, on the CPU and on this device, depends on the seed alone."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


def batch_tensors(batch: Any) -> list[Tensor]:
    """All tensors of a batch, in the order of its fields."""
    if isinstance(batch, Tensor):
        return [batch]
    if isinstance(batch, Mapping):
        return [x for value in batch.values() for x in batch_tensors(value)]
    if not is_dataclass(batch):
        return []
    return [x for field in fields(batch) for x in batch_tensors(getattr(batch, field.name))]


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """Products in bf16 where that is asked for, or where ``auto`` finds a GPU that has it."""
    return torch.autocast(device.type, torch.bfloat16, enabled=uses_bf16(device, precision))


def uses_bf16(device: torch.device, precision: str) -> bool:
    """What ``fp32``, ``bf16`` or ``auto`` means on a device."""
    has_it = device.type != "cuda" or torch.cuda.is_bf16_supported()
    if precision == "bf16" and not has_it:
        raise ConfigError("train.precision=bf16, but this GPU has no bf16; use fp32")
    return precision == "bf16" or (precision == "auto" and device.type == "cuda" and has_it)


class RunningAverage:
    """average ← d·average + (1-d)·weights, with a smaller d at first: min(decay, (1+n)/(10+n)).

    Steadier than the last weights, at no cost when the model is used. Buffers are not averaged.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.n_updates = 0
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights of one more step."""
        self.n_updates += 1
        decay = min(self.decay, (1 + self.n_updates) / (10 + self.n_updates))
        names, parameters = zip(*model.named_parameters(), strict=True)
        torch._foreach_lerp_([self.weights[name] for name in names], parameters, 1 - decay)

    def restore(self, weights: Mapping[str, Tensor], n_updates: int) -> None:
        """Go on from a checkpoint."""
        self.n_updates = n_updates
        copy_all(self.weights, weights, "the average of a checkpoint")

    @contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """Inside the block the model has the averaged weights."""
        parameters = dict(model.named_parameters())
        kept = {name: p.data for name, p in parameters.items()}
        try:
            for name, parameter in parameters.items():
                parameter.data = self.weights[name]
            yield
        finally:
            for name, parameter in parameters.items():
                parameter.data = kept[name]
