"""The page's modules and style sheets as one file each, made when the server starts.

The page is written as modules that browsers load as they are; a reader far away would wait for each
of thirty. So they are joined, in the order of their imports, each in a function of its own, which
needs no tool beside Python. The address of a file names its content: browsers keep it for good, and
a new version has another address.

A module may import names (``import { a, b as c } from "./x.js";``) and export what it declares;
anything else is refused here, before a reader meets it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

Read = Callable[[str], str]
"""The text of a file by its name."""

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$|\bawait import\(", re.MULTILINE)
_SHEET = re.compile(r'<link rel="stylesheet" href="/static/([\w.]+)">\n')
_SCRIPT = re.compile(r'<script type="module" src="/static/(\w+)\.js"></script>')
FOREVER = "public, max-age=31536000, immutable"
"""How long a file whose address names its content is kept."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that is made: its name, which tells its content, and its text."""

    name: str
    text: str
    media_type: str

    @classmethod
    def of(cls, stem: str, ending: str, text: str, media_type: str) -> Asset:
        """Named by the first letters of its digest."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return cls(f"{stem}-{digest}.{ending}", text, media_type)


def bundled_page(html: str, read: Read) -> tuple[str, tuple[Asset, ...]]:
    """A page that loads one script and one style sheet instead of its own, and these two."""
    (entry,) = _SCRIPT.findall(html)
    sheets = _SHEET.findall(html)
    script = Asset.of("page", "js", bundled_script(entry, read), "text/javascript")
    style = Asset.of("page", "css", "".join(map(read, sheets)), "text/css")
    joined = _SHEET.sub("", html, count=len(sheets) - 1)
    joined = _SHEET.sub(f'<link rel="stylesheet" href="/static/{style.name}">\n', joined)
    tag = f'<script type="module" src="/static/{script.name}"></script>'
    return _SCRIPT.sub(tag, joined), (script, style)


def bundled_script(entry: str, read: Read) -> str:
    """A module and all that it imports, as one module that imports nothing."""
    texts = dict(_reached(entry, read))
    # Lists, not sets: the same modules come out in the same order, and a page that is written
    # again is the same file.
    needs = {name: [one for _, one in _IMPORT.findall(text)] for name, text in texts.items()}
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise ValueError(f"modules import each other: {' → '.join(error.args[1])}") from None
    return "".join(_as_function(name, texts[name]) for name in order)


def _reached(entry: str, read: Read) -> Iterator[tuple[str, str]]:
    """Name and text of a module and of all that it leads to."""
    waiting, seen = [entry], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        text = read(f"{name}.js")
        waiting += [one for _, one in _IMPORT.findall(text)]
        yield name, text


def _as_function(name: str, text: str) -> str:
    """A module as a constant that holds what it exports."""
    exported = [one for _, one in _EXPORT.findall(text)]
    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(_as_constant, text))
    other = _OTHER.search(body)
    if other is not None:
        raise ValueError(f"{name}.js has {other.group()!r}, which is not joined; see {__name__}")
    return f"const ${name} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n"


def _as_constant(found: re.Match[str]) -> str:
    names = found.group(1).replace(" as ", ": ")
    return f"const {{{names}}} = ${found.group(2)};"
