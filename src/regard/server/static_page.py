"""The page in a folder, with the model inside it: it needs no server, and opens from a disk too.

Four files and a note: the page, its style sheet, its script, and the model. The script is the very
one that the server gives (``bundle``), but for the module that sends questions: ``engine/send.js``
takes the place of ``page/send.js`` and brings an engine that answers them. Browsers load no modules
and fetch no files from a disk, so scripts are plain ones, and weights are a text in one of them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from mimetypes import guess_type
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.core.files import write_whole
from regard.interop.web import web_run, web_weights
from regard.runs.heads import head_measures
from regard.server.admission import Keys
from regard.server.api import info
from regard.server.batcher import Worker
from regard.server.bundle import Asset, bundled_page
from regard.server.limits import LIMITS, MAX_BEAMS, MAX_WORDS
from regard.server.pages import DRAWING, PAGE, page_file, page_html
from regard.server.service import Service
from regard.tasks.drawing import drawing_of_run
from regard.tasks.requests import MAX_CHARACTERS, MAX_DOCUMENT, MAX_LINES, MAX_NEW
from regard.visual.drawing_svg import drawing_svg
from regard.visual.svg import alone

ENGINE = Path(str(files("regard.server"))) / "engine"
DOOR = "send.js"  # the module of the page that the engine has another one for
INFO = (
    *("model", "preset", "parameters", "task", "languages", "special_ids", "name", "knows"),
    *("tells_unknown", "weighs", "form", "examples", "attentions", "measures", "antecedents"),
)
"""What the page is told of the run, where its task tells it: the engine answers for each."""
VIEWS = ("lines", "matrix", "grid", "rollout", "beam")
"""Views that ask nothing which the engine could not answer."""
HEADS = "heads"  # a view that shows what was measured before
HERE = "The model runs in this page: nothing you type leaves it."
NO_HEADS = "Its heads were not measured: their map is missing."
README = """Open index.html in a browser: from here, from a USB stick, or from any web space.
The model {name} ({about}) is in this folder and runs in the browser.
It needs no server and no network; keep the files together.
"""
_LINK = re.compile(r"/static/([\w.-]+)")
_TOKEN = re.compile(r'<meta name="regard-token".*>\n')


def write_static_page(run: Any, folder: Path) -> tuple[str, ...]:
    """Write the page of a run into an empty folder, and tell what it lacks."""
    described = web_run(run)  # first: what is refused need not be measured
    heads, notes = _measured(run)
    told = static_info(run, measured=heads is not None)
    described |= {
        "limits": _limits(),
        "info": told,
        "heads": heads,
        "drawing": alone(drawing_svg(drawing_of_run(run))),
    }
    html, assets = page_with(described, web_weights(run.model))
    for asset in assets:
        write_whole(folder / asset.name, asset.text)
    write_whole(folder / "index.html", html)
    named = {"name": told["name"], "about": told["form"]["about"]}
    write_whole(folder / "README.txt", README.format(**named))
    return notes


def _measured(run: Any) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """What each head does, measured where the data is; None where that is not here, and why."""
    try:
        return head_measures(run).as_json(), ()
    except RegardError as error:
        return None, (f"the page has no map of the heads: {error}",)


def static_info(run: Any, *, measured: bool) -> dict[str, Any]:
    """What ``/api/info`` says, without all that needs a server or heads that were not measured."""
    told = info(Service(run, Worker(list), LIMITS, Keys(None)))
    known = (*VIEWS, HEADS) if measured else VIEWS
    form = {**told["form"], "views": [one for one in told["form"]["views"] if one in known]}
    said = (form["hint"], HERE, "" if measured else NO_HEADS)
    form["hint"] = " ".join(filter(None, said))
    unmeasured = {} if measured else {"antecedents": None}  # no claim about heads is made
    return {name: told[name] for name in INFO if name in told} | {"form": form} | unmeasured


def page_with(
    described: Mapping[str, Any], weights: Mapping[str, Any]
) -> tuple[str, tuple[Asset, ...]]:
    """The page, and its files: script, style sheet and model."""
    text = "".join(
        f"const {name} = {json.dumps(value, ensure_ascii=False, separators=(',', ':'))};\n"
        for name, value in {"REGARD_RUN": described, "REGARD_WEIGHTS": weights}.items()
    )
    model = Asset.of("model", "js", text, "text/javascript")
    html, (module, sheet) = bundled_page(page_html("index.html"), engine_file)
    script = Asset.of("page", "js", _plain_script(module.text), module.media_type)
    style = Asset.of("page", "css", _LINK.sub(_inlined, sheet.text), sheet.media_type)
    scripts = "".join(f'<script defer src="{one.name}"></script>\n' for one in (model, script))
    html = html.replace(f'<script type="module" src="/static/{module.name}"></script>\n', scripts)
    html = html.replace(f"/static/{sheet.name}", style.name)
    return _LINK.sub(_inlined, _TOKEN.sub("", html)), (model, script, style)


def engine_file(name: str) -> str:
    """The text of a module or style sheet of the page, its door being the engine's."""
    own = ENGINE / name
    if not own.exists():
        return page_file(name)
    if name != DOOR and any((folder / name).exists() for folder in (PAGE, DRAWING)):
        raise ValueError(f"{name} is a file of the engine and of the page; rename one of them")
    return own.read_text(encoding="utf-8")


def _plain_script(module: str) -> str:
    """A module as a script, whose names stay its own."""
    return f'"use strict";\n(() => {{\n{module}}})();\n'


def _limits() -> dict[str, int]:
    """Those of a server: what one refuses the other does."""
    return {
        "tokens": LIMITS.tokens,
        "look_tokens": LIMITS.look_tokens,
        "new_tokens": LIMITS.new_tokens,
        "characters": MAX_CHARACTERS,
        "document": MAX_DOCUMENT,
        "lines": MAX_LINES,
        "written": MAX_NEW,
        "beams": MAX_BEAMS,
        "words": MAX_WORDS,
    }


def _inlined(found: re.Match[str]) -> str:
    """A small file that is linked to, such as the icon, as a data URL."""
    name = found.group(1)
    folder = PAGE if (PAGE / name).exists() else DRAWING
    raw, kind = (folder / name).read_bytes(), guess_type(name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(raw).decode('ascii')}"
