"""A language model before its first step: from a recipe to all that training needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from regard.checkpoints.run_folder import RunFolder, fill, read_weights
from regard.core.errors import ConfigError
from regard.data.examples import Ids
from regard.data.plain_texts import Texts, text_splits
from regard.data.windows import Tape, WindowBatch, WindowStream
from regard.functional.linear_cross_entropy import linear_cross_entropy
from regard.models.decoder import DecoderConfig, LanguageModel
from regard.models.presets import build, resolve_for
from regard.recipes.recipe import Recipe
from regard.runs.framing import Framing, framing_for, load_tokenizer
from regard.runs.language_report import write_language_report
from regard.runs.language_scores import judged, summed_up
from regard.runs.memory import check_memory
from regard.runs.prepared import Judged, Prepared
from regard.runs.tasks.translation import SHORT
from regard.runs.tokenizers import SHARED
from regard.runs.writer import load_writer
from regard.text.tokenizer import Tokenizer
from regard.training.flops import TextFlops, text_flops
from regard.training.settings import TrainSettings

NO_PAD = -1
"""Windows are full: no target is padding."""


class NextTokenLoss:
    """The loss of a batch of windows, summed over its tokens. It remembers nothing."""

    def __init__(self, settings: TrainSettings, *, compiled: bool = False) -> None:
        self.smoothing = settings.label_smoothing
        self._states = torch.compile(_states) if compiled else _states

    def __call__(self, model: LanguageModel, batch: WindowBatch) -> Tensor:
        """Without the logits of all tokens at once."""
        return linear_cross_entropy(
            self._states(model, batch.inputs).flatten(0, 1),
            *model.output(),
            batch.targets.flatten(),
            pad=NO_PAD,
            label_smoothing=self.smoothing,
        )

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing to remember."""


def _states(model: LanguageModel, ids: Tensor) -> Tensor:
    return model.states(ids)


class LanguageValidation:
    """An evaluator for the training loop, on windows that do not overlap."""

    def __init__(self, ids: Ids, device: torch.device) -> None:
        self.ids, self.device = ids, device

    def __call__(self, model: LanguageModel) -> Mapping[str, float]:
        """``loss`` in nats a token, without smoothing, and ``perplexity``."""
        scores = summed_up(judged(model, self.ids, device=self.device))
        return {name: scores[name] for name in ("loss", "perplexity", "accuracy")}

    def rehearse(self, model: LanguageModel) -> None:
        """As much as a validation."""
        self(model)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLanguage(Prepared):
    """Texts end to end, their tokenizer and a fresh language model."""

    config: DecoderConfig
    model: LanguageModel
    splits: Mapping[str, Texts]
    framing: Framing
    tape: Tape
    formula: TextFlops

    @property
    def size(self) -> dict[str, int]:
        """As ``Prepared.size``."""
        return {
            "training texts": len(self.splits["train"]),
            "training tokens": len(self.tape.ids),
            "vocabulary": self.config.n_vocab,
        }

    def stream(self) -> WindowStream:
        """As ``Prepared.stream``."""
        return WindowStream(self.tape, batch_tokens=self.recipe.train.batch_tokens)

    @property
    def compiled(self) -> bool:
        """As ``Prepared.compiled``; by default on a GPU, unless the run is short."""
        settings = self.recipe.train
        if settings.compile != "auto":
            return settings.compile
        return self.device.type == "cuda" and (settings.max_steps or SHORT) >= SHORT

    @property
    def captured(self) -> bool:
        """As ``Prepared.captured``: all windows have one shape."""
        on_gpu = self.device.type == "cuda"
        return on_gpu and self.compiled and self.recipe.train.accumulate == 1

    def objective(self) -> NextTokenLoss:
        """As ``Prepared.objective``."""
        return NextTokenLoss(self.recipe.train, compiled=self.compiled)

    def validation(self) -> LanguageValidation:
        """As ``Prepared.validation``."""
        return LanguageValidation(self.framing.laid(self.splits["valid"]), self.device)

    def flops(self, batch: WindowBatch) -> float:
        """As ``Prepared.flops``."""
        n_rows, n_ids = batch.ids.shape
        return self.formula.training(n_rows, n_ids - 1)

    def example(self, number: int) -> str:
        """As ``Prepared.example``: the window that begins there."""
        return self.framing.say(self.tape.ids[number : number + self.tape.max_len].tolist())

    @property
    def test_sets(self) -> list[str]:
        """The splits that neither train nor choose anything; ``valid`` where there are none."""
        return [name for name in self.splits if name not in ("train", "valid")] or ["valid"]

    def judged(self, out: Path, test_sets: Sequence[str] | None) -> Judged:
        """As ``Prepared.judged``."""
        run = load_writer(out, device=str(self.device))
        names = self.test_sets if test_sets is None else test_sets
        return Judged(
            run, {name: run.evaluate_texts(self.splits[name], split=name) for name in names}
        )

    def report(self, judged: Judged, facts: Mapping[str, Any]) -> None:
        """As ``Prepared.report``."""
        write_language_report(judged.run, facts)

    def save(self, folder: Path) -> None:
        """As ``Prepared.save``."""
        self.framing.tokenizer.save(folder / SHARED)


