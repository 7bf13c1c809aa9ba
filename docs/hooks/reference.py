"""Pages of reference, written from the program itself while the site is built."""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import regard
from regard.cli.app import make_app
from regard.cli.examples import EXAMPLES
from regard.recipes.recipe import builtin_recipes, load_recipe, recipes_by_preset
from regard.tasks.recipe import Recipe

Schema = Mapping[str, Any]
SHOWN = ("regard.tasks.look.Look", "regard.lab.result.Result")
"""What public names give and a reader meets, beside the names themselves."""
BRIEFLY = ("max_steps=1", "n_train=200")
"""How runs are trained whose servers are asked."""


class Served(NamedTuple):
    """A run whose server is asked for its paths."""

    recipe: str
    changes: tuple[str, ...] = BRIEFLY
    template: str = ""
    """For conversations."""


SERVED = {
    "copy": Served("copy"),
    "gpt": Served("gpt"),
    "gpt with a chat template": Served(
        "gpt", template="{% for one in messages %}{{ one['content'] }} {% endfor %}"
    ),
    "sentiment": Served("sentiment"),
    "search": Served("search"),
}
UNASKED = ("/api/heads",)
"""Paths whose answers take minutes."""
MOST_TOLD = 2**53
"""A bound beyond which no number of JSON is exact tells a reader nothing."""
LONGEST = 40
"""Characters of a text in an answer that is shown."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    made = {
        "command-line": command_line(),
        "settings": settings(),
        "recipes": recipes(),
        "python": python(),
        "http": http(),
    }
    for name, content in made.items():
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown.

    >>> table(["a"], [["x | y"]])
    '| a |\\n|---|\\n| x \\\\| y |'
    """
    lines = [list(head), *(list(row) for row in rows)]
    told = [f"| {' | '.join(_cell(one) for one in line)} |" for line in lines]
    return "\n".join([told[0], "|" + "---|" * len(lines[0]), *told[1:]])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


# ------------------------------------------------------------------ command line


def command_line() -> str:
    """Every command with its arguments, options and examples, from the program."""
    parts = ["# Command line", "Written from the program; `regard COMMAND --help` says the same."]
    for name in _command(None).commands:
        parts += _told(name, _command(name).commands[name])
    return "\n\n".join(parts)


def _command(asked: str | None) -> Any:
    return typer.main.get_command(make_app(asked))


def _told(name: str, command: Any, level: int = 2) -> Iterator[str]:
    """A command, or a group and its commands."""
    yield f"{'#' * level} regard {name}"
    yield (command.help or "").replace("\f", "").strip()
    inside = getattr(command, "commands", {})
    if not inside:
        context = command.make_context(f"regard {name}", [], resilient_parsing=True)
        usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
        yield f"```text\n{usage}\n```"
        told = [one.get_help_record(context) for one in command.params if not one.hidden]
        yield table(["option", "what it is"], [[_code(name), words] for name, words in told])
    if name in EXAMPLES:
        yield "```text\n" + "\n".join(EXAMPLES[name]) + "\n```"
    for one, command_inside in inside.items():
        yield from _told(f"{name} {one}", command_inside, level + 1)


# ------------------------------------------------------------------ settings


def settings() -> str:
    """The sections of a recipe and their settings, from their schema."""
    from regard.models.presets import FAMILIES, PRESETS
    from regard.models.settings import ModelConfig
    from regard.tasks.base import TASKS

    of_data = ModelConfig.FROM_DATA
    schema = Recipe.model_json_schema()
    parts = [
        "# Settings",
        "A recipe is YAML with the sections below. `--set section.key=value` changes one for a new "
        "run; a bare `key=value` will do where only one section has it. Written from the schema "
        "that `regard train --schema` prints for your editor.",
    ]
    for section, told in schema["properties"].items():
        parts += [f"## {section}", told.get("description", "")]
        if section == "task":
            parts.append(f"One of {', '.join(map(_code, TASKS))}.")
        if "$ref" in told:
            parts.append(_settings_table(_named(told["$ref"], schema)))
        if section == "model":
            families = ", ".join(f"[{name}](#family-{name})" for name in FAMILIES)
            parts.append(f"Each [preset](#models) belongs to a family: {families}.")
    for name, kind in schema["$defs"].items():
        if not _is_section(name, schema) and kind.get("properties"):
            parts += [f"## {name}", kind.get("description", ""), _settings_table(kind)]
    parts += ["## Models", "`model.preset` is one of these systems; `model.size` one of its sizes."]
    rows = [
        [_code(name), preset.summary, ", ".join(preset.sizes), _code(preset.family)]
        for name, preset in PRESETS.items()
    ]
    parts.append(table(["preset", "what it is", "sizes", "family"], rows))
    parts.append("All other settings of `model` are those of the preset's family.")
    for name, family in FAMILIES.items():
        kind = family.config.model_json_schema()
        users = {key: x for key, x in kind["properties"].items() if key not in of_data}
        named = {key: x | _values(key) for key, x in users.items()}
        parts += [f"### Family {name}", _settings_table({"properties": named})]
    return "\n\n".join(part for part in parts if part)


