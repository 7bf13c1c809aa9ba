"""``/docs``: what can be asked, as one plain page made from the OpenAPI schema.

The usual viewers load their scripts from elsewhere; this page needs nothing but itself. Each path
has a command to try it with, and its fields in words.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from starlette.responses import HTMLResponse, Response

from regard.server.api import attentions, verb_path
from regard.server.service import NO_PICTURE, Service, typed_fields
from regard.tasks.verb import Verb

Schema = Mapping[str, Any]
STREAMS = ("/api/stream", "/api/generate")


def add_docs(app: FastAPI, service: Service) -> None:
    """Add ``/docs``. The page is made when it is asked for, with the address that was asked.

    Finding examples takes a moment, so that is done once, and holds up no other request.
    """
    once = cache(lambda: samples(service))

    async def docs(request: Request) -> Response:
        made = once.cache_info().currsize > 0  # then it waits for nobody's work
        tried = once() if made else await service.worker.call(once)
        keyed = service.keys.asked_for
        return HTMLResponse(docs_page(app.openapi(), tried, request.url.netloc, keyed=keyed))

    app.add_api_route("/docs", docs, methods=["GET", "HEAD"], include_in_schema=False)


def samples(service: Service) -> Mapping[str, Schema]:
    """Path → fields that this very run can answer; a path that takes none has none.

    Where a key is asked for, they hold nothing of the run's data: this page needs none.
    """
    example = service.first_of([] if service.keys.asked_for else service.examples())
    if service.reads_pictures:
        example = {**example, "text": NO_PICTURE}  # a small one: a command has no room for others
    text, named = example["text"], {"model": service.name}
    source, _, target = service.run.recipe.data.direction.partition("-")
    edits = [{"kind": "temperature", "value": 2}]
    first = next(iter(attentions(service, example)), {"name": "decoder.cross"})
    head = {"name": first["name"], "layer": 0, "head": 0}
    word = next(iter(text.split()), "a")
    turns = {"messages": [{"role": "user", "content": text}]}
    return {
        **{verb_path(verb): _request(verb, example) for verb in service.task.verbs},
        "/translate": {"q": text, "source": source, "target": target},
        "/detect": {"q": text},
        "/v1/models/{name}": {"name": service.name},
        "/v1/completions": {**named, "prompt": text, "max_tokens": 8},
        "/v1/chat/completions": {**named, **turns},
        "/api/chat": turns,
        "/api/chat/look": {**turns, "ids": [0], "token": 0},
        "/v1/embeddings": {**named, "input": text},
        "/api/words": {"begins": ""},
        "/api/explain": {**service.look_at(example), "edits": edits},
        "/api/importance": {**service.look_at(example), "step": 0},
        "/api/story": {**service.look_at(example), "steps": {**head, "token": 0}},
        "/api/search": {**head, "row": word, "column": word},
        "/api/read": {"text": text},
        "/api/beam": {"source": text, "n_beams": 2},
        "/api/stream": {"source": text},
    }


def _request(verb: Verb, example: Mapping[str, str]) -> Schema:
    """A verb's request made of an example: its texts go into the fields in their order."""
    texts = [example["text"], example.get("other", "another text")]
    fields = typed_fields(verb.request)
    needed = [name for name in fields if verb.request.model_fields[name].is_required()]
    wanted = [*fields][:2] if "other" in example else needed or [*fields][:1]
    read: dict[str, Callable[[str], Any]] = {"lines": str.splitlines, "json": json.loads}
    given = zip(wanted, texts, strict=False)
    return {name: read.get(fields[name], str)(text) for name, text in given}


def docs_page(schema: Schema, tried: Mapping[str, Schema], host: str, *, keyed: bool) -> str:
    """An OpenAPI schema as a page to read."""
    title = escape(schema["info"]["title"])
    parts = schema.get("components", {}).get("schemas", {})
    operations = [
        f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{escape(operation.get('summary', ''))}</p>"
        f"<pre>{escape(curl(method, path, operation, tried.get(path, {}), host, keyed))}</pre>"
        f"{_fields(operation, parts)}"
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = [
        f"<details><summary>{escape(name)}</summary>"
        f"<pre>{escape(json.dumps(part, indent=2, ensure_ascii=False))}</pre></details>"
        for name, part in parts.items()
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width">'
        f'<link rel="icon" href="/static/icon.svg">'
        f'<link rel="stylesheet" href="/static/manual.css">'
        f"<h1>{title}</h1><p>{escape(schema['info'].get('description', ''))}</p>"
        f'<p>For programs: <a href="/openapi.json">openapi.json</a> · '
        f'<a href="/">the page</a></p>'
        f"{''.join(operations)}<h2>Schemas</h2>{''.join(schemas)}</html>"
    )


def _fields(operation: Schema, parts: Schema) -> str:
    """A line a field: its name, what it is, and whether it may be left out."""
    fields = [
        (one["name"], one | one["schema"], one.get("required", False))
        for one in operation.get("parameters", ())
    ]
    content = operation.get("requestBody", {}).get("content", {})
    for one in list(content.values())[:1]:
        body = _resolved(one["schema"], parts)
        needed, known = body.get("required", ()), body.get("properties", {})
        names = sorted(known, key=lambda name: name == "api_key")  # every request may have it: last
        fields += [(name, known[name], name in needed) for name in names]
    lines = []
    for name, about, needed in fields:
        described = about.get("description") or _resolved(about, parts).get("description", "")
        said = f": {escape(described)}" if described else ""
        left_out = "" if needed else " (may be left out)"
        lines.append(f"<li><code>{escape(name)}</code>{said}{left_out}</li>")
    kinds = f"<p>Sent as {escape(' or '.join(content))}.</p>" if len(content) > 1 else ""
    return (f"<ul>{''.join(lines)}</ul>" if lines else "") + kinds


def _resolved(schema: Schema, parts: Schema) -> Schema:
    choices = [schema, *schema.get("anyOf", ())]
    named = [one["$ref"].rpartition("/")[2] for one in choices if "$ref" in one]
    return parts[named[0]] if named else schema


def curl(method: str, path: str, operation: Schema, sample: Schema, host: str, keyed: bool) -> str:
    """The command; where the server has a key, its place is shown."""
    words = ["curl"]
    inside = {name for name in sample if f"{{{name}}}" in path}
    path = path.format(**{name: sample[name] for name in inside}) if inside else path
    sample = {name: value for name, value in sample.items() if name not in inside}
    if path in STREAMS:
        words += ["-N"]  # as it comes, not at the end
    if keyed and (operation.get("security") or "requestBody" in operation):
        words += ["-H", "Authorization: Bearer KEY"]
    if method == "post":
        body = json.dumps(sample, ensure_ascii=False)
        words += ["-H", "Content-Type: application/json", "-d", body, f"{host}{path}"]
    else:
        words += [f"{host}{path}?{urlencode(sample)}" if sample else f"{host}{path}"]
    return shlex.join(words)
