"""Engines by their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.fast.quick import wants_plain
from regard.interop.ctranslate2_engine import CTranslate2Engine
from regard.interop.ctranslate2_model import library, refusal
from regard.runs.kinds.translator import Run
from regard.runs.translation import Engine, decode

ENGINES: Registry[Callable[[Run, str | None], Engine]] = Registry("engine")
"""What makes an engine of a run and of the numbers it is to compute with."""


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
    if _plain(run):
        raise ConfigError(
            "the engine ctranslate2 does not run the plain layers, as decode.fast=false or "
            "REGARD_PLAIN=1 asks for; take the native one"
        )
    return CTranslate2Engine.of(run, compute_type or "float32")


@ENGINES.add("auto")
def _auto(run: Run, compute_type: str | None) -> Engine:
    fits = run.device.type == "cpu" and refusal(run.model.config) is None and _installed()
    return (_ctranslate2 if fits and not _plain(run) else _native)(run, compute_type)


def _plain(run: Run) -> bool:
    return wants_plain() or not run.recipe.decode.fast


def _installed() -> bool:
    try:
        library()
    except ConfigError:
        return False
    return True
