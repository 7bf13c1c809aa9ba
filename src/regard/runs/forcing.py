"""Targets that are told, in part, what to say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.data.batches import Example, collate
from regard.decoding.beam import beam_search
from regard.models.base import SequenceModel
from regard.runs.edits import AnyEdit, ForceToken
from regard.runs.translation import length_limits
from regard.text.specials import BEGIN, END, END_ID, PAD
from regard.text.tokenizer import Tokenizer


def forced(
    model: SequenceModel,
    read: Sequence[int],
    written: Sequence[int],
    edits: Sequence[AnyEdit],
    *,
    tokenizer: Tokenizer,
    max_len: int,
    device: torch.device,
) -> list[int]:
    """What is written once every forced token stands where it should, the first of them first."""
    target = list(written)
    tokens = [edit for edit in edits if isinstance(edit, ForceToken)]
    for edit in sorted(tokens, key=lambda one: one.position):
        if not 0 <= edit.position <= len(target):
            raise ConfigError(
                f"force_token.position: the target has tokens 0 to {len(target)}, the last of "
                f"which ends it, not {edit.position}"
            )
        (said,) = token_ids([edit.token], tokenizer, "force_token.token")
        prefix = [*target[: edit.position], said]
        source, limits = one_source(model, read, max_len, device, at_least=len(prefix))
        ((best,),) = beam_search(model, source, limits=limits, n_beams=1, prefix=prefix)
        target = list(best.ids)
    return target


def token_ids(tokens: Iterable[str], tokenizer: Tokenizer, field: str) -> list[int]:
    """The ids of tokens as they are shown; the end token may be among them."""
    shown = {token: i for i, token in enumerate(tokenizer.tokens(range(tokenizer.n_vocab)))}
    sayable = {token: i for token, i in shown.items() if token not in (PAD, BEGIN)}
    ids = []
    for token in tokens:
        if token not in sayable:
            hint = did_you_mean(str(token), sayable)
            raise ConfigError(
                f"{field}: the model cannot say {token!r}{hint}; take a token as it is shown, or "
                f"{END} to end"
            )
        ids.append(sayable[token])
    return ids


def prefix_ids(tokens: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The ids of tokens to begin with; nothing can follow the end token."""
    if isinstance(tokens, str):
        raise ConfigError(f"prefix: give a list of tokens such as [{tokens!r}], not one text")
    ids = token_ids(tokens, tokenizer, "prefix")
    if END_ID in ids:
        raise ConfigError(f"prefix: a target that has ended with {END} cannot be continued")
    return ids


def one_source(
    model: SequenceModel,
    read: Sequence[int],
    max_len: int,
    device: torch.device,
    *,
    at_least: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Source ids (1, S), and how long its target may become (1,): no less than is given of it."""
    batch = collate([Example(read, ())])
    limits = length_limits(model, batch, max_len).clamp(min=at_least)
    return batch.source.to(device), limits.to(device)
