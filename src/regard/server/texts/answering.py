"""``/api/answer``: a question about a text, for runs that answer questions."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from regard.runs.kinds.answerer import Answerer
from regard.server.answers import RefusedError, as_json, json_response
from regard.server.asking import Asked, Key, Text
from regard.server.limits import MAX_GUESSES
from regard.server.text_service import TextService
from regard.server.texts.unknown import unknown_words


class AnswerRequest(Asked):
    """A question, and the text that has its answer in it."""

    question: Text = Field(min_length=1, description="What to ask.")
    text: Text = Field(min_length=1, description="A text that has the answer in it.")
    n: int = Field(1, ge=1, le=MAX_GUESSES, description="Answers, the likeliest first.")
    api_key: Key = None


def answering_routes(service: TextService) -> APIRouter:
    """The path, where the run can answer it."""
    router = APIRouter(prefix="/api", tags=["texts"])
    run = service.run
    if not isinstance(run, Answerer):
        return router

    @router.post("/answer", summary="The words of a text that answer a question.")
    async def answer(asked: AnswerRequest) -> Response:
        return json_response(await service.worker.call(partial(_answered, run, asked)))

    return router


def _answered(run: Answerer, asked: AnswerRequest) -> bytes:
    pairs = [(asked.question, asked.text)]
    if run.n_cut(pairs):
        raise RefusedError(
            422,
            f"the question takes more than half of the {run.model.config.max_len} tokens that the "
            "model reads at once; shorten it",
        )
    (found,) = run.answers(pairs, asked.n)
    several = [one.as_json() for one in found]
    unknown = unknown_words(run, asked.question, asked.text)
    return as_json({**several[0], "answers": several, "unknown": unknown})
