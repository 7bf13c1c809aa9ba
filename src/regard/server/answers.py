"""Every refusal looks alike: a status, and ``{"error": "why"}`` as LibreTranslate has it."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from regard.core.errors import ConfigError, DataError, ShapeError
from regard.server.batcher import BusyError
from regard.server.complaints import problems

RETRY_AFTER = "1"
"""Seconds after which a busy server may be asked again."""


class RefusedError(Exception):
    """The request cannot be answered, and the client may know why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def as_json(value: Any) -> bytes:
    """Compact JSON in ASCII: half characters and markup survive every way it may go."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def json_response(body: bytes) -> Response:
    """An answer that was made into JSON before."""
    return Response(body, media_type="application/json")


def refusal(status: int, why: str) -> Response:
    """A response of the given status; a busy server says when to come back."""
    headers = {503: {"Retry-After": RETRY_AFTER}, 401: {"WWW-Authenticate": "Bearer"}}
    return Response(
        as_json({"error": why}),
        status_code=status,
        headers=headers.get(status),
        media_type="application/json",
    )


def add_refusals(app: FastAPI) -> None:
    """Turn the errors that a client can cause into refusals. All others are the monitor's."""

    async def refused(_request: Request, error: Exception) -> Response:
        return refusal(error.status if isinstance(error, RefusedError) else 422, str(error))

    async def busy(_request: Request, error: Exception) -> Response:
        return refusal(503, str(error))

    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = error.errors()
        broken = any(one["type"] == "json_invalid" for one in found)
        return refusal(400 if broken else 422, problems(found))

    async def http(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = refusal(error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        return response

    for kind in (RefusedError, ConfigError, DataError, ShapeError):
        app.add_exception_handler(kind, refused)
    app.add_exception_handler(BusyError, busy)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
