"""What goes wrong with a request, and how the client is told: a status and ``{"error": "why"}``.

That is LibreTranslate's form; below ``/v1/`` the error is an object, as OpenAI's clients expect it.
The words are for people; pydantic's own speak of its types.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from regard.core.errors import ConfigError, DataError, ShapeError

RETRY_AFTER = "1"  # seconds after which a busy server may be asked again
LONE_SURROGATE = "string_unicode"  # half a character: with it, no alternative of a field fits
BODY = "the body"  # what is wrong where no field of it is
UNMARKED_JSON = "this looks like JSON: send it with Content-Type: application/json"
_MOST = 5  # problems told at once
_LONGEST_PATH = 100  # characters of one that is repeated

OPENAI = "/v1/"
"""What paths begin with whose errors are told as OpenAI tells them."""
OPENAI_CODES = {401: "invalid_api_key", 404: "unknown_url", 429: "rate_limit_exceeded"}
"""OpenAI's short word for a status, where nothing closer is known."""

_WORDS: Mapping[str, str | Callable[[Mapping[str, Any]], str]] = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "string_type": "must be a text",
    LONE_SURROGATE: "must be a text in Unicode, and it holds half a character",
    "string_too_long": lambda about: f"may have at most {about['max_length']:,} characters",
    "string_too_short": "must not be empty",
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "must be a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    "greater_than_equal": lambda about: f"must be at least {about['ge']}",
    "less_than_equal": lambda about: f"must be at most {about['le']}",
    "greater_than": lambda about: f"must be more than {about['gt']}",
    "less_than": lambda about: f"must be less than {about['lt']}",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "too_long": lambda about: f"may have at most {about['max_length']} entries",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "literal_error": lambda about: f"must be {about['expected']}",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "must be a JSON object"),
    "json_invalid": "is not JSON",
    # the name of a field comes in quotes
    "union_tag_not_found": lambda about: f"needs a field {about['discriminator'][1:-1]}",
    "union_tag_invalid": lambda about: (
        f"has no known {about['discriminator'][1:-1]}; it must be one of {about['expected_tags']}"
    ),
    "value_error": lambda about: str(about["error"]),  # of our own checks
}


_OF_CONTENT = frozenset({"string_too_long", "string_too_short", LONE_SURROGATE})
"""What is wrong with what somebody typed, and not with how a program asks."""
_TYPED = {
    **dict.fromkeys(("source", "text", "q"), "the text"),
    "other": "the second text",
    "prompt": "the prompt",
    "question": "the question",
    "document": "the document",
    "target": "the answer",
}
"""What people who type call such fields, whose names they never see."""


