"""The pages of a server and the files they load: scripts and style sheets, joined."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from regard.server.bundle import FOREVER, Asset, bundled_page
from regard.visual.theme import theme_css, theme_js

PAGE = Path(str(files("regard.server"))) / "page"
DRAWING = Path(str(files("regard.visual"))) / "static"  # what draws; notebooks use it as well
THEME = {"theme.js": (theme_js, "text/javascript"), "theme.css": (theme_css, "text/css")}
"""Colours and fonts of every renderer, written when they are asked for."""
SHARED_HEAD = "<!-- head.html -->\n"
"""Where a page has what stands in that file."""
COMPRESSED_BYTES = 1000  # smaller answers are sent as they are


class _StaticFiles(StaticFiles):
    """The files of two folders under one path, the page's own first, and those that are made."""

    def __init__(self, made: tuple[Asset, ...]) -> None:
        super().__init__(directory=PAGE)
        self.all_directories = [PAGE, DRAWING]
        self.made = {asset.name: asset for asset in made}

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file. One whose name tells its content is kept; others are asked for each time.

        A new version must not meet an old one.
        """
        if path in self.made:
            asset = self.made[path]
            kept = {"Cache-Control": FOREVER}
            return Response(asset.text, media_type=asset.media_type, headers=kept)
        if path in THEME:
            text, kind = THEME[path]
            response = Response(text(), media_type=kind)
        else:
            response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def page_file(name: str) -> str:
    """The text of a file under ``/static``."""
    if name in THEME:
        return THEME[name][0]()
    folder = PAGE if (PAGE / name).exists() else DRAWING
    return (folder / name).read_text(encoding="utf-8")


def page_html(name: str) -> str:
    """The text of a page, with the part of its head that all pages share."""
    text = (PAGE / name).read_text(encoding="utf-8")
    return text.replace(SHARED_HEAD, (PAGE / "head.html").read_text(encoding="utf-8"))


def add_page(app: FastAPI, name: str, token: str) -> None:
    """A page at ``/``, what it loads, and its icon where browsers look for one by themselves.

    The page sends the ``token`` along, to show that it is this server's own.
    """
    hidden: dict[str, Any] = {"methods": ["GET", "HEAD"], "include_in_schema": False}
    html, made = bundled_page(page_html(name), page_file)
    html = html.replace("REGARD-TOKEN", token)
    app.mount("/static", _StaticFiles(made), name="static")

    @app.api_route("/", **hidden)
    async def page() -> Response:
        return HTMLResponse(html, headers={"Cache-Control": "no-store"})

    @app.api_route("/favicon.ico", **hidden)
    async def icon() -> Response:
        return FileResponse(PAGE / "icon.svg", media_type="image/svg+xml")
