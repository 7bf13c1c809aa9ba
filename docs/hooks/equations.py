"""Equations become MathML while the site is built; browsers draw it without any script."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

_EQUATION = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(html: str, **_page: Any) -> str:
    r"""``\(…\)`` in a line and ``\[…\]`` on its own, as the Markdown extension leaves them."""
    return _EQUATION.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found["tag"] == "div" else "inline"
    return convert(unescape(found["latex"]).strip(), display=display)
