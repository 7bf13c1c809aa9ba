"""The page and its files: plain HTML, CSS and ES modules, from this machine only."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PAGE = Path(str(files("regard.server"))) / "page"
DRAWING = Path(str(files("regard.visual"))) / "static"
"""The module that draws, which notebooks use as well."""


class Files(StaticFiles):
    """The files of two folders under one path; the page's own come first."""

    def __init__(self) -> None:
        super().__init__(directory=PAGE)
        self.all_directories = [PAGE, DRAWING]

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, to be asked for again each time: a new version must not meet an old one."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def page_routes() -> APIRouter:
    """``/``: the page; and its sign, where browsers look for one without being told."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page() -> Response:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    @router.api_route("/favicon.ico", methods=["GET", "HEAD"])
    async def icon() -> Response:
        return FileResponse(PAGE / "icon.svg", media_type="image/svg+xml")

    return router
