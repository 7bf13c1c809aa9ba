"""What opening any run needs: a device with room, tokenizers that fit, texts that are texts."""

from __future__ import annotations

import logging
import os
import platform
import re
import resource
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from regard.checkpoints.environment import plugin_changes
from regard.checkpoints.run_folder import (
    RunFolder,
    fill,
    load_config,
    load_model,
    read_weights,
)
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.numbers import counted, mentioned
from regard.core.plugins import load_plugins
from regard.data.records import Pair
from regard.data.settings import DataSettings
from regard.models.bounds import MOST_TABLES, skeleton, table_bytes
from regard.models.presets import n_parameters
from regard.models.settings import ModelConfig
from regard.tasks.base import TASKS, Task
from regard.tasks.deeds import Deeds
from regard.tasks.importance import ForcedAnswer, Importance, unweighed
from regard.tasks.recipe import Recipe, recipe_in, remember_data
from regard.tasks.verb import Verb
from regard.tasks.verbs import unknown_note
from regard.text import pretrained
from regard.text.pretrained import MARKS
from regard.text.settings import TextSettings
from regard.text.specials import MASK
from regard.text.tokenizer import Tokenizer, unknown_spans


def pick_device(name: str | None = None) -> torch.device:
    """The named device, or a GPU where there is one, or the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.split(":")[0] not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"device {name!r} is none of cpu, cuda, cuda:1, …, mps")
    if name == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device 'mps' cannot be used here: there is no such GPU")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0].split(". ")[0]
        raise ConfigError(f"device {name!r} cannot be used here: {reason}") from None
    return device


def device_at(name: str | None, slot: int) -> str | None:
    """The device of one of several processes: as far as there are GPUs, each has its own."""
    n = torch.cuda.device_count()
    return f"cuda:{slot % n}" if n > 1 and name in (None, "cuda") else name


_REMEDY = "choose a smaller model.size, d_model or n_layers"
_TRAINING_BYTES = 16
"""A parameter, its gradient and Adam's two averages, in float32."""


def check_memory(config: ModelConfig, device: torch.device) -> None:
    """Refuse a model that cannot be trained here, before a byte of it is allocated."""
    try:
        model = skeleton(config)
    except ConfigError as error:
        raise ConfigError(f"the model cannot be built: {error}; {_REMEDY}") from None
    count = n_parameters(model)
    if device.type == "cuda":
        there = torch.cuda.mem_get_info(device)[1]
    else:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    wanted = _TRAINING_BYTES * count
    if wanted > there:
        takes, has = (f"{size / 2**30:,.1f} GiB" for size in (wanted, there))
        raise ConfigError(
            f"the model has {count:,} parameters; to train them takes {takes}, but {device} has "
            f"{has}; {_REMEDY}"
        )
    if (tables := table_bytes(model)) > MOST_TABLES:
        raise ConfigError(
            f"the model's tables of positions take {tables / 2**20:,.0f} MiB, and may take "
            f"{MOST_TABLES >> 20}; lower model.max_len, or set model.positions to rotary"
        )


@contextmanager
def memory_told(device: torch.device) -> Iterator[None]:
    """Inside the block, running out of memory is an error with a remedy."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        raise ConfigError(
            f"{device} has too little memory for this model with such batches; lower "
            f"train.batch_tokens (and raise train.accumulate), or {_REMEDY}"
        ) from error


def device_name(device: torch.device) -> str:
    """What a reader would call it: the processor's name where Linux tells it, else its kind."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {torch.get_num_threads()} threads"


def peak_memory(device: torch.device) -> int:
    """The most memory held so far, in bytes: the device's on a GPU, else the process's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # kilobytes everywhere else
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


SHARED, SOURCE, TARGET = pretrained.SHARED, pretrained.SOURCE, pretrained.TARGET
TOKENIZER_FILES = (SHARED, SOURCE, TARGET, MARKS)
"""What the tokenizers of a run may be kept in."""


@dataclass(frozen=True, slots=True)
class Tokenizers:
    """How a run reads and writes."""

    source: Tokenizer
    target: Tokenizer

    @property
    def shared(self) -> bool:
        """Whether both sides use the same."""
        return self.source is self.target

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, or source.json and target.json."""
        if self.shared:
            self.source.save(folder / SHARED)
        else:
            self.source.save(folder / SOURCE)
            self.target.save(folder / TARGET)


def load_tokenizers(folder: Path, data: DataSettings | None = None) -> Tokenizers:
    """What ``save`` wrote; as a run with such ``data`` reads what people type."""
    source, target = pretrained.tokenizers_in(folder)
    if data is None or not data.plain:
        return Tokenizers(source, target)
    reading = source.reading_plain()
    return Tokenizers(reading, reading if target is source else target.reading_plain())


def load_tokenizer(folder: Path, data: DataSettings | None = None) -> Tokenizer:
    """The one tokenizer of a run that reads one text."""
    return load_tokenizers(folder, data).target


