"""One text, and where every attention of the model looked while it was read and written.

What inspection found and what visual draws meet here: inspection knows models and no pictures,
visual knows pictures and no models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import ConfigError, DataError
from regard.core.files import write_whole
from regard.core.numbers import counted, mentioned
from regard.core.registry import did_you_mean
from regard.inspection.capture import COMPRESSED, POOL, Weights
from regard.inspection.heads import rollout
from regard.inspection.records import Record, Steps, steps_of
from regard.layers.window import STRIDE
from regard.models.settings import DecoderConfig, EncoderConfig
from regard.tasks.edits import AnyEdit, as_json
from regard.text.tokenizer import SPACE, Tokenizer
from regard.visual.heat_maps import Pixels, data_uri
from regard.visual.look_files import look_figure, look_file, look_fragment
from regard.visual.matrix import look_text
from regard.visual.payload import (
    ROLLOUT,
    SLOTS,
    Axis,
    Payload,
    Selected,
    named_sides,
    selected_view,
    token_sides,
)
from regard.visual.steps_table import steps_html, steps_text
from regard.visual.tables import plain_text

MOST_WEIGHTS = 2**27
"""Of all heads together; a look takes about 16 bytes for each."""


def check_length(config: EncoderConfig | DecoderConfig, n_tokens: int) -> None:
    """Refuse a text whose weights would fill the memory."""
    n_heads = config.n_self_heads
    most = math.isqrt(MOST_WEIGHTS // n_heads) if n_heads else n_tokens
    if n_tokens > most:
        raise DataError(
            f"a look holds the weights of {counted(n_heads, 'head')} between all tokens: {most:,} "
            f"tokens can be looked at, and the text has {n_tokens:,}; take a part of it"
        )


MOST = 5
"""So many choices are told where there are many."""
Kind = Literal["label", "words", "vector", "answer", "text", "boxes"]


class Choice(NamedTuple):
    """Something that may come out, and how likely it is."""

    text: str
    probability: float


class TopChoices(NamedTuple):
    """What may stand at some rows, or what the whole text may be; the most probable first."""

    rows: tuple[int, int] | None
    """The first, and the one behind the last; None is the whole text."""
    choices: tuple[Choice, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        choices = [{"text": one.text, "probability": one.probability} for one in self.choices]
        return {"rows": None if self.rows is None else list(self.rows), "choices": choices}


@dataclass(frozen=True, slots=True)
class Prediction:
    """A label, filled words, a vector, an answer, or text that was written."""

    kind: Kind
    text: str
    places: tuple[TopChoices, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As it stands in the payload of a look."""
        places = [place.as_json() for place in self.places]
        return {"kind": self.kind, "text": self.text, "places": places}


class Written(NamedTuple):
    """How probable the tokens of a target are, each after those before it."""

    probabilities: tuple[float, ...]
    """One a token."""
    alternatives: tuple[tuple[Choice, ...], ...]
    """What might have stood in the place of each, itself perhaps among it; best first."""


def written_as(logits: Tensor, ids: Sequence[int], tokenizer: Tokenizer) -> Written:
    """Of ids that were written where a model gave logits (T, V)."""
    wide = logits.float()
    total = wide.logsumexp(dim=-1, keepdim=True)
    at = torch.tensor(ids, dtype=torch.long, device=logits.device).unsqueeze(-1)
    said = (wide.gather(-1, at) - total).exp().squeeze(-1).tolist()
    return Written(tuple(said), tuple(place.choices for place in top_choices(logits, tokenizer)))


def top_choices(logits: Tensor, tokenizer: Tokenizer) -> list[TopChoices]:
    """The most probable tokens at each of T positions, of logits (T, V)."""
    wide = logits.float()
    total, nameless = wide.logsumexp(dim=-1, keepdim=True), tokenizer.nameless(wide.shape[-1])
    named = wide.clone()
    named[:, nameless] = -math.inf
    best = named.topk(min(MOST, wide.shape[-1] - len(nameless)))
    shares = (best.values - total).exp()
    return [
        TopChoices((t, t + 1), tuple(map(Choice, tokenizer.tokens(ids), some)))
        for t, (ids, some) in enumerate(zip(best.indices.tolist(), shares.tolist(), strict=True))
    ]


WIDTH = 80
"""Letters of a line where a look or its steps are printed."""


