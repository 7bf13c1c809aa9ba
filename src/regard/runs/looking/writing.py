"""A look at a language model that reads a prompt and what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from regard.core.errors import ConfigError, DataError
from regard.decoding.continuing import Manner, continuations
from regard.inspection.edits import edited
from regard.inspection.records import recorded_call
from regard.models.decoder import LanguageModel
from regard.runs import edits
from regard.runs.edits import AnyEdit, ForceToken
from regard.runs.forcing import token_ids
from regard.runs.looking.limits import check_length
from regard.runs.looking.look import Look
from regard.runs.looking.outcome import next_tokens
from regard.runs.writing.framing import Framing

MAX_TOKENS = 20
"""Tokens that the model writes where nothing is given."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is read first, and the model that goes on from it."""

    model: LanguageModel
    framing: Framing
    device: torch.device
    manner: Manner
    """Its ``max_new`` is replaced by what there is room for."""

    def look(self, prompt: str, continuation: str | None, max_tokens: int, edit: Any) -> Look:
        """Where every attention looks while the prompt is read and what follows is written."""
        changes = edits.edits_from(edit)
        prompt = edits.swapped(_text(prompt), changes)
        read = self.framing.read(prompt)
        self._check(len(read), max_tokens)
        with edited(self.model, edits.of_model(changes)):
            if continuation is None:
                written = self._continued(read, (), max_tokens)
            else:
                written = self.framing.inside(_text(continuation))
            written = self._forced(read, written, changes, max_tokens)
            seen = self._seen(read, written)
            logits, found = recorded_call(self.model, torch.tensor([seen], device=self.device))
        edits.check_keys(changes, found)
        said, tokens = self.framing.said_after(read, written), self.framing.tokenizer.tokens
        return Look(
            source=prompt,
            source_tokens=tuple(tokens(read)),
            target_tokens=tuple(tokens(seen[len(read) :])),
            answer=said,
            attentions={name: tuple(one.weights for one in all_) for name, all_ in found.items()},
            records=found,
            edits=tuple(map(edits.as_json, changes)),
            task="language",
            axes={name: {"rows": "text", "columns": "text"} for name in found},
            outcome=next_tokens(logits[0], self.framing.tokenizer, said),
        )

    def _seen(self, read: Sequence[int], written: Sequence[int]) -> list[int]:
        """What the model reads of both: the last token of a full context is written, never read."""
        whole, context = [*read, *written], self.model.config.max_len
        seen = whole[:-1] if written and len(whole) == context + 1 else whole
        self._check(len(seen))
        return seen

    def _check(self, n_tokens: int, max_tokens: int = 0) -> None:
        if max_tokens < 0:
            raise ConfigError(f"max_tokens must be at least 0: {max_tokens}")
        context = self.model.config.max_len
        if n_tokens > context:
            raise DataError(
                f"the text has {n_tokens:,} tokens, but the model's context holds {context:,}; "
                "take a part of it"
            )
        check_length(self.model.config, n_tokens)

    def _continued(self, read: Sequence[int], begun: Sequence[int], max_tokens: int) -> list[int]:
        """What begins so and is written on, always by the most probable token."""
        before = [*read, *begun]
        room = min(max_tokens - len(begun), self.model.config.max_len + 1 - len(before))
        if room < 1:
            return list(begun)
        manner = replace(self.manner, max_new=room, temperature=0.0)
        rng = torch.Generator()  # nothing is drawn
        (one,) = continuations(self.model, [before], manner, rng=rng, device=self.device)
        return [*begun, *one.ids]

    def _forced(
        self, read: Sequence[int], written: list[int], changes: Sequence[AnyEdit], max_tokens: int
    ) -> list[int]:
        """What is written once every forced token stands where it should, the first one first."""
        forced = [change for change in changes if isinstance(change, ForceToken)]
        for change in sorted(forced, key=lambda one: one.position):
            if not 0 <= change.position <= len(written):
                raise ConfigError(
                    f"force_token.position: {len(written)} tokens follow the prompt, so it is from "
                    f"0 to {len(written)}, not {change.position}"
                )
            (said,) = token_ids([change.token], self.framing.tokenizer, "force_token.token")
            begun = written[: change.position]
            ends = said in self.manner.end_ids
            written = begun if ends else self._continued(read, [*begun, said], max_tokens)
        return written


def _text(text: str) -> str:
    if not isinstance(text, str):
        raise DataError(f"explain takes one text, got {type(text).__name__}")
    return text
