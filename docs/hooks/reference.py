"""Pages of reference, written from the program itself while the site is built."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer.main
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import regard
from regard.cli.app import make_app
from regard.cli.examples import EXAMPLES
from regard.recipes.recipe import builtin_recipes, recipes_by_preset
from regard.tasks.recipe import Recipe

Schema = Mapping[str, Any]
SHOWN = ("regard.tasks.look.Look", "regard.lab.result.Result")
"""What public names give and a reader meets, beside the names themselves."""
SERVED: Mapping[str, Mapping[str, Any]] = {
    "copy": {"n_train": 200},
    "gpt": {"n_train": 200},
    "sentiment": {"n_train": 200},
    "search": {"n_train": 200},
}
"""Recipes of runs whose servers are asked for their paths; each is trained for one step."""


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


def _settings_table(kind: Schema) -> str:
    rows = [
        [_code(name), _kind(one), _default(one), one.get("description", "")]
        for name, one in kind.get("properties", {}).items()
    ]
    return table(["setting", "type", "default", "what it is"], rows) if rows else ""


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
    if "anyOf" in one:
        return " or ".join(dict.fromkeys(_kind(part) for part in one["anyOf"]))
    word = str(one.get("type", "any"))
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {one[key]}" for key, sign in signs.items() if key in one]
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


def http() -> str:
    """The paths of servers on runs of several tasks, from their OpenAPI schemas."""
    found: dict[tuple[str, str], tuple[Schema, Schema, list[str]]] = {}
    for recipe, changes in SERVED.items():
        schema = _openapi(recipe, changes)
        for path, methods in schema["paths"].items():
            for method, told in methods.items():
                one = found.setdefault((path, method.upper()), (told, schema, []))
                one[2].append(recipe)
    parts = [
        "# HTTP",
        "`regard serve RUN` answers these. A server also shows them at `/docs`, with a command to "
        "try each, and as OpenAPI at `/openapi.json`. Which there are depends on what the run "
        f"does; below are those of runs of {', '.join(_code(name) for name in SERVED)}.",
    ]
    for (path, method), (told, schema, kinds) in sorted(found.items()):
        parts += [f"## {method} {path}", told.get("description") or told.get("summary", "")]
        if len(kinds) < len(SERVED):
            parts.append(f"Runs such as {', '.join(_code(name) for name in kinds)}.")
        parts.append(_fields(told, schema))
    return "\n\n".join(part for part in parts if part)


def _openapi(recipe: str, changes: Mapping[str, Any]) -> Schema:
    from regard.server.app import make_app as make_server

    logging.getLogger("regard").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        run = regard.train(recipe, out=Path(folder) / "run", max_steps=1, **changes)
        return make_server(run).openapi()


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


def _component(reference: str, schema: Schema) -> Schema:
    return schema["components"]["schemas"][reference.rpartition("/")[2]]
