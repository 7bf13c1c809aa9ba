"""A model card, as model hubs expect it: YAML between dashes, then Markdown.

All of it comes from the run folder. What the folder does not say is told as unknown or left out,
and every number of a score or a cost is one of scores.json. Names that others gave (of the run, its
files, its labels) stand in code spans, where Markdown and HTML mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import yaml

from regard.checkpoints.run_folder import load_scores
from regard.core.files import damage_told
from regard.data.settings import Files
from regard.data.worlds.registry import WORLDS
from regard.tasks.base import TASKS
from regard.tasks.writing_verbs import TRANSLATE

UNKNOWN = "unknown"
UNDETERMINED = "und"  # ISO 639's code for a language that nobody told
SHOWN = 20
"""Labels that are listed; of more, only their number is told."""

COSTS: Mapping[str, tuple[str, str]] = {
    "parameters": ("parameters", ",.0f"),
    "steps": ("steps", ",.0f"),
    "tokens": ("tokens trained on", ",.0f"),
    "flops": ("training FLOPs", ".3g"),
    "seconds": ("training seconds", ",.1f"),
    "processes": ("processes", ",.0f"),
    "memory_bytes": ("peak memory in bytes", ",.0f"),
}
"""What was measured of a training: its name for people, and how its number is written."""

Scores = Mapping[str, Any]
"""Of one test set, by name."""


class TheirClasses(NamedTuple):
    """The classes of transformers that open a folder."""

    reader: str
    """Of what makes ids of texts, or numbers of pictures."""
    model: str


def model_card(
    run: Any,
    *,
    license_name: str = UNKNOWN,
    datasets: Sequence[str] = (),
    theirs: TheirClasses | None = None,
) -> str:
    """The card of a run as text; licence and hub data sets are what the user says they are.

    ``theirs`` opens the folder for which it is written, where that is no longer a run of ours.
    """
    finished = load_scores(run.folder) if run.folder.finished() else {}
    with damage_told(run.folder.scores):
        scores = {name: dict(one) for name, one in finished.get("scores", {}).items()}
        head = _front_matter(run, scores, license_name, datasets)
        head |= {} if theirs is None else {"library_name": "transformers"}
        sections = [
            ("Data", _data(run)),
            ("Scores", _scores(scores)),
            ("Cost", _cost(finished.get("measured", {}), finished.get("ended"))),
            ("How to use", _usage(run) if theirs is None else _their_usage(theirs)),
            ("Limits", _limits(run, scores)),
        ]
        body = "\n".join(
            line for title, lines in sections for line in (f"## {title}", "", *lines, "")
        )
    shown = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=10**6)
    return f"---\n{shown}---\n\n# {code(_name(run))}\n\n{_summary(run)}\n\n{body}"


def code(text: str) -> str:
    """A text that others wrote as a code span of one line, in which nothing is Markdown.

    >>> print(code("<b>a"), code("`x`"))
    `<b>a` `` `x` ``
    """
    line = one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    room = " " if "`" in line else ""
    return f"{fence}{room}{line}{room}{fence}"


def one_line(text: str) -> str:
    """A text that others wrote, without line ends and signs that cannot be seen."""
    return "".join(sign for sign in " ".join(text.split()) if sign.isprintable()) or UNKNOWN


def cell(text: str) -> str:
    """The same in a table, where a bar would begin the next cell.

    >>> print(cell("nrefs:1|case:lc"))
    `nrefs:1\\|case:lc`
    """
    return code(text).replace("|", "\\|")


def metrics_of(scores: Scores) -> dict[str, float]:
    """The numbers of a test set that are scores: no counts, no settings."""
    return {
        name: value
        for name, value in scores.items()
        if type(value) in (int, float) and name != "n" and not name.startswith("n_")
    }


def _name(run: Any) -> str:
    return one_line(run.folder.path.resolve().name)


def _number(value: float) -> str:
    """Four digits that count."""
    return f"{value:.4g}"


def _count(scores: Scores) -> str:
    """How many examples were scored."""
    return str(scores["n"]) if type(scores.get("n")) is int else UNKNOWN


# ------------------------------------------------------------------ front matter


def _front_matter(
    run: Any, scores: Mapping[str, Scores], license_name: str, datasets: Sequence[str]
) -> dict[str, Any]:
    hub_task = TASKS[run.task].hub_task
    names = list(dict.fromkeys(name for one in scores.values() for name in metrics_of(one)))
    optional = {
        "language": _languages(run),
        "pipeline_tag": hub_task,
        "datasets": list(datasets),
        "metrics": list(map(one_line, names)),
    }
    head = {
        "license": license_name,
        "library_name": "regard",
        "tags": [*dict.fromkeys(["regard", run.task, str(run.recipe.model.preset)])],
        **{field: value for field, value in optional.items() if value},
    }
    if scores:
        results = [_result(run, name, one) for name, one in scores.items()]
        head["model-index"] = [{"name": _name(run), "results": results}]
    return head


def _result(run: Any, name: str, scores: Scores) -> dict[str, Any]:
    """One test set as an entry of a hub's table of results."""
    data = run.recipe.data
    files = data.test or data.valid or data.train
    named = UNKNOWN if files is None else " and ".join(map(one_line, _file_names(files)))
    about, split = named if data.world is None else data.world, one_line(name)
    metrics = []
    for metric, value in metrics_of(scores).items():
        signature = scores.get(f"{metric}_signature")
        said = {} if signature is None else {"args": {"signature": one_line(str(signature))}}
        known = one_line(metric)
        metrics.append({"type": known, "name": known, "value": value, **said})
    return {
        "task": {"type": TASKS[run.task].hub_task or run.task, "name": run.task},
        "dataset": {"name": f"{about}, {split}", "type": about, "split": split},
        "metrics": metrics,
    }


