"""``/translate`` and ``/languages`` as LibreTranslate has them, so that its clients work."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from regard.server.answers import RefusedError, as_json, problems
from regard.server.guards import bearer, check_key
from regard.server.limits import MAX_CHARACTERS, MAX_NAME, MAX_TEXTS
from regard.server.service import Service

NAMES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian"}
"""Languages by code; one that is not here is called by its code."""

Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Code = Annotated[str, Field(max_length=MAX_NAME)]


class TranslateRequest(BaseModel):
    """What is to be translated. Fields that are not known here are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: Text | Annotated[list[Text], Field(max_length=MAX_TEXTS)] = Field(
        description="A text, or a list of texts."
    )
    source: Code = Field(description="Code of its language, or auto.")
    target: Code = Field(description="Code of the language wanted.")
    format: Literal["text"] = Field("text", description="Markup is text like any other.")
    api_key: str | None = Field(None, max_length=MAX_NAME, description="If the server has one.")

    @property
    def texts(self) -> list[str]:
        """The texts, one or many."""
        return [self.q] if isinstance(self.q, str) else self.q


_SCHEMA = {"schema": TranslateRequest.model_json_schema()}
_BODY = {
    "required": True,
    "content": {"application/json": _SCHEMA, "application/x-www-form-urlencoded": _SCHEMA},
}


def translate_routes(service: Service) -> APIRouter:
    """Both paths, for one run."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post(
        "/translate",
        summary="Translate a text or a list of texts.",
        openapi_extra={"requestBody": _BODY},
        responses={400: {"description": "A language that this run does not translate."}},
    )
    async def translate(request: Request) -> Response:
        asked = await _asked(request)
        check_key(service.api_key, bearer(request), asked.api_key)
        _check_languages(asked, *service.languages)
        service.check_lengths(asked.texts, at_most=service.limits.tokens)
        found = await service.worker.translate(asked.texts)
        return Response(_answer(asked, found, service.languages[0]), media_type="application/json")

    @router.get("/languages", summary="What can be translated into what.")
    async def languages() -> list[dict[str, Any]]:
        source, target = service.languages
        targets = {source: [target], target: []}
        return [
            {"code": code, "name": NAMES.get(code, code), "targets": into}
            for code, into in targets.items()
        ]

    return router


async def _asked(request: Request) -> TranslateRequest:
    """The request, from JSON or a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        fields = _read_json(await request.body())
    elif kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        fields = await _read_form(request)
    else:
        raise RefusedError(415, "send application/json or a form")
    try:
        return TranslateRequest.model_validate(fields)
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


def _check_languages(asked: TranslateRequest, source: str, target: str) -> None:
    if asked.source not in (source, "auto"):
        raise RefusedError(400, f"this run reads {source}; source must be {source} or auto")
    if asked.target != target:
        raise RefusedError(400, f"this run writes {target}; target must be {target}")


def _answer(asked: TranslateRequest, found: list[str], source: str) -> bytes:
    """One for one, many for many. A run reads one language, so there is nothing to guess."""
    many = not isinstance(asked.q, str)
    answer: dict[str, Any] = {"translatedText": found if many else found[0]}
    if asked.source == "auto":
        detected = {"confidence": 100, "language": source}
        answer["detectedLanguage"] = [detected] * len(found) if many else detected
    return as_json(answer)