def train_tokenizers(pairs: Sequence[Pair], settings: TextSettings) -> Tokenizers:
    """Tokenizers for pairs like these."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if settings.shared:
        shared = Tokenizer.train([*sources, *targets], settings)
        return Tokenizers(shared, shared)
    return Tokenizers(Tokenizer.train(sources, settings), Tokenizer.train(targets, settings))


class TrainedRun(Deeds):
    """What the runs of all tasks have in common."""

    __slots__ = ()
    weighs: ClassVar[bool] = False
    """Whether heads can be weighed: by how probable a token or a label is without them."""
    folder: RunFolder
    recipe: Recipe
    model: Any
    device: torch.device

    @property
    def task(self) -> str:
        """What the model does."""
        return self.recipe.task

    @property
    def reader(self) -> Tokenizer | None:
        """What reads its texts, where it reads any."""
        return None

    @property
    def kind(self) -> str:
        """What it does, in few words: such as its task, or its languages."""
        return self.task

    def written_at(self) -> float:
        """When its weights were written, in seconds since 1970."""
        return self.folder.weights.stat().st_mtime

    def __repr__(self) -> str:
        named, system = f"{type(self).__name__} {self.folder.path}", self.recipe.model.preset
        size = counted(n_parameters(self.model), "parameter")
        return f"<{named}: {system}, {self.kind}, {size}, {self.device}>"

    def _repr_html_(self) -> str:
        from regard.tasks.report import run_html

        return run_html(self)

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text in which something is that the model has never seen."""
        return [text[begin:end] for begin, end in self.unknown_spans(text)]

    def unknown_spans(self, text: str) -> list[tuple[int, int]]:
        """Where they begin and end, in characters."""
        return [] if self.reader is None else unknown_spans(self.reader, text)

    def unknown_warnings(self, *texts: str) -> list[str]:
        """A line about such words of the texts, as they are read, if there are any."""
        read = map(self.read_as, texts)
        return unknown_note((word for text in read for word in self.unknown_words(text)), self)

    def warn_of_unknown(self, *texts: str) -> None:
        """Tell it to the logger ``regard``; Python prints it where nobody listens."""
        logger = logging.getLogger("regard")
        for line in self.unknown_warnings(*texts) if logger.isEnabledFor(logging.WARNING) else ():
            logger.warning("%s", line)

    def read_as(self, text: str) -> str:
        """What is read of a text that was typed: in runs of a plain world neither capitals nor
        signs, else the text itself. Masks, and the tab between two texts, stay."""
        if self.reader is None:
            return text
        parts = re.split(f"({MASK}|\t)", text)
        return "".join(one if i % 2 else self.reader.read_as(one) for i, one in enumerate(parts))

    def nothing_known(self, text: str) -> str | None:
        """Why nothing can be made of a text: it has words, and the model knows none; else None."""
        if self.reader is None or not text.strip():
            return None
        if not {*self.reader.encode(text)} <= {self.reader.specials.unread}:
            return None
        examples = TASKS[self.task].examples(self)
        known = [one if isinstance(one, str) else one["text"] for one in examples]
        remedy = "take texts like those that it was trained on"
        if known:
            remedy += f", such as: {'; '.join(known[:3])}"
        return f"the model knows no word of {mentioned(text)}; {remedy}"

    def importance(self, source: Any, step: int = 0, **more: Any) -> Importance:
        """How probable a written token is without each head of the model, all else fixed.

        ``step`` is the number of the token among ``target_tokens`` of a look; a label is number 0.
        ``more`` is what ``explain`` takes: a ``target``, an ``edit``. All heads are ablated
        together, in a few passes.
        """
        return self.fixed_answer(source, **more).importances().of(step)

    def fixed_answer(self, *asked: Any, **more: Any) -> ForcedAnswer:
        """A text with its answer, the given one or its own, so that heads can be weighed."""
        raise unweighed(self.task)

    def facts(self) -> dict[str, Any]:
        """What was trained, as plain data."""
        marks = {} if self.reader is None else {"special_ids": self.reader.special_ids}
        return {
            "model": self.model.config.model_dump(mode="json"),
            "preset": self.recipe.model.preset,
            "parameters": n_parameters(self.model),
            "task": self.task,
            **marks,
        }


def open_run(
    path: str | Path, task: str, called: str, device: str | None
) -> tuple[RunFolder, Recipe, Any, torch.device]:
    """Folder, recipe, model and device of a run; that of another task is refused."""
    folder = RunFolder(Path(path))
    recipe, place = recipe_in(folder), pick_device(device)
    if recipe.task != task:
        known = recipe.task in TASKS
        remedy = f"; use `regard {TASKS[recipe.task].verb.name}` with it" if known else ""
        raise ConfigError(
            f"{folder.path} holds a run of the task {recipe.task}, and this needs {called}{remedy}"
        )
    return folder, recipe, load_model(folder).to(place).eval(), place