def _languages(run: Any) -> list[str]:
    """Codes of the languages that it reads and writes, where they are known."""
    data, facts = run.recipe.data, run.facts()
    of_captions = facts.get("language")
    named: list[Any] = facts.get("languages", [of_captions])
    spoken = data.world is None or bool(WORLDS[data.world].directions)
    if of_captions is None and not spoken:
        return []
    if TRANSLATE not in TASKS[run.task].verbs:  # then the direction of files is nobody's word
        named = named[:1] if data.world is not None else []
    return [one for one in dict.fromkeys(named) if one not in (None, UNDETERMINED)]


# ------------------------------------------------------------------ sections


def _summary(run: Any) -> str:
    facts = run.facts()
    spoken = _languages(run)
    between = f" ({' to '.join(spoken)})" if spoken else ""
    preset = code(str(facts.get("preset") or UNKNOWN))
    parameters = f"{facts['parameters']:,} parameters"
    return f"A {preset} model of {parameters} for {code(run.task)}{between}, a run of Regard."


def _data(run: Any) -> Iterator[str]:
    data = run.recipe.data
    if data.world is not None:
        size = "as many as it makes" if data.n_train is None else f"{data.n_train:,}"
        yield f"The built-in world {code(data.world)} of Regard, from seed {data.world_seed};"
        yield f"training examples: {size}. It is made by rules and is nobody's text."
        return
    named = [("train", one.train) for one in data.mix or ()] or [("train", data.train)]
    named += [("valid", data.valid), ("test", data.test)]
    told = [f"- {split}: {_files(files)}" for split, files in named if files is not None]
    yield from told or ["Unknown: the run folder names no training data."]
    if told:
        yield ""
        yield "Where the files come from, and under which terms, the run folder does not say."


def _files(files: Files) -> str:
    return " and ".join(map(code, _file_names(files)))


def _file_names(files: Files) -> list[str]:
    """Names alone: folders are of somebody's machine."""
    return [PurePath(path).name for path in ([files] if isinstance(files, str) else files)]


def _scores(scores: Mapping[str, Scores]) -> Iterator[str]:
    if not scores:
        yield "None: the run folder holds no scores.json, so nothing was measured."
        return
    yield "| test set | examples | metric | value | signature |"
    yield "|---|--:|---|--:|---|"
    for name, one in scores.items():
        for metric, value in metrics_of(one).items():
            signature = one.get(f"{metric}_signature", one.get(f"{metric}_by"))
            cells = [cell(name), _count(one), cell(metric), _number(value)]
            said = "" if signature is None else cell(str(signature))
            yield f"| {' | '.join(cells)} | {said} |"
    parts = [row for name, one in scores.items() for row in _parts(name, one)]
    if parts:
        yield from ("", "| part of a test set | | examples | scores |", "|---|---|--:|---|", *parts)


