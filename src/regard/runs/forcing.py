"""Targets that are told, in part, what to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.data.examples import Example
from regard.data.pair_batches import collate_pairs
from regard.decoding.beam import beam_search
from regard.decoding.settings import DecodeSettings
from regard.decoding.trace import trace
from regard.inspection.records import Record, records
from regard.models.base import SequenceModel
from regard.runs.edits import AnyEdit, ForceToken
from regard.runs.translation import length_limits
from regard.runs.tree import Tree
from regard.text.specials import BEGIN, BEGIN_ID, END, END_ID, PAD
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Sentence:
    """One source, as ids without the end token, and the model that is to translate it."""

    model: SequenceModel
    read: Sequence[int]
    words: Tokenizer
    """Those of the target."""
    settings: DecodeSettings
    device: torch.device

    def forced(self, written: Sequence[int], edits: Sequence[AnyEdit]) -> list[int]:
        """What is written once every forced token stands where it should, the first one first."""
        target = list(written)
        for edit in sorted(_forced(edits), key=lambda one: one.position):
            if not 0 <= edit.position <= len(target):
                raise ConfigError(
                    f"force_token.position: the target has tokens 0 to {len(target)}, the last of "
                    f"which ends it, not {edit.position}"
                )
            (said,) = token_ids([edit.token], self.words, "force_token.token")
            target = self.continued([*target[: edit.position], said])
        return target

    def continued(self, prefix: Sequence[int]) -> list[int]:
        """A target that begins with these ids, written on greedily; the end token is left out."""
        source, limits = self._limited(at_least=len(prefix))
        ((best,),) = beam_search(self.model, source, limits=limits, n_beams=1, prefix=prefix)
        return list(best.ids)

    def begun(
        self,
        prefix: Sequence[int],
        edits: Sequence[AnyEdit],
        own: Callable[[], Sequence[int]],
    ) -> list[int]:
        """What a search is given to begin with: the prefix, and all up to the last forced token.

        ``own`` is what the model writes by itself, where there is no prefix. Where the end is
        forced, the end token is the last that is given.
        """
        tokens = _forced(edits)
        for edit in tokens:
            (said,) = token_ids([edit.token], self.words, "force_token.token")
            if 0 <= edit.position < len(prefix) and prefix[edit.position] != said:
                (other,) = self.words.tokens([prefix[edit.position]])
                raise ConfigError(
                    f"force_token: the token at position {edit.position} is to be {edit.token!r}, "
                    f"but the prefix has {other!r} there; change one of them"
                )
        if all(0 <= edit.position < len(prefix) for edit in tokens):
            return list(prefix)
        written = self.forced(self.continued(prefix) if prefix else own(), edits)
        last = max(edit.position for edit in tokens)
        return [*written, END_ID][: max(len(prefix), last + 1)]

    def tree(self, n_beams: int, given: Sequence[int]) -> Tree:
        """The search for a target that begins with the given ids."""
        ids, limits = self._limited(at_least=len(given) + 1)
        nodes = trace(
            self.model,
            ids,
            limits=limits,
            n_beams=n_beams,
            length_penalty=self.settings.length_penalty,
            prefix=given,
        )
        return Tree(n_beams, nodes, tuple(self.words.tokens(node.token_id for node in nodes)))

    def records(self, written: Sequence[int]) -> dict[str, tuple[Record, ...]]:
        """What every attention does while the source is read and the target written."""
        return records(
            self.model,
            torch.tensor([[*self.read, END_ID]], device=self.device),
            torch.tensor([[BEGIN_ID, *written]], device=self.device),
        )

    def _limited(self, at_least: int) -> tuple[torch.Tensor, torch.Tensor]:
        max_len = self.settings.max_len
        return one_source(self.model, self.read, max_len, self.device, at_least=at_least)


def one_source(
    model: SequenceModel,
    read: Sequence[int],
    max_len: int,
    device: torch.device,
    *,
    at_least: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Source ids (1, S), and how long its target may become (1,): no less than is given of it."""
    batch = collate_pairs([Example(read, ())])
    limits = length_limits(model, batch, max_len).clamp(min=at_least)
    return batch.source.to(device), limits.to(device)


def prefix_ids(tokens: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The ids of tokens to begin with; nothing can follow the end token."""
    if isinstance(tokens, str):
        raise ConfigError(f"prefix: give a list of tokens such as [{tokens!r}], not one text")
    ids = token_ids(tokens, tokenizer, "prefix")
    if END_ID in ids:
        raise ConfigError(f"prefix: a target that has ended with {END} cannot be continued")
    return ids


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


def _forced(edits: Sequence[AnyEdit]) -> list[ForceToken]:
    return [edit for edit in edits if isinstance(edit, ForceToken)]