def load(
    path: str | Path | Sequence[str | Path],
    *,
    device: str | None = None,
    verb: Verb | None = None,
    trust_data: bool = False,
    plugins: Iterable[str | Path] | str | Path = (),
) -> Any:
    """Open a run folder: a ``Run`` that translates, or what its task makes of it.

    Several folders are an ensemble, which takes the mean of their probabilities at each step.
    Nothing in them is executed. A run of which the ``verb`` cannot be asked is refused. Data
    outside the folder that a run names is read where it was trained by this user on this machine,
    or once its data was trusted. ``plugins`` are files or modules that it needs; one that is not
    as it was when the run was trained is told on stderr.
    """
    load_plugins(plugins)
    if not isinstance(path, str | Path):
        return _load_ensemble(_run_paths(path), device=device, verb=verb, trust_data=trust_data)
    if trust_data:
        remember_data(Path(path), recipe_in(RunFolder(Path(path))).data)
    run = task_of(path, verb).load(path, device=device)
    for change in plugin_changes(RunFolder(Path(path))):
        print(f"regard: {change}", file=sys.stderr, flush=True)
    return run


def initial_run(recipe: Recipe, begun: Path | None = None) -> RunFolder | None:
    """The run that a training starts from (``train.init``), which must be there.

    A training that was ``begun`` has weights of its own, whatever became of that run.
    """
    if recipe.train.init is None or begun is not None:
        return None
    init = RunFolder(Path(recipe.train.init))
    try:
        load_config(init)
    except CheckpointError as error:
        raise CheckpointError(f"train.init: {error}") from None
    return init


def begin_as(model: nn.Module, config: ModelConfig, init: RunFolder) -> None:
    """Give a model the weights of a run, which must be of the same family and sizes."""
    family = load_config(init).family
    if family != config.family:
        raise ConfigError(
            f"train.init: {init.path} holds a model of the family {family!r}, and the recipe asks "
            f"for one of {config.family!r}; give the section model the settings of that run"
        )
    try:
        weights = read_weights(init)
    except CheckpointError as error:
        raise CheckpointError(f"train.init: {error}") from None
    try:
        fill(model, weights, str(init.weights))
    except CheckpointError as error:
        raise CheckpointError(
            f"train.init: {error}; give the section model the settings of that run"
        ) from None


class OtherTaskError(ConfigError):
    """A run of one task is asked for what those of another do."""


def task_of(path: str | Path, verb: Verb | None = None) -> Task:
    """The task of a run; one of which the ``verb`` cannot be asked is refused."""
    task = TASKS[recipe_in(RunFolder(Path(path))).task]
    if verb is not None and verb.name not in {one.name for one in task.verbs}:
        raise OtherTaskError(
            f"{path} holds a run of the task {task.name}, and this needs {verb.wants}; use "
            f"`regard {task.verb.name}` with it"
        )
    return task


def _run_paths(paths: Any) -> list[str | Path]:
    """Several runs; what names none is refused."""
    found = listed(paths)
    for one in found:
        if not isinstance(one, str | Path):
            raise ConfigError(
                "a run folder is a text or a Path, and several are a list of them, found "
                f"{type(one).__name__}: {one!r:.60}"
            )
    return found


def _load_ensemble(paths: Sequence[str | Path], **how: Any) -> Any:
    runs = [load(path, **how) for path in paths]
    if not runs:
        raise ConfigError("there is no run to load: name a run folder, or several")
    if len(runs) == 1:
        return runs[0]
    task = runs[0].task
    for run in runs:
        if run.task != task:
            raise ConfigError(
                f"{runs[0].folder.path} holds a run of the task {task} and {run.folder.path} one "
                f"of the task {run.task}: an ensemble has one task"
            )
    return TASKS[task].ensemble(runs)


def check_vocabulary(
    folder: RunFolder, tokenizer: Tokenizer, n_vocab: int, *, of: str = "", spare: bool = False
) -> None:
    """A tokenizer of another run would read and write nonsense, or ids the model has not.

    A model may have ``spare`` rows, which no token needs; ``of`` says which tokenizer it is.
    """
    found = tokenizer.n_vocab
    if found > n_vocab or (found < n_vocab and not spare):
        raise CheckpointError(
            f"{folder.path} has a {of}tokenizer of {found:,} tokens, but its model knows "
            f"{n_vocab:,}: they belong to different runs"
        )


def one_or_many(texts: Any) -> list[str]:
    """One text or several, as a list."""
    if isinstance(texts, str):
        return [texts]
    return [one_text(one, "a text or a list of texts") for one in listed(texts)]


def listed(given: Any) -> list[Any]:
    """What was given as a list, whatever it is; what is none is a list of itself."""
    return list(given) if isinstance(given, Iterable) else [given]


def several(texts: Any) -> list[str]:
    """A list of texts; a text alone would be taken for a list of letters."""
    if isinstance(texts, str):
        raise DataError(
            f"expected a list of texts, found one text: {texts!r:.60}; put it in a list"
        )
    return one_or_many(texts)


def one_text(text: Any, expected: str = "a text") -> str:
    """The text itself; what is none is refused."""
    if not isinstance(text, str):
        found = "nothing" if text is None else f"{type(text).__name__}: {text!r:.60}"
        raise DataError(f"expected {expected}, found {found}")
    return text
