"""Looking inside a run: ``/api/info``, ``/api/words``, ``/api/explain``, ``/api/heads``.

Answers are made into JSON on the model's thread, so that a large one holds up no other request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

from fastapi import APIRouter, Query
from starlette.responses import Response

from regard.runs.kinds.translator import Run
from regard.runs.kinds.writer import Writer
from regard.runs.looking.look import Look
from regard.server.errors import as_json, json_response
from regard.server.heads import HeadMeasuring
from regard.server.info import info
from regard.server.limits import MAX_NAME, MAX_WORDS
from regard.server.schemas import ExplainRequest, LookRequest, TextLookRequest
from regard.server.service import Service
from regard.text.specials import BEGIN, MASK, PAD
from regard.text.tokenizer import SPACE, Tokenizer
from regard.visual.payload import Selected, packed_payload

T = TypeVar("T")


class Once(Generic[T]):
    """An answer that never changes is made once. Always called on one and the same thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None
        """The answer, where it is there; any thread may look."""

    def __call__(self) -> T:
        """The answer."""
        if self.made is None:
            self.made = self._make()
        return self.made


def explain_routes(service: Service, measuring: HeadMeasuring) -> APIRouter:
    """The paths for one run; ``/api/words`` where it writes."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    info_once = Once(lambda: as_json(info(service)))

    @router.get("/info", summary="What this run is, and which attentions it has.")
    async def told() -> Response:
        return json_response(await service.worker.call(info_once))

    @router.get("/heads", summary="What each head does, measured on held-out sentences.")
    async def heads() -> Response:
        return json_response(await measuring.result())

    _add_explain(router, service)
    written = _output_tokenizer(service.run)
    if written is not None:
        _add_words(router, written)
    return router


def _add_explain(router: APIRouter, service: Service) -> None:
    summary = "Where every attention looks; perhaps after what-ifs."
    if isinstance(service.run, Run):

        @router.post("/explain", summary=summary)
        async def explain(asked: ExplainRequest) -> Response:
            service.check_look(asked.source, asked.target or "")
            return json_response(await service.worker.call(partial(_explain, service.run, asked)))

    else:

        @router.post("/explain", summary=summary)
        async def explain_text(asked: TextLookRequest) -> Response:
            return json_response(await service.worker.call(partial(_explain_text, service, asked)))


def _explain(run: Run, asked: ExplainRequest) -> bytes:
    """The object of ``explain --format json``, and what a reader should know beside it."""
    look = run.explain(asked.source, asked.target, edit=_edits(asked))
    answer = look.as_json()
    answer["unknown"] = run.unknown_words(look.source)
    return as_json(answer | _beside(look, asked))


def _explain_text(service: Service, asked: TextLookRequest) -> bytes:
    look = _text_look(service, asked)
    if asked.packed is None:
        answer = look.as_json()
    else:
        shown = Selected(asked.packed.name, asked.packed.layer)
        answer = packed_payload(look.payload(), shown)
    answer["unknown"] = unknown_words(service.run, asked.source, asked.other)
    return as_json(answer | _beside(look, asked))


def _text_look(service: Service, asked: TextLookRequest) -> Look:
    run = service.run
    if not isinstance(run, Writer):
        service.check_look(asked.source, asked.other)
        look: Look = run.explain(asked.source, asked.other, edit=_edits(asked))
        return look
    n = min(asked.max_tokens, service.room_after(asked.source, asked.target))
    return run.explain(asked.source, asked.target, max_tokens=n, edit=_edits(asked))


def _edits(asked: LookRequest) -> tuple[dict[str, Any], ...]:
    return tuple(edit.model_dump() for edit in asked.edits)


def _beside(look: Look, asked: LookRequest) -> dict[str, Any]:
    """What goes with the weights: notes, the steps of a row, and where a look leads."""
    answer: dict[str, Any] = {"notes": list(look.doubts)}
    if asked.steps is not None:
        answer["steps"] = look.steps(**asked.steps.model_dump()).as_json()
    if asked.rollout is not None:
        answer["rollout"] = look.rollout(asked.rollout).tolist()
    return answer


def unknown_words(run: Any, *texts: str | None) -> list[str]:
    """The words in which something is that the run reads as unknown; no masks."""
    parts = [part for text in texts if text for part in text.split(MASK)]
    return [word for part in parts for word in run.unknown_words(part)]


def _output_tokenizer(run: Any) -> Tokenizer | None:
    """That of what a run writes, where it writes."""
    if isinstance(run, Run):
        return run.tokenizers.target
    return run.tokenizer if isinstance(run, Writer) else None


def _add_words(router: APIRouter, tokenizer: Tokenizer) -> None:
    @router.get("/words", summary="Tokens that the model can say.")
    async def words(
        begins: Annotated[str, Query(max_length=MAX_NAME, description="How they begin.")] = "",
    ) -> list[str]:
        """In alphabetical order; a space is not spelt."""
        tokens = sorted(set(tokenizer.tokens(range(tokenizer.n_vocab))) - {PAD, BEGIN})
        fitting = (token for token in tokens if token.removeprefix(SPACE).startswith(begins))
        return list(islice(fitting, MAX_WORDS))
