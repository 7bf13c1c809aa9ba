"""Bodies that may be JSON or a form, as LibreTranslate's clients send them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from regard.server.answers import RefusedError
from regard.server.complaints import problems

Fields = TypeVar("Fields", bound=BaseModel)


def body_of(kind: type[BaseModel]) -> dict[str, Any]:
    """What the OpenAPI schema says of such a body."""
    schema = {"schema": kind.model_json_schema()}
    content = {"application/json": schema, "application/x-www-form-urlencoded": schema}
    return {"required": True, "content": content}


async def fields_of(request: Request, kind: type[Fields]) -> Fields:
    """The fields of a request, from JSON or a form."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent == "application/json":
        fields = _read_json(await request.body())
    elif sent in ("application/x-www-form-urlencoded", "multipart/form-data"):
        fields = await _read_form(request)
    else:
        raise RefusedError(415, "send application/json or a form")
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise RefusedError(422, problems(error.errors())) from None


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # broken, no UTF-8, an endless number, too deep
        raise RefusedError(400, "the body is no JSON") from None


async def _read_form(request: Request) -> dict[str, Any]:
    """The fields; one that comes several times is a list."""
    try:
        async with request.form() as form:
            several = {name: form.getlist(name) for name in form}
    except HTTPException:
        raise
    except Exception:  # parsers of forms raise whatever they like
        raise RefusedError(400, "the body is no form") from None
    return {name: values[0] if len(values) == 1 else values for name, values in several.items()}
