"""A plug-in: a score, an optimiser, a metric, a model, and a task that labels vectors.

The task is whole here: records, batches, loss, scores, run, verb and form. What it does not say
(training, resuming, reports, the command, the server, the page) follows from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import DataError
from regard.core.files import write_whole
from regard.data.batch import Batch, pad_sequences
from regard.data.stream import Stream
from regard.evaluation.label_metrics import accuracy
from regard.evaluation.metrics import computed, metric
from regard.functional.scores import SCORES, ScoreKind
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.layers.blocks import EncoderBlock
from regard.models.presets import (
    FAMILIES,
    PRESETS,
    Family,
    Preset,
    build,
    n_parameters,
    resolve_for,
)
from regard.models.settings import BlocksConfig
from regard.tasks import edits
from regard.tasks.base import TASKS, Evaluation, Prepared, Scoring, Task
from regard.tasks.look import Choice, Look, Prediction, TopChoices
from regard.tasks.opening import TrainedRun, check_memory, open_run
from regard.tasks.recipe import Recipe
from regard.tasks.requests import Request
from regard.tasks.verb import Answer, Form, Unit, Verb
from regard.training.losses import Losses, Objective, cross_entropy
from regard.training.optimisers import OPTIMISERS, OptimiserKind, OptimiserOptions
from regard.visual.payload import Axis

WIDTH = 2
"""Numbers of a frame."""
LABELS = "motions.json"

# ------------------------------------------------------------------ a score, an optimiser, a metric


def distance(q: Tensor, k: Tensor) -> Tensor:
    """Minus the squared distance of queries (…, T, D) and keys (…, S, D) -> (…, T, S)."""
    return -(q.unsqueeze(-2) - k.unsqueeze(-3)).square().sum(dim=-1)


SCORES.add("distance")(ScoreKind(distance, equal_widths=True))


class SignSgd(torch.optim.Optimizer):
    """A step of the learning rate against the sign of the gradient (Bernstein et al. 2018)."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 1e-3})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(group["lr"] * parameter.grad.sign())


OPTIMISERS.add("sign_sgd")(
    OptimiserKind(OptimiserOptions, lambda groups, _options, _on_gpu: [SignSgd(groups)])
)


@metric("worst_recall", unit="share", better="higher", takes="labels")
def worst_recall(predicted: Sequence[Any], right: Sequence[Any]) -> float:
    """The share of right answers for the label that is found worst."""
    hits = {
        label: [p == label for p, r in zip(predicted, right, strict=True) if r == label]
        for label in {*right}
    }
    return min(sum(found) / len(found) for found in hits.values())


# ------------------------------------------------------------------ a model


class FramesConfig(BlocksConfig):
    """Encoder blocks over vectors, whose mean tells a label."""

    family: str = "frames"
    n_labels: int = Field(ge=2)


class FramesEncoder(nn.Module):
    """Frames (B, S, 2) and their lengths (B,) -> logits (B, n_labels)."""

    def __init__(self, config: FramesConfig) -> None:
        super().__init__()
        self.config = config
        self.enter = nn.Linear(WIDTH, config.d_model)
        self.layers = nn.ModuleList(EncoderBlock(config) for _ in range(config.n_layers))
        self.head = nn.Linear(config.d_model, config.n_labels)

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        """The mean of the frames that are real tells the label."""
        real = torch.arange(frames.shape[1], device=frames.device) < lengths.unsqueeze(1)
        x = self.enter(frames)
        for layer in self.layers:
            x = layer(x, real[:, None, None])
        return self.head((x * real.unsqueeze(-1)).sum(dim=1) / lengths.unsqueeze(1))


FAMILIES.add("frames")(Family(FramesConfig, FramesEncoder))
PRESETS.add("frames")(
    Preset(
        "frames",
        "Encoder over vectors, of a plug-in",
        {"tiny": {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 32, "dropout": 0.0}},
    )
)

# ------------------------------------------------------------------ records and batches

Frames = NDArray[np.float32]


class Motion(NamedTuple):
    """A sequence of vectors (n, 2), and what it is called."""

    frames: Frames
    label: str


class Motions(tuple[Motion, ...]):
    """Examples that a stream can take up again."""

    @property
    def digest(self) -> str:
        """Changes with the examples."""
        return f"{len(self)}:{sum(float(one.frames.sum()) for one in self):.6f}"

    def of_epoch(self, _epoch: int) -> Motions:
        """The same in every epoch."""
        return self


