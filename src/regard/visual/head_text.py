"""What each head does, as text: tables that fit a width, and beneath them how to read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.visual.grid import plain_console, show_table
from regard.visual.head_table import conditions, head_tables, meanings


def heads_text(heads: Mapping[str, Any], width: int) -> str:
    """From the JSON of ``regard heads``."""
    console, text = plain_console(width)
    for table in head_tables(heads):
        console.print(f"\n{table.caption}")
        show_table(table, console)
    console.print(f"\n{conditions(heads)}\n{meanings(heads)}\n{heads['caveat']}")
    return text.getvalue()