class RefusedError(Exception):
    """The request cannot be answered, and the client may know why."""

    retry_after = RETRY_AFTER
    """Seconds after which it may be asked again, where that helps."""

    def __init__(
        self, status: int, why: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(why)
        self.status = status
        self.param, self.code = param, code
        """The field that is wrong, and OpenAI's word for what is."""

    def response(self, path: str) -> Response:
        """How the client of a path is told."""
        about = {"param": self.param, "code": self.code}
        return refusal(self.status, str(self), path, retry_after=self.retry_after, **about)


class BusyError(RefusedError):
    """Too much at once; the same request may succeed later."""

    def __init__(self, why: str = "") -> None:
        super().__init__(503, why)


class TooOftenError(RefusedError):
    """The same client asked too often; it may ask again after so many seconds."""

    def __init__(self, why: str, seconds: int) -> None:
        super().__init__(429, why)
        self.retry_after = str(seconds)


def as_json(value: Any) -> bytes:
    """Compact JSON in ASCII: lone surrogates and markup survive every way it may go."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def is_json(body: bytes) -> bool:
    """Whether it is a JSON object, whatever it is sent as.

    >>> is_json(b'{"q": "a"}'), is_json(b"q=a"), is_json(b"7")
    (True, False, False)
    """
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


def json_response(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer that was made into JSON before."""
    return Response(body, status, headers, media_type="application/json")


def told(
    status: int, why: str, path: str, *, param: str | None = None, code: str | None = None
) -> str | dict[str, str | None]:
    """An error as clients of a path read it: a text, or OpenAI's object."""
    if not path.startswith(OPENAI):
        return why
    kind = "server_error" if status >= 500 else "invalid_request_error"
    kind = "rate_limit_error" if status == 429 else kind
    code = code or OPENAI_CODES.get(status)
    return {"message": why, "type": kind, "param": param, "code": code}


def refusal(
    status: int,
    why: str,
    path: str,
    *,
    retry_after: str = RETRY_AFTER,
    param: str | None = None,
    code: str | None = None,
) -> Response:
    """A response of the given status; a busy server says when to come back."""
    later = {"Retry-After": retry_after}
    headers = {503: later, 429: later, 401: {"WWW-Authenticate": "Bearer"}}
    body = {"error": told(status, why, path, param=param, code=code)}
    return json_response(as_json(body), status, headers.get(status))


def add_error_handlers(app: FastAPI, does: Callable[[], str] = str) -> None:
    """Turn the errors that a client can cause into refusals. All others are the monitor's.

    ``does`` tells whoever asks for a path that is not there what the server does.
    """

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        return error.response(request.url.path)

    async def wrong(request: Request, error: Exception) -> Response:
        return refusal(422, str(error), request.url.path)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = error.errors()
        if isinstance(error.body, bytes) and is_json(error.body):  # read as JSON it would be a dict
            return refusal(415, UNMARKED_JSON, request.url.path)
        broken = any(one["type"] == "json_invalid" for one in found)
        field = next((name for one in found if (name := _name(one)) != BODY), None)
        status, path = 400 if broken else 422, request.url.path
        return refusal(status, problems(found), path, param=field)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, why = request.url.path, str(error.detail)
        if error.status_code == 404 and not path.startswith("/static/"):
            why = no_such_path(path, app.openapi()["paths"], does())
        elif error.status_code == 405 and error.headers:
            why = f"this path is asked by {error.headers['Allow']}, not by {request.method}"
        response = refusal(error.status_code, why, path)
        response.headers.update(error.headers or {})
        return response

    app.add_exception_handler(RefusedError, refused)
    for kind in (ConfigError, DataError, ShapeError):
        app.add_exception_handler(kind, wrong)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def no_such_path(path: str, known: Iterable[str], does: str) -> str:
    """What to ask instead of a path that is not there.

    >>> no_such_path("/api/xplain", ["/translate", "/api/explain"], "")
    "there is no path '/api/xplain' here; did you mean /api/explain?"
    """
    near = difflib.get_close_matches(path[:_LONGEST_PATH], list(known), n=1, cutoff=0.8)
    meant = [f"did you mean {one}?" for one in near]
    told = [f"there is no path {path[:_LONGEST_PATH]!r} here", *meant, does]
    return "; ".join(filter(None, told))


def problems(errors: Iterable[Mapping[str, Any]]) -> str:
    """What pydantic found, in one line. What was sent is not repeated.

    >>> problems([{"type": "missing", "loc": ("body", "q"), "msg": "Field required"}])
    'q is missing'
    >>> problems([{"type": "model_type", "loc": (), "msg": "…"}])
    'the body must be a JSON object'
    """
    found = list(errors)
    surrogates = [error for error in found if error["type"] == LONE_SURROGATE]
    said = []
    for error in surrogates or found:
        words = _WORDS.get(error["type"], f"is wrong: {error['msg']}")
        about = words if isinstance(words, str) else words(error.get("ctx", {}))
        said.append(f"{_field(error)} {about}")
    return "; ".join(list(dict.fromkeys(said))[:_MOST])


def _field(error: Mapping[str, Any]) -> str:
    """What a person calls the field."""
    name = _name(error)
    return _TYPED.get(name, name) if error["type"] in _OF_CONTENT else name


def _name(error: Mapping[str, Any]) -> str:
    """The field's name without pydantic's names of its alternatives; of broken JSON, the body."""
    parts = [] if error["type"] == "json_invalid" else map(str, error["loc"])
    names = [part for part in parts if part not in ("body", "query") and "constrained-" not in part]
    return ".".join(names)[:100] or BODY