def _parts(name: str, scores: Scores) -> Iterator[str]:
    """Rows of scores of parts of a test set: by length, by tag, by kind."""
    for key, parts in scores.items():
        for part, found in _named_parts(parts):
            found_there = metrics_of(found).items()
            metrics = ", ".join(f"{cell(one)} {_number(x)}" for one, x in found_there)
            if metrics:
                yield f"| {cell(name)}, {cell(key)} | {cell(part)} | {_count(found)} | {metrics} |"


def _named_parts(parts: Any) -> Iterable[tuple[str, Scores]]:
    """Those of one entry of a test set's scores, if it has any."""
    if isinstance(parts, dict):
        return [(part, x) for part, x in parts.items() if isinstance(x, dict) and "n" in x]
    if not isinstance(parts, list):
        return []
    found = [dict(one) for one in parts if isinstance(one, dict) and "n" in one]
    return [(f"{one.pop('low', '')}–{one.pop('high', '')}", one) for one in found]


def _cost(measured: Mapping[str, Any], ended: str | None) -> Iterator[str]:
    known = {name: measured[name] for name in COSTS if measured.get(name) is not None}
    for name, value in known.items():
        told, form = COSTS[name]
        yield f"- {told}: {value:{form}}"
    if ended is not None:
        yield f"- training ended: {code(ended)}"
    if not known:
        yield "- training: unknown"
    hardware = measured.get("hardware")
    yield f"- hardware: {UNKNOWN if hardware is None else code(hardware)}"


def _usage(run: Any) -> Iterator[str]:
    verb = TASKS[run.task].verb
    given = "picture.png" if verb.reads_files else "a text"
    yield "```sh"
    yield f"echo '{given}' | regard {verb.name} RUN"
    yield "regard serve RUN"
    yield "```"
    yield ""
    yield "RUN is the path of the run folder. In Python:"
    yield ""
    yield "```python"
    yield "import regard"
    yield ""
    yield 'run = regard.load("RUN")'
    if hasattr(run, verb.name):
        yield f"run.{verb.name}({given!r})"
    yield "```"
    if run.recipe.plugins:
        yield ""
        named = ", ".join(map(code, run.recipe.plugins))
        yield f"It needs plug-ins, by `--plugin`: {named}."


def _their_usage(theirs: TheirClasses) -> Iterator[str]:
    yield "```python"
    yield f"from transformers import {theirs.reader}, {theirs.model}"
    yield ""
    yield f'reader = {theirs.reader}.from_pretrained("DIR")'
    yield f'model = {theirs.model}.from_pretrained("DIR")'
    yield "```"
    yield ""
    yield "DIR is the folder that holds this card."


def _limits(run: Any, scores: Mapping[str, Scores]) -> Iterator[str]:
    yield from _settings_limits(run)
    if len(scores) > 1:
        yield from _beside_first(scores)
    yield "- One training, with one seed: how far another one's scores would differ is unknown."
    yield "- What stands in no table here was not measured: other texts, bias, safety."


def _settings_limits(run: Any) -> Iterator[str]:
    """What the model cannot take, by its settings."""
    longest = getattr(run.model.config, "longest", None)
    if longest is not None:
        yield f"- It reads no more than {longest:,} tokens."
    reader = run.reader
    if reader is not None and reader.kind != "bpe":
        kind = {"word": "words", "char": "characters"}[reader.kind]
        yield f"- It knows {reader.n_vocab:,} {kind}, special ones included, and no others."
    if reader is not None and reader.lowercase:
        yield "- It reads capitals as small letters."
    labels = run.facts().get("labels")
    if labels:
        shown = ", ".join(map(code, labels)) if len(labels) <= SHOWN else "see labels.json"
        yield f"- It knows {len(labels):,} labels, and no others: {shown}."


def _beside_first(scores: Mapping[str, Scores]) -> Iterator[str]:
    """The first score of every other test set beside that of the first."""
    (first, wanted), *others = ((name, metrics_of(one)) for name, one in scores.items())
    for name, found in others:
        metric = next((metric for metric in wanted if metric in found), None)
        if metric is not None:
            here, there = _number(found[metric]), _number(wanted[metric])
            yield f"- On {code(name)} its {code(metric)} is {here}; on {code(first)} it is {there}."
