"""``/api/drawing``: the model that is served, as a picture."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from regard.server.service import Service
from regard.tasks.drawing import drawing_of_run
from regard.visual.drawing_svg import drawing_svg
from regard.visual.svg import alone

SVG = "image/svg+xml"
_ANSWER: dict[int | str, dict[str, Any]] = {200: {"content": {SVG: {}}}}


def drawing_routes(service: Service) -> APIRouter:
    """The route, whose picture is made once, when it is first asked for."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    made = cache(lambda: alone(drawing_svg(drawing_of_run(service.run))))

    @router.get(
        "/drawing",
        summary="The model as a drawing: blocks, shapes and parameters, as SVG.",
        response_class=Response,
        responses=_ANSWER,
    )
    def drawing() -> Response:  # in a thread: the model is built for it
        return Response(made(), media_type=SVG)

    return router
