"""How a model is trained. No tensors here: the command line reads this too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from regard.core.settings import parse
from regard.training.optimisers import OPTIMISERS
from regard.training.schedules import SCHEDULES, ForcingSchedule
from regard.training.trackers import TRACKERS


def _lists(names: Iterable[str]) -> Any:
    """Puts the names of a registry into the JSON schema, those of plug-ins among them."""

    def add(schema: dict[str, Any]) -> None:
        schema["enum"] = [*names]

    return add


LIKELIHOOD = "likelihood"
"""The objective that needs no reward."""


class TrainSettings(BaseModel):
    """The section ``train`` of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    seed: int = Field(
        1, ge=0, le=2**63 - 1, description="Decides the first weights, the batches and dropout."
    )
    max_steps: int | None = Field(None, ge=1, description="Updates of the weights, at most.")
    max_minutes: float | None = Field(None, gt=0, description="Time to train, at most.")
    batch_tokens: int = Field(
        4096, ge=1, description="Padded tokens of a batch on its longer side."
    )
    batch_size: int = Field(64, ge=1, description="Pictures of a batch.")
    accumulate: int = Field(
        1,
        ge=1,
        description="Batches whose gradients make one update, those of all processes together.",
    )
    parallel: Literal["replicate", "shard"] = Field(
        "replicate",
        description="What each of several processes holds: the whole model, or its part of the "
        "weights, gradients and optimiser (FSDP2), for models that do not fit.",
    )
    exact: bool = Field(
        False,
        description="Whether weights are bit for bit the same for 1, 2, 4, … processes: gradients "
        "are added in a fixed order, each process has one thread, and a GPU takes kernels that add "
        "in one order. train.accumulate must be a power of two, and a multiple of the number of "
        "processes.",
    )
    lr: float | None = Field(
        None, gt=0, description="Highest learning rate; by default the paper's, from d_model."
    )
    warmup_steps: int = Field(4000, ge=1, description="Updates until the highest learning rate.")
    schedule: str = Field(
        "inverse_sqrt",
        description="After the warm-up: falls as 1/sqrt(step), evenly or along a cosine to zero at "
        "max_steps, or not at all.",
        json_schema_extra=_lists(SCHEDULES),
    )
    optimiser: str = Field(
        "adamw",
        description="What turns gradients into steps; muon has AdamW beside it for all that is "
        "no hidden matrix.",
        json_schema_extra=_lists(OPTIMISERS),
    )
    optimiser_options: dict[str, Any] = Field(
        {}, description="Of the optimiser, such as {betas: [0.9, 0.95]}; its own where not given."
    )
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="Probability given to other tokens."
    )
    teacher_forcing: Annotated[float, Field(ge=0, le=1)] | ForcingSchedule = Field(
        1.0,
        description="Chance that the next word shown is the right one, not the model's own; "
        "a number, or {start, end, steps}. Less than 1 makes training a loop of steps.",
    )
    doubly_stochastic: float = Field(
        0.0,
        ge=0,
        description="λ of what is added to the loss of a caption: λ · Σ (1 − attention that a part "
        "of the picture got from all words together)² (Xu et al. 2015).",
    )
    clip: float | None = Field(
        1.0, ge=0, description="Largest norm of the gradient; 0 or null clips nothing."
    )
    weight_decay: float = Field(
        0.0,
        ge=0,
        description="How much of a matrix each step takes away, as a share of the learning rate "
        "(Loshchilov & Hutter 2019); biases and norms keep theirs.",
    )
    save_every: int = Field(1000, ge=1, description="Updates between two checkpoints.")
    keep: int = Field(
        2,
        ge=2,
        description="Checkpoints that are kept, the last ones, beside the best; `regard average` "
        "takes the mean of some.",
    )
    eval_every: int = Field(1000, ge=1, description="Updates between two validations.")
    log_every: int = Field(50, ge=1, description="Updates between two lines of metrics.")
    log: str = Field(
        "tensorboard",
        description="Where metrics go beside metrics.jsonl: tensorboard, wandb or mlflow (if they "
        "are installed; their own variables say where), or none.",
        json_schema_extra=_lists(TRACKERS),
    )
    film: bool = Field(
        False,
        description="Whether one held-out example is looked at again at every validation and kept "
        "in film.jsonl, for the page. It takes the memory of one more model.",
    )
    init: str | None = Field(
        None, description="A run folder whose weights and tokenizers to start from."
    )
    objective: str = Field(
        LIKELIHOOD,
        description="likelihood, or the metric of texts that rewards what the model samples (gleu, "
        "chrf, …; Wu et al. 2016): to go on from train.init with. Dropout is off then.",
    )
    samples: int = Field(
        15, ge=2, description="Of each source, where train.objective rewards samples."
    )
    likelihood_weight: float = Field(
        0.017, ge=0, description="α of the likelihood beside the reward of train.objective."
    )
    criterion: str = Field(
        "",
        description="The metric of the validation by which the best weights are chosen: bleu of "
        "translators, accuracy where answers are right or wrong, or one of train.metrics. By "
        "default the loss, or what train.objective rewards.",
    )
    metrics: tuple[str, ...] = Field(
        (), description="Metrics of validations and tests beside the task's own, as of a plug-in."
    )
    patience: int | None = Field(
        None, ge=1, description="Validations without a new best after which training stops."
    )
    average: float = Field(
        0.0, ge=0, lt=1, description="Decay of the running average of the weights; 0 keeps none."
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: bf16 on a GPU that has it, else fp32."
    )
    compile: Literal["auto"] | bool = Field(
        "auto",
        description="Whether torch.compile makes the kernels; auto: on a GPU, unless the run is "
        "short. It takes about a minute, once.",
    )
    vectors: str | tuple[str, str] | None = Field(
        None,
        description="A file of word vectors that embeddings begin as, in the text format of "
        "word2vec (.gz and .xz will do), or a run of `regard train vectors`, for text.kind word; "
        "or two of them, [source, target]. "
        "train.freeze with *tokens.weight keeps them as they are.",
    )
    freeze: tuple[str, ...] = Field(
        (), description="Weights that learn nothing, by patterns of their names: embedding.*, …"
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="How fast a layer learns, as a share of the one above it; the head is on top.",
    )

    @field_validator("teacher_forcing", mode="before")
    @classmethod
    def _share_or_schedule(cls, forcing: Any) -> Any:
        share = isinstance(forcing, int | float) and not isinstance(forcing, bool)
        if (share and 0 <= forcing <= 1) or isinstance(forcing, dict | ForcingSchedule):
            return float(forcing) if share else forcing
        raise ValueError(f"expected a number from 0 to 1, or {{start, end, steps}}: {forcing!r}")

    @field_validator("criterion")
    @classmethod
    def _by_loss_or_reward(cls, criterion: str, info: ValidationInfo) -> str:
        objective: str = info.data.get("objective", LIKELIHOOD)
        return criterion or ("loss" if objective == LIKELIHOOD else objective)

    @field_validator("vectors", mode="before")
    @classmethod
    def _one_file_or_two(cls, files: Any, info: ValidationInfo) -> Any:
        names = files if isinstance(files, list | tuple) and len(files) == 2 else [files]
        if files is not None and not all(isinstance(name, str) and name for name in names):
            raise ValueError(
                f"expected a file name or two of them, [source, target], but found {files!r}"
            )
        if files is not None and info.data.get("init") is not None:
            raise ValueError("train.init brings embeddings of its own; keep one of them")
        return files

    @field_validator("compile", mode="before")
    @classmethod
    def _auto_or_not(cls, compiled: Any) -> Any:
        if compiled == "auto" or isinstance(compiled, bool):
            return compiled
        raise ValueError(f"expected auto, true or false: {compiled!r}")

    @field_validator("schedule")
    @classmethod
    def _known_and_ending(cls, schedule: str, info: ValidationInfo) -> str:
        schedule = "inverse_sqrt" if schedule == "noam" else schedule  # its name before 0.2
        if SCHEDULES[schedule].needs_end and info.data.get("max_steps", 1) is None:
            raise ValueError(f"{schedule!r} falls to zero at train.max_steps, which is not given")
        return schedule

    @field_validator("log")
    @classmethod
    def _known_tracker(cls, log: str) -> str:
        TRACKERS[log]  # or says which there are
        return log

    @field_validator("optimiser")
    @classmethod
    def _known_optimiser(cls, optimiser: str) -> str:
        OPTIMISERS[optimiser]  # or says which there are
        return optimiser

    @field_validator("optimiser_options")
    @classmethod
    def _known_options(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "optimiser" not in info.data:  # was refused
            return options
        kind = OPTIMISERS[info.data["optimiser"]]
        return parse(kind.options, options, "").model_dump()

    @field_validator("patience")
    @classmethod
    def _ends(cls, patience: int | None, info: ValidationInfo) -> int | None:
        limits = (patience, info.data.get("max_steps", 1), info.data.get("max_minutes", 1))
        if limits == (None, None, None):
            raise ValueError("training would never end: give max_steps, max_minutes or patience")
        return patience

    @property
    def rewards(self) -> tuple[str, ...]:
        """The metric that rewards samples, if one does."""
        return () if self.objective == LIKELIHOOD else (self.objective,)

    def highest_rate(self, d_model: int) -> float:
        """The highest learning rate: as given, or the paper's d_model^-0.5 · warmup^-0.5."""
        return self.lr or (d_model * self.warmup_steps) ** -0.5

    def rate_at(self, step: int, d_model: int) -> float:
        """The learning rate of an update, counted from 1."""
        warmup = self.warmup_steps
        if step <= warmup:
            return self.highest_rate(d_model) * (step / warmup)
        share = SCHEDULES[self.schedule].share
        return self.highest_rate(d_model) * share(step, warmup, self.max_steps)