def _values(key: str) -> Schema:
    """What a setting of a model may be, where that is a name of a registry."""
    from regard.models.presets import NAMES

    return {"enum": list(NAMES[key])} if key in NAMES else {}


def _is_section(name: str, schema: Schema) -> bool:
    return any(told.get("$ref", "").endswith(f"/{name}") for told in schema["properties"].values())


def _named(reference: str, schema: Schema) -> Schema:
    return schema["$defs"][reference.rpartition("/")[2]]


def _settings_table(kind: Schema, called: str = "setting") -> str:
    rows = [
        [_code(name), _kind(one), _default(one), one.get("description", "")]
        for name, one in kind.get("properties", {}).items()
    ]
    return table([called, "type", "default", "what it is"], rows) if rows else ""


def _default(one: Schema) -> str:
    if "default" not in one:
        return ""
    told = json.dumps(one["default"], ensure_ascii=False)
    return _code(told) if len(told) < 60 else ""


def _kind(one: Schema) -> str:
    """A type in words, with its bounds."""
    if "$ref" in one:
        return one["$ref"].rpartition("/")[2]
    if "enum" in one:
        return " or ".join(_code(str(value)) for value in one["enum"])
    if "const" in one:
        return _code(str(one["const"]))
    if choices := one.get("anyOf") or one.get("oneOf"):
        return " or ".join(dict.fromkeys(_kind(part) for part in choices))
    word = str(one.get("type", "any"))
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    if word == "array":
        return f"list of {_kind(one.get('items', {}))}"
    bounds = [
        f"{sign} {one[key]:,.10g}"
        for key, sign in signs.items()
        if key in one and abs(one[key]) < MOST_TOLD
    ]
    return ", ".join(["none" if word == "null" else word, *bounds])


# ------------------------------------------------------------------ recipes


def recipes() -> str:
    """The built-in recipes and the systems that they train."""
    trained = {name: preset for preset, names in recipes_by_preset().items() for name in names}
    rows = [
        [_code(name), headline, _code(trained.get(name, ""))]
        for name, headline in builtin_recipes().items()
    ]
    return "\n\n".join(
        [
            "# Recipes",
            "`regard train NAME` trains one of these. Each file begins with its command, what it "
            "took and the score to expect; those of public data say which files they want "
            "(`--set folder=PATH`).",
            table(["recipe", "what it is", "preset"], rows),
        ]
    )


# ------------------------------------------------------------------ Python


def python() -> str:
    """Every public name, with its docstring."""
    homes = {f"regard.{name}": f"{regard._HOMES[name]}.{name}" for name in regard.__all__}
    homes |= {home.rpartition(".")[2]: home for home in SHOWN}
    parts = ["# Python", "`import regard` is instant: names load when they are first used."]
    for name, home in homes.items():
        told = {"heading": name, "toc_label": name, "heading_level": 2}
        parts.append(f"::: {home}\n    options: {json.dumps(told)}")
    return "\n\n".join(parts)


# ------------------------------------------------------------------ HTTP


class Shown(NamedTuple):
    """A path of a server, and what it said when it was asked."""

    told: Schema
    schema: Schema
    """The OpenAPI schema in which the path is told."""
    command: str
    answer: str
    """A JSON value, cut short; empty where the answer is none."""
    kinds: list[str]
    """Which of the served runs have it."""


