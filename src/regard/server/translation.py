"""What only a translator answers: LibreTranslate's paths, ``/api/stream`` and ``/api/beam``.

``/translate``, ``/detect`` and ``/languages`` are as LibreTranslate has them, so that its clients
work; forms and JSON are taken alike. A text has a sentence on each line: they are translated one
by one, and lines stay lines.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

import torch
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from regard.decoding.hypothesis import Hypothesis
from regard.server.batcher import pieces
from regard.server.errors import (
    UNMARKED_JSON,
    RefusedError,
    as_json,
    is_json,
    json_response,
    problems,
)
from regard.server.limits import MAX_ALTERNATIVES, MAX_TEXTS
from regard.server.middleware import bearer
from regard.server.schemas import listed, texts_check
from regard.server.service import EVENT_STREAM, Event, Service, stream_response
from regard.tasks.requests import MAX_CHARACTERS, MAX_LINES, MAX_NAME, Name, Numbered, Text
from regard.tasks.translating import target_ids
from regard.tasks.translator import Run
from regard.tasks.verbs import check_source, told_beside

LANGUAGE_NAMES = {"de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian"}
"""Languages by code; one that is not here is called by its code."""

Texts = Annotated[
    Text | Annotated[list[Text], Field(max_length=MAX_TEXTS)], BeforeValidator(texts_check())
]
Fields = TypeVar("Fields", bound=BaseModel)


class DetectRequest(Numbered):
    """Whose language is asked. Fields that are not known here are ignored."""

    model_config = ConfigDict(extra="ignore")

    q: Texts = Field(description="A text, or a list of texts; each line is a sentence.")
    api_key: str | None = Field(None, max_length=MAX_NAME, description="If the server has one.")


class LibreTranslateRequest(DetectRequest):
    """What is to be translated. Fields that are not known here are ignored."""

    model_config = ConfigDict(title="TranslateRequest")

    source: Name = Field(description="Code of its language, or auto.")
    target: Name = Field(description="Code of the language wanted.")
    format: Literal["text"] = Field("text", description="Markup is text like any other.")
    prefix: Texts = Field(
        "", description="How a translation begins; a list has one for each text of q."
    )
    alternatives: int = Field(
        0, ge=0, le=MAX_ALTERNATIVES, description="Number of other translations, if there are."
    )


# ------------------------------------------------------------------ LibreTranslate


def libretranslate_routes(service: Service) -> APIRouter:
    """``/translate``, ``/detect`` and ``/languages``; they look for the key in forms, too."""
    router = APIRouter(tags=["LibreTranslate"])
    source, target = service.run.recipe.data.direction.split("-")
    detected = {"confidence": 0, "language": source}  # nothing is measured: it is all a run reads

    @router.post(
        "/translate",
        summary="Translate a text or a list of texts, line by line: each line is read as one "
        "sentence. Words that the run has never seen are told as unknown, lines read otherwise "
        "than they were sent as changed.",
        openapi_extra={"requestBody": _form_or_json(LibreTranslateRequest)},
        responses={400: {"description": "A language that this run does not translate."}},
    )
    async def translate(request: Request) -> Response:
        asked = await _fields_of(request, LibreTranslateRequest)
        service.keys.check(bearer(request), asked.api_key)
        if asked.source not in (source, "auto"):
            raise RefusedError(400, f"this run reads {source}; source must be {source} or auto")
        if asked.target != target:
            raise RefusedError(400, f"this run writes {target}; target must be {target}")
        n, texts = asked.alternatives, listed(asked.q)
        lines = _checked_lines(service, texts, each=1 + n)
        begun = line_prefixes(texts, asked.prefix)
        if any(begun):
            translated = await _in_pieces(service, lines, begun)
        else:
            translated = await service.worker.translate(lines)
        answer: dict[str, Any] = {"translatedText": joined(texts, translated)}
        if asked.source == "auto":
            answer["detectedLanguage"] = [detected for _ in texts]
        if n:
            n_best = await _in_pieces(service, lines, begun, n_best=n + 1)
            answer["alternatives"] = alternatives(texts, translated, n_best, n)
        answer |= _told(service.run, texts)
        if not isinstance(asked.q, list):  # one for one, many for many
            answer = {name: values[0] for name, values in answer.items()}
        return json_response(as_json(answer))

    @router.post(
        "/detect",
        summary="The one language that the run reads: nothing is guessed, so the confidence is 0.",
        openapi_extra={"requestBody": _form_or_json(DetectRequest)},
    )
    async def detect(request: Request) -> Response:
        asked = await _fields_of(request, DetectRequest)
        service.keys.check(bearer(request), asked.api_key)
        found = [[detected] for _ in listed(asked.q)]
        return json_response(as_json(found if isinstance(asked.q, list) else found[0]))

    @router.get("/languages", summary="What can be translated into what.")
    async def languages() -> list[dict[str, Any]]:
        return [
            {"code": code, "name": LANGUAGE_NAMES.get(code, code), "targets": into}
            for code, into in {source: [target], target: []}.items()
        ]

    return router


def _told(run: Run, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Of each text its ``unknown`` words and the lines read otherwise, where a text has any."""
    found = [told_beside(run, *nonempty_lines([text])) for text in texts]
    several = {name: [one[name] for one in found] for name in ("unknown", "changed")}
    return {name: values for name, values in several.items() if any(values)}


