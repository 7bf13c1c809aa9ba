r"""Any text as LaTeX shows it, without a package.

What LaTeX knows by itself stays; much of the rest has a command. Whatever is left, such as 中 or an
emoji, goes through ``\regardchar``: where the document has the character it is shown, and elsewhere
its number. So a table compiles with every engine. Letters such as ą, which the first of LaTeX's
font encodings lacks, are taken for granted: who writes them loads ``[T1]{fontenc}``.
"""

from __future__ import annotations

import re
import unicodedata

DEFINITION = (
    r"\providecommand{\regardchar}[2]{\ifdefined\Umathchar #1\else"
    r"\ifcsname u8:\detokenize{#1}\endcsname #1\else #2\fi\fi}"
)
r"""Of ``\regardchar``: the character, or its number where pdfLaTeX has not been told of it."""

_COMMANDS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "`": r"\textasciigrave{}",
    # After the end of a row, these two would be taken for its options.
    "[": "{[}",
    "*": "{*}",
    "±": r"\ensuremath{\pm}",
    "×": r"\ensuremath{\times}",
    "−": r"\ensuremath{-}",
    "«": r"\ensuremath{\ll}",
    "»": r"\ensuremath{\gg}",
    "∅": r"\ensuremath{\emptyset}",
    "Δ": r"\ensuremath{\Delta}",
    "→": r"\ensuremath{\rightarrow}",
    "–": r"\textendash{}",
    "…": r"\ldots{}",
    "▁": r"\textvisiblespace{}",  # how a tokenizer shows a space
    "\N{NO-BREAK SPACE}": "~",
    "\n": " ",
    "\t": " ",
}
_KNOWN = "¡¢£¥§©ª®°²³´µ¶·¹º¼½¾¿—‘’‚“”„†‡•‰€™"


def latex_text(text: str) -> str:
    r"""Every character as itself.

    >>> print(latex_text("50 % of en_fr ± 1"))
    50 \% of en\_fr \ensuremath{\pm} 1
    """
    shown = "".join(map(_character, unicodedata.normalize("NFC", text)))
    return re.sub("-(?=-)", "-{}", shown)  # two of them would become one dash


def _character(c: str) -> str:
    if c in _COMMANDS:
        return _COMMANDS[c]
    latin = c.isalpha() and c < "\u0180"  # with the letters of most of Europe
    if (" " <= c < "\x7f") or latin or c in _KNOWN:
        return c
    number = f"U+{ord(c):04X}"
    # What is no sign at all, such as a bell or a direction, would disturb TeX even as an argument.
    return rf"\regardchar{{{c}}}{{{number}}}" if unicodedata.category(c)[0] != "C" else number
