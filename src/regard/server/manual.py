"""``/docs``: what can be asked, as one plain page made from the OpenAPI schema.

The usual viewers load their scripts from elsewhere; this page needs nothing but itself.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.responses import HTMLResponse, Response

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem;
  color-scheme: light dark }
h2 { font-size: 1.1rem; margin: 2rem 0 0 } code, pre { font-size: .85rem }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8888; border-radius: .3rem }
"""


def add_manual(app: FastAPI) -> None:
    """Add ``/docs``. The page is made when it is first asked for, as the schema is."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(manual(app.openapi()))


def manual(schema: dict[str, Any]) -> str:
    """An OpenAPI schema as a page to read."""
    title = escape(schema["info"]["title"])
    operations = [
        _operation(path, method, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    parts = schema.get("components", {}).get("schemas", {})
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{escape(schema['info'].get('description', ''))}</p>"
        f'<p>For programs: <a href="/openapi.json">openapi.json</a> · <a href="/">the page</a></p>'
        f"{''.join(operations)}<h2>Schemas</h2>{''.join(map(_schema, parts.items()))}</html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {})
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{escape(operation.get('summary', ''))}</p>"
        f"{''.join(map(_parameter, operation.get('parameters', ())))}"
        f"{''.join(f'<p>Body: {escape(kind)}</p>' for kind in body)}"
        f"{''.join(map(_code, [one['schema'] for one in body.values()][:1]))}"
    )


def _parameter(parameter: dict[str, Any]) -> str:
    needed = "needed" if parameter.get("required") else "may be left out"
    return (
        f"<p><code>{escape(parameter['name'])}</code> in {escape(parameter['in'])}, {needed}</p>"
        f"{_code(parameter['schema'])}"
    )


def _schema(named: tuple[str, Any]) -> str:
    name, schema = named
    return f"<details><summary>{escape(name)}</summary>{_code(schema)}</details>"


def _code(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"
