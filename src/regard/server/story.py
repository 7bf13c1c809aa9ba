"""``/api/story``: one token's way through the model, for the page's rail of figures."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from regard.server.api import MAX_TOKENS
from regard.server.errors import as_json, json_response
from regard.server.schemas import ExplainRequest, StepsChoice
from regard.server.service import Service
from regard.tasks.requests import Image
from regard.tasks.story import story_of


class StoryRequest(ExplainRequest):
    """What is looked at, as ``/api/explain`` takes it, and the token that is followed."""

    steps: StepsChoice = Field(description="The attention, head and row whose story is told.")


class PictureStoryRequest(StoryRequest):
    """The same of a task that reads pictures."""

    source: Image


def story_routes(service: Service) -> APIRouter:
    """``/api/story`` of a run of any task."""
    router = APIRouter(prefix="/api", tags=["look inside"])

    async def story(asked: Any) -> Response:
        return json_response(await service.worker.call(partial(_story, service, asked)))

    story.__annotations__["asked"] = PictureStoryRequest if service.reads_pictures else StoryRequest
    summary = "One token's way through the model, stage by stage."
    router.add_api_route("/story", story, methods=["POST"], name="story", summary=summary)
    return router


def _story(service: Service, asked: StoryRequest) -> bytes:
    task, run = service.task, service.run
    given: dict[str, Any] = {"other": asked.other, "target": asked.target}
    room = task.check_look(run, service.limits.look_tokens, asked.source, **given)
    n = asked.max_tokens
    if room is not None:
        n = min(room, MAX_TOKENS if n is None else n)
    edits = tuple(edit.model_dump() for edit in asked.edits)
    return as_json(
        story_of(
            task, run, asked.source, **given, max_tokens=n, edit=edits, **asked.steps.model_dump()
        )
    )