def read_motions(path: Path) -> Motions:
    """A line of JSON a motion."""
    if not path.exists():
        raise DataError(f"no file {path}")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return Motions(Motion(as_frames(row["frames"]), row["label"]) for row in rows)


def as_frames(rows: Any) -> Frames:
    """Numbers (n, 2), which may be JSON; whatever else is refused."""
    try:
        frames = np.array(json.loads(rows) if isinstance(rows, str) else rows, np.float32)
    except (TypeError, ValueError):
        frames = np.zeros(0, np.float32)
    if frames.ndim != 2 or frames.shape[1] != WIDTH:
        raise DataError(f"expected pairs of numbers, such as [[0, 1], [2, 3]], got {rows!r:.60}")
    return frames


def collate(names: Sequence[str], motions: Sequence[Motion], rows: Sequence[int]) -> Batch:
    """Some examples side by side: frames (B, S, 2), lengths (B,), labels (B,)."""
    frames, lengths = pad_sequences([motions[row].frames for row in rows])
    labels = torch.tensor([names.index(motions[row].label) for row in rows])
    tensors = {"frames": frames, "lengths": lengths, "labels": labels}
    return Batch(tensors, tuple(rows), count=len(rows))


def chunked(motions: Sequence[Motion], rng: np.random.Generator, size: int) -> list[list[int]]:
    """An epoch's batches."""
    order = rng.permutation(len(motions)).tolist()
    return [order[i : i + size] for i in range(0, len(order), size)]


class MotionLoss(Objective):
    """Cross-entropy of the labels."""

    def __call__(self, model: nn.Module, batch: Batch) -> Losses:
        """Summed over the motions of a batch."""
        loss = cross_entropy(model(batch.frames, batch.lengths), batch.labels)
        return Losses.of("cross_entropy", loss, batch.count)


# ------------------------------------------------------------------ a trained run


@dataclass(frozen=True, slots=True, repr=False)
class Recogniser(TrainedRun):
    """A trained run with all it needs to be used."""

    folder: RunFolder
    recipe: Recipe
    model: FramesEncoder
    device: torch.device
    labels: tuple[str, ...]

    @torch.inference_mode()
    def probabilities(self, many: Sequence[Frames]) -> Tensor:
        """(n, labels)"""
        frames, lengths = pad_sequences(many)
        logits = self.model(frames.to(self.device), lengths.to(self.device))
        return logits.softmax(dim=-1).cpu()

    def scored(self, motions: Sequence[Motion], split: str) -> Evaluation:
        """Scores on any motions."""
        found = self.probabilities([one.frames for one in motions]).argmax(dim=-1).tolist()
        given, right = [self.labels[i] for i in found], [one.label for one in motions]
        scores = computed(("accuracy", "worst_recall"), given, right)
        named = {"task": self.task, "split": split, "n": len(motions)}
        return Evaluation({**named, **scores}, given)

    def explain(self, source: Any, edit: Any = ()) -> Look:
        """Where every attention looks while the frames are read."""
        frames = as_frames(source)
        changes = edits.edits_from(edit)
        inputs = torch.from_numpy(frames)[None].to(self.device), torch.tensor([len(frames)])
        with edited(self.model, edits.of_model(changes)):
            output, found = recorded_call(self.model, *inputs)
        shares = output[0].softmax(dim=-1).tolist()
        choices = sorted(map(Choice, self.labels, shares), key=lambda one: -one.probability)
        names = tuple(str(i) for i in range(len(frames)))
        return Look.of(
            found,
            changes,
            source=json.dumps(frames.tolist()),
            source_tokens=names,
            target_tokens=(),
            answer=choices[0].text,
            task=self.task,
            outcome=Prediction("label", choices[0].text, (TopChoices(None, tuple(choices)),)),
            axes={name: {"rows": "source", "columns": "source"} for name in found},
            sides={"source": Axis(names, "frames")},
        )

    @override
    def facts(self) -> dict[str, Any]:
        return {**TrainedRun.facts(self), "labels": list(self.labels)}


# ------------------------------------------------------------------ the task


class RecogniseRequest(Request):
    """A motion that is to get a label."""

    frames: list[tuple[float, float]] = Field(
        min_length=1, max_length=500, description="Points of the plane."
    )


