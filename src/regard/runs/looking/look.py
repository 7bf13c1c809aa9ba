"""One text, and where every attention of the model looked while it was read and written.

What inspection found and what visual draws meet here: inspection knows models and no pictures,
visual knows pictures and no models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.counting import counted, mentioned
from regard.core.errors import ConfigError
from regard.core.files import write_whole
from regard.core.registry import did_you_mean
from regard.inspection.capture import POOL, Weights
from regard.inspection.heads import rollout
from regard.inspection.records import Record, steps_of
from regard.runs.looking.outcome import Outcome
from regard.runs.looking.rows import found, row_of, some
from regard.runs.looking.steps import WIDTH, ShownSteps, shown, steps_shown
from regard.visual.axes import Axis, named_sides, token_sides
from regard.visual.html import look_fragment
from regard.visual.look_files import look_file
from regard.visual.matrix import look_text
from regard.visual.payload import Selected
from regard.visual.tables import plain_text


@dataclass(frozen=True, slots=True)
class Look:
    """Tokens, translation and weights by name; the end token is in both lists.

    Row t of ``decoder.cross`` and ``decoder.self`` is the step that *writes* target token t. The
    columns of ``decoder.self`` are what the decoder had read: the begin token, then target tokens.

    An encoder alone has no target, unless its head pools by attention: then that has one row,
    which is the label that came out. A language model's source is the prompt and its target what
    follows; rows and columns of its ``decoder.self`` are all of these, and row t is the position
    that has just *read* token t. Both have an ``outcome``, and no end token beyond what was read;
    nor has a language model's look the token that fills its context, which it writes and never
    reads.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    answer: str
    """What came out: a translation, a label, words, a text; see ``outcome``."""
    attentions: Mapping[str, tuple[Weights, ...]]
    """Name, such as ``decoder.cross`` -> weights of each layer."""
    source: str = ""
    """The text that was read."""
    records: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)
    """Name -> all that each layer was given and made of it; ``steps`` reads it."""
    edits: tuple[Mapping[str, Any], ...] = ()
    """What was changed in the model or the texts, as JSON; nothing, if nothing was."""
    doubts: tuple[str, ...] = ()
    """Why the translation may be a fragment, in words; mostly nothing."""
    task: str = "translation"
    outcome: Outcome | None = None
    """What came out and what else might have, where that is no translation."""
    axes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Attention -> the sides that are its ``rows`` and ``columns``, where its name does not say."""
    sides: Mapping[str, Axis] = field(default_factory=dict)
    """Sides that are no tokens, such as a ``source`` of patches."""

    @property
    def translation(self) -> str:
        """The answer of a translator."""
        if self.task != "translation":
            raise AttributeError(f"a look at {self.task} has no translation; see answer, outcome")
        return self.answer

    def weights(self, name: str, layer: int = 0) -> Weights:
        """(H, T, S) of one attention; layers are counted from 0."""
        self._check(name, layer)
        return self.attentions[name][layer]

    def steps(
        self, token: str | int, *, layer: int = 0, head: int = 0, name: str | None = None
    ) -> ShownSteps:
        """How one token attends, step by step, in the numbers of that very run.

        The token is a word of the rows, of which the first is taken, or the number of its row.
        Without a name it is ``decoder.cross``, or what pools a text, where a row has that word, and
        else ``encoder.self``; a system with one attention alone has no choice.
        """
        name = name or self._asked_by(token)
        self._check(name, layer)
        if name not in self.records:
            raise ConfigError("this look has weights alone; run.explain(…) records the steps")
        rows, columns = self.tokens_of(name)
        at = row_of(token, rows, name)
        record = self.records[name][layer]
        return shown(
            steps_of(
                record, name=name, layer=layer, head=head, token=at, row=rows[at], columns=columns
            )
        )

    def rollout(self, name: str | None = None) -> NDArray[np.float64]:
        """(T, T): where a self-attention leads through all its layers; rows sum to 1.

        Without a name it is ``encoder.self``, or the one that there is.
        """
        own = [known for known in self.attentions if known.endswith(".self")]
        name = name or (own[0] if len(own) == 1 else "encoder.self")
        if own:
            self._check(name, 0)
        if name not in own:
            raise ConfigError(
                f"rollout follows a self-attention, which {name!r} is not; "
                f"this system has {', '.join(own) or 'none'}"
            )
        return rollout(self.attentions[name])

    def tokens_of(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The labels of an attention's rows and columns."""
        sides, said = self._sides(), self._axes(name)
        return sides[said["rows"]].labels, sides[said["columns"]].labels

    def _axes(self, name: str) -> Mapping[str, str]:
        if name in self.axes:
            return self.axes[name]
        return {"rows": "label", "columns": "source"} if name == POOL else named_sides(name)

    def _sides(self) -> dict[str, Axis]:
        return {**token_sides(self.source_tokens, self.target_tokens), **self.sides}

    def _check(self, name: str, layer: int) -> None:
        if name not in self.attentions:
            known = ", ".join(self.attentions) or "none: this system does not attend"
            hint = did_you_mean(name, self.attentions)
            raise ConfigError(f"no attention {name!r}{hint}; known: {known}")
        n_layers = len(self.attentions[name])
        if not 0 <= layer < n_layers:
            raise ConfigError(f"{name} has layers 0 to {n_layers - 1}, not {layer}")

    def _asked_by(self, token: str | int) -> str:
        """The attention that is meant by a token alone."""
        if len(self.attentions) == 1:
            return next(iter(self.attentions))
        across = POOL if POOL in self.attentions else "decoder.cross"
        if "encoder.self" not in self.attentions:
            return across
        if isinstance(token, int):
            return "encoder.self" if across == POOL else across
        if found(token, self.target_tokens) is not None:
            return across
        if found(token, self.source_tokens) is None:
            hint = did_you_mean(token, [*self.target_tokens, *self.source_tokens])
            raise ConfigError(
                f"no token is {token!r}{hint}; the target has {some(self.target_tokens)}, "
                f"the source {some(self.source_tokens)}"
            )
        return "encoder.self"

    def as_json(self) -> dict[str, Any]:
        """The object of ``regard explain --format json``, which every picture is drawn from."""
        lists = {
            name: [layer.tolist() for layer in layers] for name, layers in self.attentions.items()
        }
        return self.payload() | {"attentions": lists}

    def payload(self) -> dict[str, Any]:
        """The same with weights as arrays, which are far smaller than lists of numbers."""
        axes = {name: dict(self._axes(name)) for name in self.attentions}
        written = self.outcome is None or self.outcome.kind == "text"
        used = {side for sides in axes.values() for side in sides.values()}
        return {
            "source": self.source,
            "answer": self.answer,
            "translation": self.answer if written else "",
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "attentions": dict(self.attentions),
            "axes": axes,
            "sides": {name: one.as_json() for name, one in self._sides().items() if name in used},
            "edits": [dict(edit) for edit in self.edits],
        } | self._told()

    def _told(self) -> dict[str, Any]:
        """What a look that is no translator's has besides."""
        if self.outcome is None:
            return {}
        return {"task": self.task, "outcome": self.outcome.as_json()}

    def as_file(self, form: str, selected: Selected | None = None) -> str:
        """The text of a file: html, svg, json, csv or tex.

        HTML and JSON hold everything; the others the matrix that is selected, by default the mean
        of all heads in the last layer of ``decoder.cross``.
        """
        chosen = selected or Selected()
        payload = self.as_json() if form == "json" else self.payload()
        steps = steps_shown(payload, self.steps, chosen) if self.records else ()
        return look_file(payload, form, selected=chosen, steps=steps)

    def save(self, path: str | Path) -> None:
        """Write one file by the ending of its name; .html works offline (see ``as_file``)."""
        form = Path(path).suffix.removeprefix(".").lower()
        write_whole(Path(path), self.as_file(form))

    def __repr__(self) -> str:
        parts = [
            f"{name} {counted(len(layers), 'layer')} × {counted(len(layers[0]), 'head')}"
            for name, layers in self.attentions.items()
        ]
        said = mentioned(self.source)
        if self.outcome is None or self.answer:
            said += f" → {mentioned(self.answer)}"
        under = f", under {counted(len(self.edits), 'edit')}" if self.edits else ""
        return f"<Look at {said}: {', '.join(parts) or 'no attention'}{under}>"

    def __str__(self) -> str:
        return plain_text([look_text(self.payload(), width=WIDTH)], WIDTH)

    def _repr_html_(self) -> str:
        payload = self.payload()
        steps = steps_shown(payload, self.steps, Selected()) if self.records else ()
        return look_fragment(payload, steps)
