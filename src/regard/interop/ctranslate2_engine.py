"""Translations written by CTranslate2, with the weights, the limits and the scores of the run.

**What is guaranteed**, in float32. A hypothesis has the log-probability that the model gives it, to
1e-4, and our score: log-probability / ((5 + n) / 6)^α, where CTranslate2 has n^α. Greedy search
gives the same targets. Beam search follows the same hypotheses and ends by another rule: ours goes
on until nothing open can win, CTranslate2 until K have ended (where α is 0, until the most probable
one has). The best of those by our score is taken: with α = 0 it is the same, else it is the same or
scores less. Where the limit cuts off all that CTranslate2 ends with, they stay cut off; ours would
rather take a worse one that had ended.

Two rules of ours CTranslate2 does not know: each target has a limit of its own, and padding and the
begin token are never said. It searches without them, and the rare sentences that broke one are
searched again: so the rules cost nothing where they are kept.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, Self, cast

import torch

from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import read_bytes, read_json
from regard.core.lock import one_at_a_time
from regard.core.registry import Registry
from regard.core.state import is_noted, note
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodeSettings
from regard.fast.quick import wants_plain
from regard.interop.ctranslate2 import library, n_positions, refusal
from regard.interop.ctranslate2_reading import MOST_MODEL
from regard.interop.exporting import FORMATS, export
from regard.models.base import SequenceModel
from regard.models.settings import TransformerConfig
from regard.tasks.translating import DECODE_TOKENS, Engine, decode, limits_for
from regard.tasks.translator import Run
from regard.text.specials import BEGIN, BEGIN_ID, END_ID, PAD, PAD_ID

Ids = Sequence[int]

FORMAT = "ctranslate2"
FOLDER = "engines"
"""In the run folder. Whoever finds it may delete it."""
NOTED = "engines"
"""What notes about exports that this user wrote are called."""
AT_ONCE = 16_384
"""Source tokens, times beams: CTranslate2 is mostly used on a CPU, which is no faster with more."""

ENGINES: Registry[Callable[[Run, str | None], Engine]] = Registry("engine")
"""By name: a run and CTranslate2's compute type -> an engine."""