def http() -> str:
    """The paths of servers on runs of several tasks, from their OpenAPI schemas and answers."""
    found: dict[tuple[str, str], Shown] = {}
    for kind in SERVED:
        for key, shown in _asked(kind):
            found.setdefault(key, shown).kinds.append(kind)
    parts = [
        "# HTTP",
        "`regard serve RUN` answers these. A server also shows them at `/docs`, with a command to "
        "try each on its own run, and as OpenAPI at `/openapi.json`. Which there are depends on "
        f"what the run does; below are those of runs of {', '.join(map(_code, SERVED))}. Answers "
        "are cut short: … stands for more of the same. Where the server has a key, send "
        "`Authorization: Bearer KEY`.",
    ]
    named: dict[str, Schema] = {}
    for (path, method), shown in sorted(found.items()):
        parts += [f"## {method} {path}", shown.told.get("description") or shown.told["summary"]]
        if len(shown.kinds) < len(SERVED):
            parts.append(f"Runs such as {', '.join(map(_code, shown.kinds))}.")
        parts += [_fields(shown.told, shown.schema), f"```text\n{shown.command}\n```"]
        if shown.answer:
            parts.append(f"```json\n{shown.answer}\n```")
        named |= _objects(shown.told.get("requestBody"), shown.schema)
    parts += [
        "## Objects",
        "What fields of requests hold that are objects themselves. `name` is an attention as "
        "`/api/info` lists them, such as `decoder.cross`; `layer`, `head`, `key` and `position` "
        "count from 0.",
    ]
    for name, kind in sorted(named.items()):
        parts += [f"### {name}", kind.get("description", ""), _settings_table(kind, "field")]
    return "\n\n".join(part for part in parts if part)


def _asked(kind: str) -> Iterator[tuple[tuple[str, str], Shown]]:
    """Path and method, and what a server on a run of this kind says there."""
    from starlette.testclient import TestClient

    from regard.runs.train import train
    from regard.server.app import make_app as make_server
    from regard.server.docs import curl, samples
    from regard.tasks.opening import load
    from regard.text.chat import TEMPLATE

    logging.getLogger("regard").setLevel(logging.ERROR)  # runs of one step do nothing well
    served, host = SERVED[kind], "127.0.0.1:8000"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo"
        train(load_recipe(served.recipe, served.changes), path)
        if served.template:
            (path / TEMPLATE).write_text(served.template, encoding="utf-8")
        app = make_server(load(path, device="cpu"))
        schema, given = app.openapi(), samples(app.state.service)
        with TestClient(app, base_url=f"http://{host}") as client:
            for where, methods in schema["paths"].items():
                for method, told in methods.items():
                    sample = given.get(where, {})
                    command = curl(method, where, told, sample, host, False)
                    content = [*told["responses"]["200"].get("content", {})]
                    plain = content == ["application/json"] and where not in UNASKED
                    answer = _answer(client, method, where, sample) if plain else ""
                    yield (where, method.upper()), Shown(told, schema, command, answer, [])


def _answer(client: Any, method: str, path: str, sample: Schema) -> str:
    """What a path says to a sample request, cut short."""
    inside = {name: value for name, value in sample.items() if f"{{{name}}}" in path}
    outside = {name: value for name, value in sample.items() if name not in inside}
    sent = {"json" if method == "post" else "params": outside}
    found = client.request(method, path.format(**inside), **sent)
    if not found.headers["content-type"].startswith("application/json") or found.is_error:
        return ""
    return json.dumps(cut_short(found.json()), indent=1, ensure_ascii=False)


def cut_short(value: Any, depth: int = 0) -> Any:
    """A JSON value with its first entries, so that a reader sees its form.

    >>> cut_short({"a": [1, 2, 3], "b": "x" * 99, "c": 0.123456})
    {'a': [1, '…'], 'b': 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…', 'c': 0.1235}
    """
    if isinstance(value, dict):
        return {key: "…" if depth > 3 else cut_short(x, depth + 1) for key, x in value.items()}
    if isinstance(value, list):
        first = [cut_short(one, depth + 1) for one in value[:1]]
        return [*first, *(["…"] if len(value) > 1 else [])]
    if isinstance(value, str) and len(value) > LONGEST:
        return value[:LONGEST] + "…"
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _fields(told: Schema, schema: Schema) -> str:
    """The fields that a path takes."""
    rows = [
        [_code(one["name"]), _kind(one["schema"]), "", one.get("description", "")]
        for one in told.get("parameters", ())
    ]
    for content in told.get("requestBody", {}).get("content", {}).values():
        kind = content["schema"]
        body = _component(kind["$ref"], schema) if "$ref" in kind else kind
        rows += [
            [_code(name), _kind(one), _default(one), one.get("description", "")]
            for name, one in body.get("properties", {}).items()
        ]
        break  # forms and JSON take the same fields
    return table(["field", "type", "default", "what it is"], rows) if rows else ""


def _objects(told: Any, schema: Schema, inside: bool = False) -> dict[str, Schema]:
    """The named objects in a request's fields, and those in theirs; not the body itself."""
    found: dict[str, Schema] = {}
    names = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(told)))
    for name in names:
        kind = schema["components"]["schemas"][name]
        found |= {name: kind} if inside else {}
        found |= _objects(kind.get("properties"), schema, inside=True)
    return found


def _component(reference: str, schema: Schema) -> Schema:
    return schema["components"]["schemas"][reference.rpartition("/")[2]]