def prepare_language(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedLanguage:
    """Read the texts, train a tokenizer unless the run was begun, build the model.

    Draws from torch's default generator, which is left where the first training step begins.
    """
    del cache  # ids are made as fast as they would be read
    _check(recipe)
    splits = text_splits(recipe.data)
    init = None if recipe.train.init is None else RunFolder(Path(recipe.train.init))
    known = begun or (None if init is None else init.path)  # the weights there know no other ids
    tokenizer = (
        Tokenizer.train(splits["train"], recipe.text) if known is None else load_tokenizer(known)
    )
    weights = None if init is None else read_weights(init)
    torch.manual_seed(recipe.train.seed)
    config = cast(
        "DecoderConfig",
        resolve_for("language", recipe.model, n_vocab=_n_vocab(tokenizer, weights)),
    )
    check_memory(config, device)
    model = cast("LanguageModel", build(config))
    if weights is not None and init is not None:
        fill(model, weights, str(init.weights))
    framing = framing_for(tokenizer, recipe.data)
    return PreparedLanguage(
        recipe=recipe,
        splits=splits,
        framing=framing,
        tape=Tape(framing.laid(splits["train"]), config.max_len, recipe.train.seed),
        config=config,
        formula=text_flops(model, config.longest),
        model=model.to(device),
        notes=_notes(framing, splits),
        device=device,
    )


def _n_vocab(tokenizer: Tokenizer, weights: Mapping[str, Tensor] | None) -> int:
    """Tokens that the model knows; imported weights may have rows that no token needs."""
    rows = None if weights is None else weights.get("embedding.tokens.weight")
    return tokenizer.n_vocab if rows is None else max(tokenizer.n_vocab, len(rows))


def _check(recipe: Recipe) -> None:
    """Refuse settings that only translators know."""
    problems = []
    if recipe.text.bpe_dropout:
        problems.append("text.bpe_dropout is for translation; set it to 0")
    if recipe.train.teacher_forcing != 1:
        problems.append("train.teacher_forcing is for translation; set it to 1")
    if recipe.train.criterion != "loss":
        problems.append(
            f"train.criterion={recipe.train.criterion} is for other tasks; set it to loss"
        )
    if problems:
        raise ConfigError("; ".join(problems))


def _notes(framing: Framing, splits: Mapping[str, Texts]) -> tuple[str, ...]:
    """Unknown words make a model look better than it is."""
    unknown = framing.tokenizer.marks.unknown
    if framing.tokenizer.kind == "bpe" or unknown is None:
        return ()
    ids = framing.laid(splits["valid"])
    n = int((ids == unknown).sum())
    share = 100 * n / len(ids)
    return (f"valid: {n:,} tokens ({share:.1f} %) are read as <unk>",) if n else ()
