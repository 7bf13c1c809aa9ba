"""The page and its files: plain HTML, CSS and ES modules, from this machine only."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PAGE = Path(str(files("regard.server"))) / "page"
DRAWING = Path(str(files("regard.visual"))) / "static"
"""The module that draws, which notebooks use as well."""

_NO_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Regard</title>
<p>This server has no page. <a href="/docs">What it answers</a></p></html>
"""


class Files(StaticFiles):
    """The files of two folders under one path; the page's own come first."""

    def __init__(self) -> None:
        super().__init__(directory=PAGE, check_dir=False)
        self.all_directories = [PAGE, DRAWING]

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, to be asked for again each time: a new version must not meet an old one."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def page_routes() -> APIRouter:
    """``/``: the page."""
    router = APIRouter()

    @router.get("/", include_in_schema=False)
    async def page() -> Response:
        index = PAGE / "index.html"
        if not index.is_file():
            return HTMLResponse(_NO_PAGE)
        return FileResponse(index, headers={"Cache-Control": "no-cache"})

    return router