@dataclass(frozen=True, slots=True)
class TokenTranslator:
    """A ``ctranslate2.Translator`` that takes ids and gives hypotheses."""

    inner: Any
    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    target_ids: Mapping[str, int]

    @classmethod
    def load(cls, folder: Path, device: torch.device, compute_type: str) -> Self:
        """Of a folder that was exported; it may be deleted afterwards."""
        try:
            inner = library().Translator(
                str(folder),
                device=device.type,
                device_index=device.index or 0,
                compute_type=compute_type,
                inter_threads=1,
                intra_threads=torch.get_num_threads(),
            )
        except (ValueError, RuntimeError) as error:
            reason = str(error).split("\n")[0]
            raise ConfigError(
                f"CTranslate2 cannot compute in {compute_type} on {device}: {reason}"
            ) from None
        source, target = (_vocabulary(folder, side) for side in ("source", "target"))
        return cls(inner, source, target, {token: i for i, token in enumerate(target)})

    def search(
        self,
        sources: Sequence[Ids],
        settings: DecodeSettings,
        *,
        limit: int,
        n_best: int,
        patience: int = 1,
        suppressed: bool = False,
        batch_tokens: int,
    ) -> list[list[Hypothesis]]:
        """For each source up to ``n_best`` hypotheses, in no order.

        A beam search of K beams ends when K · ``patience`` hypotheses have. If padding and the
        begin token are ``suppressed``, their probability is given to the other tokens.
        """
        beam = settings.beam
        alpha = settings.length_penalty if beam > 1 else 0.0
        results = self.inner.translate_batch(
            [self._spelled(source) for source in sources],
            beam_size=beam,
            patience=patience,
            num_hypotheses=n_best,
            length_penalty=alpha,
            suppress_sequences=[[PAD], [BEGIN]] if suppressed else None,
            max_batch_size=max(1, min(batch_tokens, AT_ONCE) // beam),
            batch_type="tokens",
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,
            return_scores=True,
            return_end_token=True,
        )
        return [self._read(result, alpha, settings.length_penalty) for result in results]

    def rescored(
        self, source: Ids, hypotheses: Sequence[Hypothesis], length_penalty: float
    ) -> list[Hypothesis]:
        """The same targets with the log-probability that the whole model gives them."""
        targets = [[*one.ids, END_ID] if one.finished else [*one.ids] for one in hypotheses]
        results = self.inner.score_batch(
            [self._spelled(source)] * len(hypotheses),
            [[self.target_tokens[i] for i in one.ids] for one in hypotheses],
            max_input_length=0,
        )
        return [
            Hypothesis.read(ids, sum(result.log_probs[: len(ids)]), length_penalty)
            for ids, result in zip(targets, results, strict=True)
        ]

    def _spelled(self, source: Ids) -> list[str]:
        return [self.source_tokens[i] for i in source]

    def _read(self, result: Any, alpha: float, length_penalty: float) -> list[Hypothesis]:
        """CTranslate2 divides a log-probability by n^α, where n counts the end token too."""
        read = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            ids = [self.target_ids[token] for token in tokens]
            read.append(Hypothesis.read(ids, score * len(ids) ** alpha, length_penalty))
        return read


def _vocabulary(folder: Path, side: str) -> list[str]:
    """The tokens of a side by id, as CTranslate2 wrote them."""
    own = folder / f"{side}_vocabulary.json"
    path = own if own.exists() else folder / "shared_vocabulary.json"
    tokens: list[str] = read_json(path, list)
    return tokens


@contextmanager
def exported(run: Run) -> Iterator[Path]:
    """A folder with the run as CTranslate2 reads it, there while the block lasts.

    It is written once for the same weights. One that this user has not written, or that was changed
    since, is written again: nobody else's is trusted. Where the run folder cannot be written, it is
    made anew each time, elsewhere.
    """
    kept = run.folder.path / FOLDER / f"{FORMAT}-{digest(run.model)}"
    if _is_ours(kept) or _made(run, kept):
        yield kept
        return
    with tempfile.TemporaryDirectory() as temporary:
        export(run, FORMAT, Path(temporary))
        yield Path(temporary)


def _made(run: Run, folder: Path) -> bool:
    """Whether the export is there now: written by us, or meanwhile by another process."""
    if not run.folder.path.is_dir() or folder.parent.is_symlink() or folder.is_symlink():
        return False
    try:
        folder.parent.mkdir(exist_ok=True)
        with one_at_a_time(folder.parent):
            return _is_ours(folder) or _written(run, folder)
    except (OSError, CheckpointError):  # nothing can be written there
        return False


def _written(run: Run, folder: Path) -> bool:
    """Write the export; what other weights left behind is deleted."""
    shutil.rmtree(folder, ignore_errors=True)
    export(run, FORMAT, folder)
    note(NOTED, *_contents(folder))
    for other in folder.parent.glob(f"{FORMAT}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return True


def _is_ours(folder: Path) -> bool:
    """Whether this user wrote the export, and no byte of it was changed since."""
    if not folder.is_dir() or folder.parent.is_symlink() or folder.is_symlink():
        return False
    try:
        return is_noted(NOTED, *_contents(folder))
    except CheckpointError:
        return False


def _contents(folder: Path) -> tuple[str, str]:
    """The name of a folder, which tells of its weights, and a digest of all its files."""
    hashed = sha256()
    for path in sorted(folder.iterdir()):
        hashed.update(f"{path.name} {path.stat().st_size} ".encode())
        hashed.update(read_bytes(path, MOST_MODEL))
    return folder.name, hashed.hexdigest()


def digest(model: SequenceModel) -> str:
    """A fingerprint of all that an export depends on."""
    hashed = blake2b(digest_size=8)
    hashed.update(f"{library().__version__} {model.config.model_dump_json()}".encode())
    for name, tensor in model.named_parameters():
        hashed.update(name.encode())
        hashed.update(tensor.detach().float().cpu().contiguous().numpy().data)
    return hashed.hexdigest()


@dataclass(frozen=True, slots=True)
class CTranslate2Engine:
    """CTranslate2 behind the interface of ``regard.tasks.translating.decode``."""

    translator: TokenTranslator
    model: SequenceModel
    """Writes what is too long for CTranslate2's table of positions."""
    device: torch.device

    @classmethod
    def of(cls, run: Run, compute_type: str = "float32") -> Self:
        """The engine of a run, which is exported first where that was not done before."""
        with exported(run) as folder:
            translator = TokenTranslator.load(folder, run.device, compute_type)
        return cls(translator, run.model, run.device)

    def __call__(
        self,
        sources: Sequence[Ids],
        settings: DecodeSettings,
        *,
        n_best: int = 1,
        batch_tokens: int = DECODE_TOKENS,
        prefixes: Sequence[Ids] = (),
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, in the order of the sources."""
        if settings.samples or settings.coverage_penalty or prefixes:
            raise ConfigError(
                "the engine ctranslate2 searches as our own: sampling, the coverage penalty and "
                "prefixes are for the native one"
            )
        if n_best > settings.beam:
            raise ConfigError(
                f"n_best={n_best} is more than the beam={settings.beam} that is searched; "
                f"search {n_best} beams or ask for {settings.beam} hypotheses"
            )
        lengths = torch.tensor([len(source) + 1 for source in sources], dtype=torch.int64)
        limits = limits_for(self.model, lengths, settings.max_len)
        fits = torch.maximum(lengths, limits) <= n_positions(self.model.config)
        limit_of = limits.tolist()
        long, short = (at.nonzero().flatten().tolist() for at in (~fits, fits))
        native = decode(
            self.model,
            [sources[i] for i in long],
            settings,
            device=self.device,
            n_best=n_best,
            batch_tokens=batch_tokens,
        )
        found = dict(zip(long, native, strict=True))

        def search(numbers: list[int], **how: Any) -> None:
            texts = [sources[i] for i in numbers]
            results = self.translator.search(texts, settings, batch_tokens=batch_tokens, **how)
            found.update(zip(numbers, results, strict=True))

        if short:  # all together; without a penalty CTranslate2's best are ours
            n_found = settings.beam if settings.length_penalty else n_best
            search(short, limit=max(limit_of[i] for i in short), n_best=n_found)
        # Again, what broke a rule. So patient a search finds all that ours would: before the limit
        # fewer than K have ended, and K end there.
        times = 2 if settings.beam > 1 else 1
        patient = {"n_best": times * settings.beam, "patience": times}

        def search_again(numbers: list[int], **how: Any) -> None:
            for limit in sorted({limit_of[i] for i in numbers}):
                search([i for i in numbers if limit_of[i] == limit], limit=limit, **patient, **how)

        search_again([i for i in short if _is_late(found[i], limit_of[i])])
        strayed = [i for i in short if any({PAD_ID, BEGIN_ID} & {*x.ids} for x in found[i])]
        search_again(strayed, suppressed=True)
        for i in strayed:
            found[i] = self.translator.rescored(sources[i], found[i], settings.length_penalty)
        return [_ranked(found[number])[:n_best] for number in range(len(sources))]


def _is_late(hypotheses: Sequence[Hypothesis], limit: int) -> bool:
    """Whether the limit was passed, or has cut off some: then better ones may have been left out.

    Where it cut off all, those are taken: to search again would be dear, and hardly find another.
    """
    longest = max(len(one.ids) + one.finished for one in hypotheses)
    return longest > limit or len({one.finished for one in hypotheses}) == 2


def _ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Best first; what the limit cut off comes last."""
    return sorted(hypotheses, key=lambda one: (one.finished, one.score), reverse=True)


def engine_for(run: Run, name: str, *, compute_type: str | None = None) -> Engine:
    """An engine for ``run.translate(texts, engine=…)``.

    ``native`` is the model itself; ``ctranslate2`` runs the same weights in CTranslate2; ``auto``
    takes CTranslate2 on a CPU where it is installed and can run the model, else the model. The
    ``compute_type`` is CTranslate2's; by default float32, which gives the same translations.
    """
    return ENGINES[name](run, compute_type)


@ENGINES.add("native")
def _native(run: Run, compute_type: str | None) -> Engine:
    if compute_type is not None:
        raise ConfigError(
            f"compute type {compute_type!r} is for the engine ctranslate2; the native one computes "
            "in the numbers of its weights"
        )
    return partial(decode, run.model, device=run.device)


@ENGINES.add("ctranslate2")
def _ctranslate2(run: Run, compute_type: str | None) -> Engine:
    if len(run.members) > 1:
        raise ConfigError(
            "the engine ctranslate2 runs one model, not an ensemble; take the native one"
        )
    if _plain(run):
        raise ConfigError(
            "the engine ctranslate2 does not run the plain layers, as decode.fast=false or "
            "REGARD_PLAIN=1 asks for; take the native one"
        )
    return CTranslate2Engine.of(run, compute_type or "float32")


@ENGINES.add("auto")
def _auto(run: Run, compute_type: str | None) -> Engine:
    engine, config = _native, run.model.config
    knows = config.family in FORMATS[FORMAT] and refusal(cast("TransformerConfig", config)) is None
    if run.device.type == "cpu" and knows and not _plain(run):
        with suppress(ConfigError):  # it is not installed
            library()
            engine = _ctranslate2
    return engine(run, compute_type)


def _plain(run: Run) -> bool:
    return wants_plain() or not run.recipe.decode.fast
