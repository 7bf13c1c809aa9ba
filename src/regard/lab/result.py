"""What an experiment found out: its numbers, the words that tell them, and its files on disk."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.core.errors import CheckpointError
from regard.core.files import read_json, write_whole
from regard.lab import LESSONS, THEMES, Lesson, claim
from regard.visual.charts import bars, curves
from regard.visual.figures import figure
from regard.visual.report import Card, Elsewhere, card, cards_page
from regard.visual.svg import alone
from regard.visual.tables import Table

_MOST_LETTERS = 60  # of a setting in a file's name
Number = bool | int | float | str | list[float] | list[int]


@dataclass(frozen=True, slots=True)
class Result:
    """A verdict on a claim, with the numbers it rests on and a picture of them."""

    name: str
    verdict: bool
    """Whether the claim held here; it can come out false."""
    finding: str
    """A sentence or two: what was seen, with the deciding numbers, and why where it was not so."""
    numbers: Mapping[str, Number]
    """All that was measured, by readable names; plain JSON."""
    pictures: tuple[str, ...]
    """SVG."""
    tables: tuple[Table, ...] = ()
    changed: Mapping[str, Any] = field(default_factory=dict)
    """Keywords that were not what the claim asks for: then the verdict is not one on the claim."""

    @property
    def stem(self) -> str:
        """How its files are called: its name and what was changed, so that none is mistaken."""
        return _stem(self.name, self.changed)

    @property
    def claim(self) -> str:
        """What was put to the test."""
        return claim(self.name)

    @property
    def lesson(self) -> Lesson:
        """Why it matters, and what to try: a change, or after a change the claim as it stands."""
        lesson = LESSONS[self.name]
        if not self.changed:
            return lesson
        return Lesson(lesson.why, f"regard lab {self.name}", "The claim as it stands.")

    def _told(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("name", "claim", "verdict", "finding")}

    def as_json(self) -> dict[str, Any]:
        """What ``regard lab NAME --json`` prints."""
        return {**self._told(), "changed": dict(self.changed), "numbers": dict(self.numbers)}

    def card(self) -> Card:
        """The result, ready to be put on a page."""
        told = {**self._told(), **self.lesson._asdict(), "stem": self.stem}
        told["changed"] = spoken_settings(self.changed)
        return Card(**told, pictures=self.pictures, tables=self.tables)

    def _repr_html_(self) -> str:
        return card(self.card())


def spoken_settings(changed: Mapping[str, Any]) -> str:
    """Keywords as one sets them.

    >>> spoken_settings({"axis": -2, "gaps": [3, 5], "divided": False})
    'axis=-2, gaps=[3,5], divided=false'
    """
    return ", ".join(f"{key}={_value(value)}" for key, value in changed.items())


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.replace('"', "")


def _stem(name: str, changed: Mapping[str, Any]) -> str:
    """A file's name without its ending. What some systems do not take in one is replaced, what is
    long is cut, and then a digest tells it from others."""
    settings = [f"{key}={_value(value)}" for key, value in changed.items()]
    shown = [re.sub(r"[^\w.,=-]", "_", one)[:_MOST_LETTERS] for one in settings]
    digest = hashlib.sha256("\n".join(settings).encode()).hexdigest()[:8]
    return "-".join([name, *shown, *([] if shown == settings else [digest])])


def write_result(result: Result, folder: Path, form: str = "svg") -> list[Path]:
    """STEM.html, STEM.json, and STEM.svg (STEM-2.svg, … where there are more pictures).

    Pictures are written in the ``form`` svg, png or pdf. Returns the files that were written.
    """
    page, facts = folder / f"{result.stem}.html", folder / f"{result.stem}.json"
    write_whole(page, cards_page(result.name, [result.card()]))
    write_whole(facts, json.dumps(result.as_json(), indent=2, ensure_ascii=False) + "\n")
    written = [page, facts]
    for number, picture in enumerate(result.pictures, start=1):
        suffix = "" if number == 1 else f"-{number}"
        made = alone(picture, fixed=True) if form == "svg" else figure(picture, form)
        written.append(folder / f"{result.stem}{suffix}.{form}")
        write_whole(written[-1], made)
    return written


def write_page(
    results: Sequence[Result], folder: Path, *, failed: Sequence[tuple[str, str]] = ()
) -> Path:
    """A page of all results; ``failed`` are (name, why) of experiments that broke down.

    It leads to the pages of experiments that were written here before.
    """
    page, cards = folder / "index.html", [result.card() for result in results]
    now = {one.stem for one in cards}
    earlier = [one for one in _written(folder) if one.stem not in now]
    shown = cards_page(
        "The lectures' claims", cards, missing=failed, elsewhere=earlier, themes=THEMES
    )
    write_whole(page, shown)
    return page


def _written(folder: Path) -> Iterator[Elsewhere]:
    """Results in a folder that have a page; files that are not ours are left alone."""
    for path in sorted(folder.glob("*.json")):
        with suppress(CheckpointError, KeyError, TypeError, AttributeError):
            facts = read_json(path)
            name, changed = facts["name"], facts.get("changed", {})
            told = facts["claim"], bool(facts["verdict"]), _stem(name, changed)
            one = Elsewhere(name, *told, spoken_settings(changed))
            if (
                one.stem == path.name.removesuffix(".json")
                and (folder / f"{one.stem}.html").exists()
            ):
                yield one


def unmet(parts: Mapping[str, bool]) -> str:
    """The end of a finding: which parts of a claim did not come true, or nothing.

    >>> unmet({"the sky is blue": True, "grass is red": False})
    ' Not seen here: grass is red.'
    """
    missing = [part for part, seen in parts.items() if not seen]
    return f" Not seen here: {'; '.join(missing)}." if missing else ""


def percent(share: float) -> str:
    """A share in whole per cent.

    >>> percent(0.256)
    '26 %'
    """
    return f"{100 * share:.0f} %"


def listed(things: Iterable[object]) -> str:
    """Things in a row, as one says them.

    >>> listed((1, 2, 3))
    '1, 2 and 3'
    """
    *first, last = map(str, things)
    return f"{', '.join(first)} and {last}" if first else last


def share_bars(shares: Mapping[str, float], *, title: str, digits: int = 0) -> str:
    """Shares as bars in per cent."""
    shown = {name: 100 * one for name, one in shares.items()}
    return bars(shown, title=title, unit=" %", digits=digits)


def lines(
    series: Mapping[Any, Any],
    title: str,
    x_label: str,
    y_label: str,
    *,
    xs: Iterable[float] = (),
    log_y: bool = False,
) -> str:
    """A line for each series, which maps x to y or lists what is y at each of ``xs``."""
    xs = list(xs)
    points = {
        str(name): list(ys.items() if isinstance(ys, Mapping) else zip(xs, ys, strict=True))
        for name, ys in series.items()
    }
    return curves(points, title=title, x_label=x_label, y_label=y_label, log_y=log_y)