def _form_or_json(kind: type[BaseModel]) -> dict[str, Any]:
    """What the OpenAPI schema says of a body that is either."""
    schema = {"schema": kind.model_json_schema()}
    content = {"application/json": schema, "application/x-www-form-urlencoded": schema}
    return {"required": True, "content": content}


async def _fields_of(request: Request, kind: type[Fields]) -> Fields:
    """The fields of a request, from JSON or a form."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent == "application/json":
        try:
            fields = json.loads(await request.body())
        except (ValueError, RecursionError):  # broken, no UTF-8, an endless number, too deep
            raise RefusedError(400, "the body is not JSON") from None
    elif is_json(await request.body()):
        raise RefusedError(415, UNMARKED_JSON)
    elif sent in ("application/x-www-form-urlencoded", "multipart/form-data"):
        fields = await _read_form(request)
    else:
        raise RefusedError(415, "send application/json or a form")
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise RefusedError(422, problems(error.errors())) from None


async def _read_form(request: Request) -> dict[str, Any]:
    """The fields; one that comes several times is a list."""
    try:
        async with request.form() as form:
            several = {name: form.getlist(name) for name in form}
    except HTTPException:
        raise
    except Exception:  # parsers of forms raise whatever they like
        raise RefusedError(400, "the body is not a form") from None
    return {name: values[0] if len(values) == 1 else values for name, values in several.items()}


async def _in_pieces(
    service: Service, lines: Sequence[str], begun: Sequence[str], n_best: int | None = None
) -> list[Any]:
    """What the run makes of the lines; between two pieces others have their turn."""
    cuts = pieces(lines, service.limits, each=n_best or 1)
    works = [
        partial(service.run.translate, lines[cut], prefix=begun[cut], n_best=n_best) for cut in cuts
    ]
    return [one for some in await service.worker.each(works) for one in some]


# ------------------------------------------------------------------ lines of texts


def lines_of(text: str) -> list[str]:
    """The lines of a text, whatever ends them.

    >>> lines_of("a b\\r\\n\\nc")
    ['a b', '', 'c']
    """
    return text.replace("\r\n", "\n").split("\n")


def nonempty_lines(texts: Iterable[str]) -> list[str]:
    """The lines of all texts that have something in them."""
    return [line for text in texts for line in lines_of(text) if line.strip()]


def joined(texts: Iterable[str], translated: Iterable[str]) -> list[str]:
    """The texts with a translation in place of each of their lines that are not empty.

    >>> joined(["a\\n\\nb", "c"], ["A", "B", "C"])
    ['A\\n\\nB', 'C']
    """
    left = iter(translated)
    return ["\n".join(next(left) if line.strip() else "" for line in lines_of(t)) for t in texts]


def line_prefixes(texts: Sequence[str], prefix: str | Sequence[str]) -> list[str]:
    """How the translation of each line that is not empty begins: the first of a text as asked.

    >>> line_prefixes(["a\\n\\nb", "c"], ["A", ""]), line_prefixes(["a\\nb", "c"], "A")
    (['A', '', ''], ['A', '', 'A'])
    """
    begun = [prefix] * len(texts) if isinstance(prefix, str) else prefix
    if len(begun) != len(texts):
        why = f"prefix: {len(begun)} texts for the {len(texts)} of q; send one for each"
        raise RefusedError(422, why)
    pairs = zip(map(nonempty_lines, ([text] for text in texts)), begun, strict=True)
    return [first if i == 0 else "" for lines, first in pairs for i, _ in enumerate(lines)]


def alternatives(
    texts: Sequence[str], best: Sequence[str], n_best: Sequence[Sequence[str]], n: int
) -> list[list[str]]:
    """Up to n other translations of each text, from several of each line, best first.

    A line that has no more of them stays as its best one.

    >>> alternatives(["a\\nb"], ["A", "B"], [["A", "X", "Y"], ["Z", "B"]], 2)
    [['X\\nZ', 'Y\\nB']]
    """
    others = [
        [one for one in dict.fromkeys(several) if one != first][:n]
        for first, several in zip(best, n_best, strict=True)
    ]
    whole = joined(texts, best)
    versions = [
        joined(texts, [o[i] if i < len(o) else b for o, b in zip(others, best, strict=True)])
        for i in range(n)
    ]
    return [
        list(dict.fromkeys(version[k] for version in versions if version[k] != whole[k]))
        for k in range(len(texts))
    ]


def _checked_lines(service: Service, texts: Iterable[str], each: int = 1) -> list[str]:
    """The lines of the texts to translate ``each`` so often; what is too much is refused."""
    lines = nonempty_lines(texts)
    if len(lines) > MAX_LINES:
        why = f"there are {len(lines)} lines, at most {MAX_LINES} go in; send fewer at once"
        raise RefusedError(422, why)
    for line in lines:
        check_source(service.run, service.limits.tokens, line)
    n, most = sum(map(len, service.run.source_ids(lines))), service.limits
    if n * each > most.new_tokens:
        why = f"{n:,} tokens in {each} versions are {n * each:,}, and one request may ask for"
        remedy = "send fewer lines at once, or ask for fewer alternatives"
        raise RefusedError(422, f"{why} {most.new_tokens:,}; {remedy}")
    return lines


# ------------------------------------------------------------------ as it is decoded


def decoding_routes(service: Service) -> APIRouter:
    """``/api/stream``: greedy search, token by token."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    run = service.run

    @router.get(
        "/stream",
        summary="Greedy search, each token as it is found, line by line.",
        response_class=StreamingResponse,
        responses=EVENT_STREAM,
    )
    async def stream(
        source: Annotated[
            str, Query(min_length=1, max_length=MAX_CHARACTERS, description="A sentence a line.")
        ],
    ) -> StreamingResponse:
        _checked_lines(service, [source])
        events, dropped = greedy_events(run, source), threading.Event()
        return await stream_response(service.worker, events, "GET /api/stream", dropped)

    return router


@torch.inference_mode()
def greedy_events(run: Run, source: str) -> Iterator[Event]:
    """``token`` events with the ``text`` so far, then ``done`` with unknown words and notes."""
    greedy = run.recipe.decode.chosen(beam=1)
    text, found = "", list[Hypothesis]()
    lines = nonempty_lines([source])
    for i, line in enumerate(lines_of(source)):
        text += "\n" if i else ""
        if not line.strip():
            continue
        ids: list[int] = []
        (read,) = run.source_ids([line])
        for number in target_ids(run.model, read, greedy, device=run.device) if read else ():
            ids.append(number)
            token = run.tokenizers.target.tokens([number])[0]
            said = text + run.tokenizers.target.decode(ids)
            yield Event({"token": token, "text": said}, "token")
        found.append(Hypothesis(ids=tuple(ids), log_prob=0.0, score=0.0, finished=True))
        text += run.text(line, found[-1])
    done = {
        "translation": text,
        **told_beside(run, *lines),
        "notes": run.length_warnings(lines, found).lines(),
    }
    yield Event(done, "done", last=True)