class Recognise(Verb):
    """A motion in, its label out."""

    name, task, wants = "recognise", "motions", "one of motions"
    summary = "Label the motions of standard input, a JSON list of points a line."

    @property
    @override
    def request(self) -> type[RecogniseRequest]:
        return RecogniseRequest

    @override
    def from_line(self, run: Recogniser, line: str, options: Any) -> RecogniseRequest:
        return RecogniseRequest.model_construct(frames=[*map(tuple, as_frames(line).tolist())])

    @override
    def answer(self, run: Recogniser, requests: Sequence[Any]) -> list[Answer]:
        shares = run.probabilities([as_frames(one.frames) for one in requests])
        return [
            {"label": run.labels[int(row.argmax())], "probability": float(row.max())}
            for row in shares
        ]

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        return f"{answer['label']}\t{answer['probability']:.4f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMotions(Prepared):
    """Motions, and a model that labels them."""

    criteria = ("loss", "accuracy")
    splits: Mapping[str, Motions]
    labels: tuple[str, ...]

    @property
    @override
    def size(self) -> dict[str, int]:
        return {"training motions": len(self.splits["train"]), "labels": len(self.labels)}

    @property
    @override
    def test_sets(self) -> Sequence[str]:
        return ("test",)

    @override
    def stream(self) -> Stream:
        n = self.recipe.train.batch_tokens
        return Stream(
            self.splits["train"],
            partial(chunked, size=n),
            partial(collate, self.labels),
            seed=self.recipe.train.seed,
            depends_on={"batch_tokens": n},
        )

    @override
    def objective(self) -> MotionLoss:
        return MotionLoss()

    @override
    def validation(self) -> Scoring:
        valid = self.splits["valid"]
        batch = collate(self.labels, valid, range(len(valid))).to(self.device)

        def scores(model: FramesEncoder) -> dict[str, float]:
            logits = model(batch.frames, batch.lengths)
            loss = cross_entropy(logits, batch.labels).item() / batch.count
            right = accuracy(logits.argmax(dim=-1).tolist(), batch.labels.tolist())
            return {"loss": loss, "accuracy": right}

        return Scoring(scores)

    @override
    def flops(self, batch: Batch) -> float:
        return 6.0 * n_parameters(self.model) * batch.frames.shape[:2].numel()

    @override
    def example(self, number: int) -> str:
        return str(self.splits["train"][number].frames.tolist())

    @override
    def scored(self, run: Recogniser, split: str) -> Evaluation:
        return run.scored(self.splits[split], split)

    @override
    def save(self, folder: Path) -> None:
        write_whole(folder / LABELS, json.dumps(self.labels) + "\n")


class MotionsTask(Task):
    """Labels for sequences of vectors."""

    name, verbs, unit, attends = "motions", (Recognise(),), Unit("motion", "motions"), "frames"
    files = (LABELS,)
    smallest: ClassVar[Mapping[str, Any]] = {"n_labels": 2}
    config = FramesConfig

    @override
    def prepare(
        self,
        recipe: Recipe,
        device: torch.device,
        *,
        begun: Path | None = None,
        cache: Path | None = None,
    ) -> PreparedMotions:
        splits = {name: self._split(recipe, name) for name in ("train", "valid", "test")}
        labels = tuple(sorted({one.label for one in splits["train"]}))
        torch.manual_seed(recipe.train.seed)
        config = resolve_for(self.name, FramesConfig, recipe.model, n_labels=len(labels))
        check_memory(config, device)
        return PreparedMotions(
            recipe=recipe,
            config=config,
            model=build(config).to(device),
            notes=(),
            device=device,
            splits=splits,
            labels=labels,
        )

    @staticmethod
    def _split(recipe: Recipe, name: str) -> Motions:
        file = getattr(recipe.data, name)
        if not isinstance(file, str):
            raise DataError(f"data.{name} must name one file of motions")
        return read_motions(Path(recipe.data.folder or ".") / file)

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> Recogniser:
        folder, recipe, model, place = open_run(path, self.name, "one of motions", device)
        labels = tuple(json.loads((folder.path / LABELS).read_text()))
        return Recogniser(folder, recipe, model, place, labels)

    @override
    def evaluate(self, run: Recogniser, split: str | None = None, **options: Any) -> Evaluation:
        return run.scored(self._split(run.recipe, split or "test"), split or "test")

    @override
    def score_file(self, run: Recogniser, path: Path, **options: Any) -> Evaluation:
        return run.scored(read_motions(path), path.name)

    @override
    def form(self, run: Recogniser) -> Form:
        return Form(
            label="Points, as [[0, 1], [2, 3]]",
            go="Recognise",
            answer="Label",
            about=f"{len(run.labels)} motions",
            stands="The label stands.",
            edits=("ablate", "force", "temperature"),
        )

    @override
    def examples(self, run: Recogniser) -> list[Any]:
        return ["[[0, 0], [0, 0.5], [0, 1]]"]


TASKS.add("motions")(MotionsTask())
