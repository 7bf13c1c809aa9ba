"""``/translate``, ``/detect`` and ``/languages`` as LibreTranslate has them.

So that its clients work. Forms and JSON are taken alike.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from regard.server.answers import RefusedError, as_json
from regard.server.fields import Numbered, texts
from regard.server.guards import bearer, check_key
from regard.server.limits import MAX_ALTERNATIVES, MAX_CHARACTERS, MAX_NAME, MAX_TEXTS
from regard.server.lines import alternatives, joined
from regard.server.reading import body_of, fields_of
from regard.server.service import Service

NAMES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian"}
"""Languages by code; one that is not here is called by its code."""


Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Texts = Annotated[
    Text | Annotated[list[Text], Field(max_length=MAX_TEXTS)], BeforeValidator(texts())
]
Code = Annotated[str, Field(max_length=MAX_NAME)]


class DetectRequest(Numbered):
    """Whose language is asked. Fields that are not known here are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: Texts = Field(description="A text, or a list of texts; each line is a sentence.")
    api_key: str | None = Field(None, max_length=MAX_NAME, description="If the server has one.")

    @property
    def texts(self) -> list[str]:
        """The texts, one or many."""
        return [self.q] if isinstance(self.q, str) else self.q


class TranslateRequest(DetectRequest):
    """What is to be translated. Fields that are not known here are ignored."""

    source: Code = Field(description="Code of its language, or auto.")
    target: Code = Field(description="Code of the language wanted.")
    format: Literal["text"] = Field("text", description="Markup is text like any other.")
    alternatives: int = Field(
        0, ge=0, le=MAX_ALTERNATIVES, description="So many other translations, if there are."
    )


def translate_routes(service: Service) -> APIRouter:
    """The three paths, for one run."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post(
        "/translate",
        summary="Translate a text or a list of texts, line by line.",
        openapi_extra={"requestBody": body_of(TranslateRequest)},
        responses={400: {"description": "A language that this run does not translate."}},
    )
    async def translate(request: Request) -> Response:
        asked = await fields_of(request, TranslateRequest)
        check_key(service.api_key, bearer(request), asked.api_key)
        _check_languages(asked, *service.languages)
        lines = service.check_lines(asked.texts)
        return _json(await _translated(service, asked, lines))

    @router.post(
        "/detect",
        summary="The language of a text: a run reads one, so there is nothing to guess.",
        openapi_extra={"requestBody": body_of(DetectRequest)},
    )
    async def detect(request: Request) -> Response:
        asked = await fields_of(request, DetectRequest)
        check_key(service.api_key, bearer(request), asked.api_key)
        found = [[_detected(service.languages[0])] for _ in asked.texts]
        return _json(found if isinstance(asked.q, list) else found[0])

    @router.get("/languages", summary="What can be translated into what.")
    async def languages() -> list[dict[str, Any]]:
        source, target = service.languages
        targets = {source: [target], target: []}
        return [
            {"code": code, "name": NAMES.get(code, code), "targets": into}
            for code, into in targets.items()
        ]

    return router


def _json(value: Any) -> Response:
    return Response(as_json(value), media_type="application/json")


def _check_languages(asked: TranslateRequest, source: str, target: str) -> None:
    if asked.source not in (source, "auto"):
        raise RefusedError(400, f"this run reads {source}; source must be {source} or auto")
    if asked.target != target:
        raise RefusedError(400, f"this run writes {target}; target must be {target}")


async def _translated(
    service: Service, asked: TranslateRequest, lines: list[str]
) -> dict[str, Any]:
    """The answer: one for one, many for many."""
    worker, n = service.worker, asked.alternatives
    said = await worker.translate(lines)
    answer: dict[str, Any] = {"translatedText": joined(asked.texts, said)}
    if asked.source == "auto":
        answer["detectedLanguage"] = [_detected(service.languages[0]) for _ in asked.texts]
    if n:
        tried = await worker.call(partial(service.run.translate, lines, n_best=n + 1))
        answer["alternatives"] = alternatives(asked.texts, said, tried, n)
    if isinstance(asked.q, list):
        return answer
    return {name: values[0] for name, values in answer.items()}


def _detected(language: str) -> dict[str, Any]:
    return {"confidence": 100, "language": language}