class ShownSteps(Steps):
    """Steps that a notebook shows as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        where = f"{self.name}, layer {self.layer}, head {self.head}"
        most = int(self.weights.argmax())
        looks = f"{mentioned(self.columns[most])} ({self.weights[most]:.3f})"
        return f"<Steps of {mentioned(self.row)} in {where}: looks most at {looks}>"

    def __str__(self) -> str:
        return plain_text([steps_text(self.as_json(), width=WIDTH)], WIDTH)

    def _repr_html_(self) -> str:
        return steps_html(self.as_json())


Records = Mapping[str, tuple[Record, ...]]
"""Name of an attention -> all that each layer was given and made of it."""


@dataclass(frozen=True, slots=True)
class Look:
    """Tokens, translation and weights by name; the end token is in both lists.

    Row t of ``decoder.cross`` and ``decoder.self`` is the step that *writes* target token t. The
    columns of ``decoder.self`` are what the decoder had read: the begin token, then target tokens,
    and before them the source where a decoder is all there is. Where keys are compressed, columns
    are slots, and attentions are called so: ``decoder.self.compressed``; layers are counted anew.

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
    records: Records = field(default_factory=dict)
    """What ``steps`` reads."""
    edits: tuple[Mapping[str, Any], ...] = ()
    """What was changed in the model or the texts, as JSON; nothing, if nothing was."""
    warnings: tuple[str, ...] = ()
    """Why the translation may be a fragment, in words; mostly nothing."""
    task: str = "translation"
    outcome: Prediction | None = None
    """What came out and what else might have, where that is no translation."""
    axes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Attention -> the sides that are its ``rows`` and ``columns``, where its name does not say."""
    sides: Mapping[str, Axis] = field(default_factory=dict)
    """Sides that are no tokens, such as a ``source`` of patches."""
    picture: Pixels | None = None
    """(S, S, 3): what the patches are of, as the model saw it."""
    written: Written | None = None
    """How probable each target token is, where a target was written."""
    gates: tuple[float, ...] = ()
    """The β of each target token, where a decoder has such a gate."""
    boxes: tuple[Mapping[str, Any], ...] | None = None
    """Objects that were found, where such are looked for: ``label``, ``probability``, ``box``
    (left, top, right, bottom, as shares of the sides) and the ``row`` of the target."""
    drawn: tuple[int, ...] = ()
    """The patch that hard attention took for each target token; empty where it is not hard."""

    @classmethod
    def of(cls, found: Records, changes: Sequence[AnyEdit] = (), **fields: Any) -> Look:
        """A look at what was recorded of every attention, under what was changed."""
        weights = {name: tuple(one.weights for one in layers) for name, layers in found.items()}
        changed = tuple(map(as_json, changes))
        return cls(attentions=weights, records=found, edits=changed, **fields)

    @property
    def translation(self) -> str:
        """The answer of a translator."""
        if self.task != "translation":
            raise AttributeError(f"a look at {self.task} has no translation; see answer, outcome")
        return self.answer

    def weights(self, name: str, layer: int = 0, head: int | None = None) -> Weights:
        """(H, T, S) of one attention, or (T, S) of one head; both are counted from 0."""
        self._check(name, layer)
        found = self.attentions[name][layer]
        if head is None:
            return found
        if not 0 <= head < len(found):
            raise ConfigError(f"{name} has heads 0 to {len(found) - 1}, not {head}")
        one: Weights = found[head]
        return one

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
        at = self.row_of(name, token)
        where: dict[str, Any] = {"name": name, "layer": layer, "head": head, "token": at}
        steps = steps_of(self.records[name][layer], **where, row=rows[at], columns=columns)
        return ShownSteps(**_fields(steps))

    def row_of(self, name: str, token: str | int) -> int:
        """The row of an attention: the first that is called so, or that of this number."""
        rows, _ = self.tokens_of(name)
        at = token if isinstance(token, int) else found(token, rows)
        if at is None:
            hint = did_you_mean(str(token), rows)
            raise ConfigError(f"no row of {name} is {token!r}{hint}; its rows are {some(rows)}")
        if not 0 <= at < len(rows):
            raise ConfigError(f"{name} has rows 0 to {len(rows) - 1}, not {at}")
        return at

    def rollout(self, name: str | None = None) -> NDArray[np.float64]:
        """(T, T): where a self-attention leads through all its layers; rows sum to 1.

        Without a name it is ``encoder.self``, or the one that there is.
        """
        return rollout(self.attentions[self._rolled(name)])

    def rolled_out(self, name: str | None = None) -> Look:
        """The look with the rollout of a self-attention as its only attention, to be drawn."""
        name = self._rolled(name)
        through, called = rollout(self.attentions[name])[None].astype(np.float32), ROLLOUT + name
        axes = {called: self._axes(name)}
        return replace(self, attentions={called: (through,)}, records={}, axes=axes)

    def _rolled(self, name: str | None) -> str:
        own = [known for known in self.attentions if known.endswith(".self")]
        name = name or (own[0] if len(own) == 1 else "encoder.self")
        if not own:
            raise ConfigError("a rollout follows self-attention, and this system has none")
        self._check(name, 0)
        if name not in own:
            raise ConfigError(
                f"rollout follows a self-attention, which {name!r} is not; "
                f"this system has {', '.join(own)}"
            )
        return name

    def tokens_of(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The labels of an attention's rows and columns."""
        sides, said = self._sides(), self._axes(name)
        return sides[said["rows"]].labels, sides[said["columns"]].labels

    def positions_of(self, name: str) -> tuple[str, ...]:
        """The labels of the positions that an attention's columns are made of: mostly these."""
        return self._sides()[self._axes(name)["columns"].removesuffix(SLOTS)].labels

    def sides_of(self, name: str) -> tuple[str, str]:
        """What an attention's rows and columns are of, such as ``target`` and ``source``."""
        said = self._axes(name)
        return said["rows"], said["columns"]

    def _axes(self, name: str) -> Mapping[str, str]:
        said = self.axes.get(name)
        if name.endswith(COMPRESSED):
            said = said or self._axes(name.removesuffix(COMPRESSED))
            return {**said, "columns": said["columns"] + SLOTS}
        if said is not None:
            return said
        return {"rows": "label", "columns": "source"} if name == POOL else named_sides(name)

    def _sides(self) -> dict[str, Axis]:
        sides = {**token_sides(self.source_tokens, self.target_tokens), **self.sides}
        for name in self.attentions:
            if name.endswith(COMPRESSED):
                of = self._axes(name)["columns"]
                sides[of] = sides[of.removesuffix(SLOTS)].compressed(STRIDE)
        return sides

    def _check(self, name: str, layer: int) -> None:
        if not self.attentions:
            raise ConfigError("this system does not attend")
        if name not in self.attentions:
            known = ", ".join(self.attentions)
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
            return across if across in self.attentions else next(iter(self.attentions), across)
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

    def _steps_shown(self, payload: Payload, selected: Selected) -> Iterator[dict[str, Any]]:
        """Of every token in every head of the layer that is shown first, head by head.

        They are made one at a time, and arrays stay arrays: a page takes only as many as it has
        room for. The head that is selected comes first.
        """
        if not payload["attentions"] or not self.records:
            return
        view = selected_view(payload, selected)
        heads = sorted(range(len(view.weights)), key=lambda head: head != selected.head)
        for head, token in product(heads, range(len(view.rows))):
            yield _fields(self.steps(token, name=view.name, layer=view.layer, head=head))

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
            **({} if self.picture is None else {"picture": data_uri(self.picture)}),
            **({} if self.written is None else _written_json(self.written)),
            **({"gates": list(self.gates)} if self.gates else {}),
            **({} if self.boxes is None else {"boxes": [dict(one) for one in self.boxes]}),
            **({"drawn": list(self.drawn)} if self.drawn else {}),
            **({"task": self.task, "outcome": self.outcome.as_json()} if self.outcome else {}),
        }

    def as_file(self, form: str, selected: Selected | None = None) -> str:
        """The text of a file: html, svg, json, csv or tex.

        HTML and JSON hold everything; the others the matrix that is selected, by default the mean
        of all heads in the last layer of ``decoder.cross``.
        """
        chosen = selected or Selected()
        payload = self.as_json() if form == "json" else self.payload()
        steps = self._steps_shown(payload, chosen)
        return look_file(payload, form, selected=chosen, steps=steps)

    def as_figure(self, form: str, selected: Selected | None = None) -> bytes:
        """A PNG or PDF of what the SVG shows."""
        return look_figure(self.payload(), form, selected or Selected())

    def save(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        layer: int | None = None,
        head: int | None = None,
    ) -> None:
        """Write one file by the ending of its name; .html works offline (see ``as_file``).

        ``name`` is an attention such as ``decoder.cross``; layers and heads count from 0. They say
        which matrix is written, and in HTML, which holds all as JSON does, what is shown first.
        """
        form, chosen = Path(path).suffix.removeprefix(".").lower(), Selected(name, layer, head)
        if chosen != Selected():  # JSON would not notice what is not there
            selected_view(self.payload(), chosen).head(head)
        make = self.as_figure if form in ("png", "pdf") else self.as_file
        write_whole(Path(path), make(form, chosen))

    def __repr__(self) -> str:
        parts = [
            f"{name} {counted(len(layers), 'layer')} × {counted(len(layers[0]), 'head')}"
            for name, layers in self.attentions.items()
        ]
        said = "a picture" if self.picture is not None else mentioned(self.source)
        if self.outcome is None or self.answer:
            said += f" → {mentioned(self.answer)}"
        under = f", under {counted(len(self.edits), 'edit')}" if self.edits else ""
        return f"<Look at {said}: {', '.join(parts) or 'no attention'}{under}>"

    def __str__(self) -> str:
        drawn = look_text(self.payload(), width=WIDTH, coloured=False)
        return plain_text([drawn.append("\n".join(self.warnings))], WIDTH)

    def _repr_html_(self) -> str:
        payload = self.payload()
        return look_fragment(payload, self._steps_shown(payload, Selected()))


def _written_json(written: Written) -> dict[str, Any]:
    probabilities, alternatives = written
    told = [[one._asdict() for one in choices] for choices in alternatives]
    return {"probabilities": list(probabilities), "alternatives": told}


def _fields(steps: Steps) -> dict[str, Any]:
    return {one.name: getattr(steps, one.name) for one in fields(steps)}


def found(token: str, rows: tuple[str, ...]) -> int | None:
    """The first row of that name; the sign for a space may be left out."""
    plain = [row.removeprefix(SPACE) for row in rows]
    for known in (list(rows), plain):
        if token in known:
            return known.index(token)
    return None


def some(tokens: tuple[str, ...]) -> str:
    """Tokens, for a message: not more than 30."""
    return " ".join(tokens[:30]) + (" …" if len(tokens) > 30 else "")
