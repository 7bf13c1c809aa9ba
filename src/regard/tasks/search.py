"""Where else does this head do this? The held-out texts in which its weight is largest.

    found = run.search("il", "animal", name="decoder.cross", layer=1, head=2)

looks from words like *il* to words like *animal*: of the same kind (pronoun, noun, …) where the
built-in world knows kinds of words, and the very words where not. Texts are looked at once and
kept, so that a second question about them costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Any, Literal, NamedTuple

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted, mentioned
from regard.core.registry import did_you_mean
from regard.data.worlds.registry import WORLDS
from regard.inspection.capture import Weights
from regard.inspection.search import strongest_pair, wanted
from regard.tasks.base import TASKS, Task
from regard.tasks.look import Look
from regard.visual.tables import Table, table_html, table_text

By = Literal["kind", "word"]
TEXTS = 100
"""Texts that are searched where nothing is said."""
MOST_TEXTS = 1000
SHOWN = 10
"""Texts that are told, at most."""
TOKENS, LETTERS = 128, 4096
"""Of a text; longer ones are passed over."""
MOST_WEIGHTS = 2**24
"""Of all texts together, which are kept: 64 MB. Texts beyond them are left out."""
WIDTH = 100
"""Letters of a line where it is printed."""


class Meant(NamedTuple):
    """Which tokens are searched for."""

    token: str
    """The one that was picked."""
    kinds: tuple[str, ...]
    """Its kinds of words; none where the very word is meant."""
    tokens: frozenset[str]
    """All that count."""

    def __str__(self) -> str:
        return " or ".join(self.kinds) or mentioned(self.token)


class Match(NamedTuple):
    """A text, and the pair of its words between which the weight is largest."""

    source: str
    other: str | None
    answer: str
    rows: tuple[str, ...]
    """All tokens that look; ``row`` is that of number ``t``."""
    columns: tuple[str, ...]
    """All that are looked at; ``column`` is that of number ``s``."""
    t: int
    s: int
    weight: float

    @property
    def row(self) -> str:
        """The word that looks."""
        return self.rows[self.t]

    @property
    def column(self) -> str:
        """The word that is looked at."""
        return self.columns[self.s]


@dataclass(frozen=True, slots=True)
class Matches:
    """What a search found, the largest weight first."""

    name: str
    layer: int
    head: int
    row: Meant
    column: Meant
    split: str
    n: int
    """Texts that were searched."""
    of: int
    """Texts that were to be searched."""
    n_passed_over: int
    """Those of them that cannot be looked at: most are too long."""
    n_left_out: int
    """Those whose weights are more than are kept."""
    weights: tuple[float, ...]
    """The largest of each text that has such a pair."""
    found: tuple[Match, ...]

    @property
    def complete(self) -> bool:
        """Whether no text is still to be looked at."""
        return self.n + self.n_passed_over + self.n_left_out == self.of

    def as_json(self) -> dict[str, Any]:
        """The object of ``POST /api/search``."""
        sides = {"row": self.row, "column": self.column}
        return {
            "name": self.name,
            "layer": self.layer,
            "head": self.head,
            **{side: {"token": one.token, "kinds": [*one.kinds]} for side, one in sides.items()},
            "split": self.split,
            "n": self.n,
            "of": self.of,
            "n_passed_over": self.n_passed_over,
            "n_left_out": self.n_left_out,
            "complete": self.complete,
            "n_having": len(self.weights),
            "mean": fmean(self.weights) if self.weights else None,
            "found": [one._asdict() for one in self.found],
        }

    def table(self) -> Table:
        """A row a text."""
        have = f"{len(self.weights)} of {counted(self.n, 'text')} of {self.split}"
        mean = f", {fmean(self.weights):.3f} on average" if self.weights else ""
        where = f"{self.name}, layer {self.layer}, head {self.head}"
        caption = f"{where}: {self.row} → {self.column}, in {have}{mean}{self._missing()}"
        rows = [
            (one.source, f"{one.row} → {one.column}", f"{one.weight:.3f}") for one in self.found
        ]
        return Table(caption, ["text", "from → to", "weight"], rows)

    def _missing(self) -> str:
        """Texts that were not searched, and why."""
        reasons = {
            f"that cannot be looked at (longer than {TOKENS} tokens, most often)": (
                self.n_passed_over
            ),
            f"beyond the {MOST_WEIGHTS:,} weights that are kept": self.n_left_out,
        }
        return "".join(f"; without {counted(n, 'text')} {why}" for why, n in reasons.items() if n)

    def __repr__(self) -> str:
        return f"<Matches: {counted(len(self.found), 'text')} for {self.row} → {self.column}>"

    def __str__(self) -> str:
        return table_text(self.table(), WIDTH)

    def _repr_html_(self) -> str:
        return table_html(self.table())


class _Seen(NamedTuple):
    """One text as all heads saw it."""

    source: str
    other: str | None
    answer: str
    tokens: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    weights: Mapping[str, tuple[Weights, ...]]


class HeldOutTexts(NamedTuple):
    """The first texts of a split, to be searched."""

    asked: Sequence[Mapping[str, Any]]
    """What ``explain`` is given for each that is short enough."""
    of: int
    """How many texts there were, longer ones among them."""


def held_out_texts(run: Any, split: str = "valid", n: int = TEXTS) -> HeldOutTexts:
    """The first ``n`` texts of a split. All of the run's data is read for them."""
    task = TASKS[run.task]
    found = [*islice(task.explained_with(run, task.records_of(run, split)), n)]
    return HeldOutTexts([one for one in found if _is_short(task, run, one)], len(found))


