"""Text that cannot do anything to a terminal: what others wrote is shown, never obeyed.

An escape sequence may move the cursor, rename the window, or answer in the reader's name. It begins
with a control character, and so none of these is let through but tabs and ends of lines. Nor are
those that turn the direction of writing, behind which a text reads as another.
"""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
INSTEAD = "\ufffd"
"""Stands where a control character was."""


def plain(text: str) -> str:
    r"""Without control characters; tabs and newlines stay.

    >>> plain("a\x1b[2Jb\tc\n\x9b1m\r")
    'a�[2Jb\tc\n�1m�'
    """
    return _CONTROL.sub(INSTEAD, text)


def plain_line(text: str) -> str:
    r"""The same in one line, with single spaces.

    >>> plain_line("a\n  b\r\x1b]0;c\x07")
    'a b �]0;c�'
    """
    return plain(" ".join(text.split()))