def _is_short(task: Task, run: Any, asked: Mapping[str, Any]) -> bool:
    texts = {"source": asked["source"], "other": asked.get("other")}
    if any(len(text or "") > LETTERS for text in texts.values()):
        return False
    try:
        task.check_look(run, TOKENS, **texts, target=None)
    except DataError:
        return False
    return True


@dataclass(slots=True)
class SearchedTexts:
    """Texts with the weights of every head, filled text by text."""

    run: Any
    split: str
    texts: HeldOutTexts
    n_done: int = 0
    """How many of the short texts were looked at, or refused."""
    n_left_out: int = 0
    seen: list[_Seen] = field(default_factory=list)
    sides: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Attention -> what its rows and columns are of."""
    _n_weights: int = 0

    @property
    def finished(self) -> bool:
        """Whether all texts were looked at that can be kept."""
        return self.n_done + self.n_left_out == len(self.texts.asked)

    def looks(self) -> Iterator[int]:
        """Look at one text after the other -> ``n_done``.

        It may be left at any of them; called again, it goes on from there.
        """
        while not self.finished:
            self._look(self.texts.asked[self.n_done])
            yield self.n_done

    def _look(self, asked: Mapping[str, Any]) -> None:
        try:
            look: Look = TASKS[self.run.task].explain(self.run, **asked)
        except DataError:  # such as one in which no word is known
            self.n_done += 1
            return
        n = sum(one.size for layers in look.attentions.values() for one in layers)
        if self._n_weights + n > MOST_WEIGHTS:
            self.n_left_out = len(self.texts.asked) - self.n_done
            return
        self._n_weights += n
        self.n_done += 1
        self._keep(look, asked)

    def _keep(self, look: Look, asked: Mapping[str, Any]) -> None:
        tokens = {name: look.tokens_of(name) for name in look.attentions}
        self.sides = {name: look.sides_of(name) for name in look.attentions}
        kept = _Seen(asked["source"], asked.get("other"), look.answer, tokens, look.attentions)
        self.seen.append(kept)

    def search(
        self,
        row: str,
        column: str,
        *,
        name: str,
        layer: int,
        head: int,
        by: By = "kind",
        shown: int = SHOWN,
    ) -> Matches:
        """Texts by the largest weight of a head from a word like ``row`` to one like ``column``."""
        self._check(name, layer, head)
        looks, looked_at = self.sides[name]
        rows, columns = self._meant(row, looks, by), self._meant(column, looked_at, by)
        found = []
        for one in self.seen:
            sides = one.tokens[name]
            flags = wanted(sides[0], rows.tokens), wanted(sides[1], columns.tokens)
            pair = strongest_pair(one.weights[name][layer][head], *flags)
            if pair is not None:
                read = (one.source, one.other, one.answer)
                found.append(Match(*read, *sides, pair.t, pair.s, pair.weight))
        found.sort(key=lambda one: -one.weight)
        return Matches(
            name,
            layer,
            head,
            rows,
            columns,
            self.split,
            n=len(self.seen),
            of=self.texts.of,
            n_passed_over=self.texts.of - len(self.texts.asked) + self.n_done - len(self.seen),
            n_left_out=self.n_left_out,
            weights=tuple(one.weight for one in found),
            found=tuple(found[:shown]),
        )

    def _check(self, name: str, layer: int, head: int) -> None:
        if not self.seen and self.n_left_out:
            raise DataError(
                f"the weights of one text are more than the {MOST_WEIGHTS:,} that are kept; a "
                "model with so many heads cannot be searched"
            )
        if not self.seen:
            raise DataError(f"split {self.split!r} has no text that can be looked at")
        known = self.seen[0].weights
        if name not in known:
            names = ", ".join(known) or "none: this system does not attend"
            raise ConfigError(f"no attention {name!r}{did_you_mean(name, known)}; known: {names}")
        shape = (len(known[name]), len(known[name][0]))
        for what, value, n in zip(("layers", "heads"), (layer, head), shape, strict=True):
            if not 0 <= value < n:
                raise ConfigError(f"{name} has {what} 0 to {n - 1}, not {value}")

    def _meant(self, token: str, side: str, by: By) -> Meant:
        """Words of the same kind as a token, where that is asked for and known."""
        known = self._kinds(side) if by == "kind" else {}
        kinds = known.get(token, frozenset())
        alike = frozenset(word for word, others in known.items() if others & kinds)
        return Meant(token, tuple(sorted(kinds)), alike or frozenset({token}))

    def _kinds(self, side: str) -> Mapping[str, frozenset[str]]:
        """Word -> its kinds, in the language of a side; nothing where nobody knows them."""
        known = _word_kinds(self.run)
        if known is None:
            return {}
        read, written = self.run.recipe.data.direction.split("-")
        return known(read if side in ("source", "text") else written)


def _word_kinds(run: Any) -> Callable[[str], Mapping[str, frozenset[str]]] | None:
    """What the world of a run knows of kinds of words, by language."""
    world = run.recipe.data.world
    return None if world is None else WORLDS[world].word_kinds


def knows_kinds(run: Any) -> bool:
    """Whether a run was trained in a world that knows which kind of word each is."""
    return _word_kinds(run) is not None


def search(
    run: Any,
    row: str,
    column: str,
    *,
    name: str | None = None,
    layer: int = 0,
    head: int = 0,
    by: By = "kind",
    split: str = "valid",
    n: int = TEXTS,
    shown: int = SHOWN,
) -> Matches:
    """See ``Deeds.search``."""
    for what, value, most in (("n", n, MOST_TEXTS), ("shown", shown, MOST_TEXTS)):
        if not 1 <= value <= most:
            raise ConfigError(f"{what} is 1 to {most}, not {value}")
    if by not in ("kind", "word"):
        raise ConfigError(f"words are searched for by kind or by word, not by {by!r}")
    texts = SearchedTexts(run, split, held_out_texts(run, split, n))
    for _ in texts.looks():
        pass
    first = next(iter(texts.sides), "decoder.cross")
    chosen = name or ("decoder.cross" if "decoder.cross" in texts.sides else first)
    return texts.search(row, column, name=chosen, layer=layer, head=head, by=by, shown=shown)
