"""From an exercise's file to what a learner is given: the same text with blanks, as .py or .ipynb.

The file is parsed and not imported. Handed out are the functions and classes marked ``blank`` or
``given``, and whatever constants, functions and imports those use.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError

MARK = "# regard practice: "
"""Begins the line by which a file says whose blanks it fills."""
BLANK = "raise NotImplementedError  # your code here"
SUFFIXES = (".py", ".ipynb")
_ALWAYS = {"math", "torch"}
"""Handed out wherever an exercise imports them: a learner's way may need what ours does not."""

_Definition = ast.FunctionDef | ast.ClassDef
_Hole = tuple[int, int, int]
"""First and last line of a body, from 1, and its indentation."""


@dataclass(frozen=True, slots=True)
class Blank:
    """A function or class that a learner writes."""

    name: str
    hints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A definition in a handout, solved and with its blanks."""

    solved: str
    hollow: str


@dataclass(frozen=True, slots=True)
class Handout:
    """All that is handed out of an exercise."""

    statement: str
    """The docstring of its file; the first line is the title."""
    imports: str
    pieces: tuple[Piece, ...]
    blanks: tuple[Blank, ...]

    @property
    def title(self) -> str:
        """The exercise in one line."""
        return self.statement.split("\n", 1)[0]


def read_handout(file: Path) -> Handout:
    """Parse an exercise's file."""
    text = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    named = {name: node for node in tree.body for name in _bound(node)}
    wanted = _with_what_they_use(
        [node for node in tree.body if _blank_mark(node) or _is_given(node)], named
    )
    pieces, blanks = [], []
    for node in tree.body:
        if node not in wanted or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        holes: list[_Hole] = []
        if isinstance(node, _Definition) and (mark := _blank_mark(node)):
            holes = [*_holes(node, mark)]
            blanks.append(Blank(node.name, tuple(map(ast.literal_eval, mark.args))))
        pieces.append(Piece(_text(node, lines, []), _text(node, lines, holes)))
    if not blanks:
        raise ConfigError(f"{file} has no function marked as blank: it is no exercise")
    statement = ast.get_docstring(tree) or file.stem
    return Handout(statement, _imports(tree, wanted), tuple(pieces), tuple(blanks))


def as_text(name: str, handout: Handout, form: str, *, solved: bool = False) -> str:
    """The file that a learner fills in, as ``.py`` or ``.ipynb``; ``solved``: filled in."""
    bodies = [one.solved if solved else one.hollow for one in handout.pieces]
    if form == ".ipynb":
        return _notebook(name, handout, bodies)
    head = f'{MARK}{name}\n"""{handout.statement}\n\n{_advice(name)}\n"""\n\n{handout.imports}'
    return "\n\n\n".join([head, *bodies]) + "\n"


def _advice(name: str) -> str:
    check = "Check what you wrote:  regard practice --check FILE"
    return f"{check}\nA hint:                regard practice {name} --hint"


# ------------------------------------------------------------------ what is handed out


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, _Definition):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        inside = (one for target in targets for one in ast.walk(target))
        yield from (one.id for one in inside if isinstance(one, ast.Name))


def _is_given(node: ast.stmt) -> bool:
    """Whether a definition is marked ``sheet.given``."""
    marks = node.decorator_list if isinstance(node, _Definition) else ()
    return any(isinstance(mark, ast.Attribute) and mark.attr == "given" for mark in marks)


def _blank_mark(node: ast.stmt) -> ast.Call | None:
    """The decorator ``sheet.blank(…)`` of a definition, if it has one."""
    for mark in node.decorator_list if isinstance(node, _Definition) else ():
        called = mark.func if isinstance(mark, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "blank":
            assert isinstance(mark, ast.Call)
            return mark
    return None


def _used(node: ast.stmt) -> set[str]:
    """The names in a statement, those in its decorators left out."""
    inside: list[ast.AST] = [node]
    if isinstance(node, _Definition):
        inside = [one for one in ast.iter_child_nodes(node) if one not in node.decorator_list]
    return {one.id for start in inside for one in ast.walk(start) if isinstance(one, ast.Name)}


def _with_what_they_use(marked: Iterable[ast.stmt], named: dict[str, ast.stmt]) -> list[ast.stmt]:
    wanted: list[ast.stmt] = []
    left = [*marked]
    while left:
        node = left.pop()
        if node not in wanted:  # nodes are equal where they are the same
            wanted.append(node)
            left += [named[name] for name in _used(node) if name in named]
    return wanted


def _imports(tree: ast.Module, wanted: list[ast.stmt]) -> str:
    """The imports that what is handed out needs, in lines."""
    used = _ALWAYS.union(*(_used(node) for node in wanted))
    lines = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [one for one in node.names if (one.asname or one.name) in used]
            if names:
                node.names = names
                lines.append(ast.unparse(node))
    return "\n".join(lines)


# ------------------------------------------------------------------ text and its holes


def _holes(node: _Definition, mark: ast.Call) -> Iterator[_Hole]:
    """The bodies that are taken out of a definition: its own, or those of a class's methods."""
    kept = {
        name for one in mark.keywords if one.arg == "keep" for name in ast.literal_eval(one.value)
    }
    functions = node.body if isinstance(node, ast.ClassDef) else [node]
    for one in functions:
        if isinstance(one, ast.FunctionDef) and one.name not in kept:
            first = one.body[0]
            begin = first.lineno
            if ast.get_docstring(one) is not None:
                begin = (first.end_lineno or begin) + 1
            yield begin, one.end_lineno or begin, first.col_offset


def _text(node: ast.stmt, lines: list[str], holes: list[_Hole]) -> str:
    """The lines of a statement, with blanks in place of the holes."""
    out: list[str] = []
    number, last = node.lineno, node.end_lineno or node.lineno
    while number <= last:
        hole = next((one for one in holes if one[0] == number), None)
        if hole is None:
            out.append(lines[number - 1])
            number += 1
        else:
            out.append(" " * hole[2] + BLANK)
            number = hole[1] + 1
    return "\n".join(out)


# ------------------------------------------------------------------ notebooks


def _notebook(name: str, handout: Handout, bodies: list[str]) -> str:
    """A notebook of version 4.5: the statement, the imports, a cell for each definition."""
    head = f"# {handout.statement}\n\n```\n{_advice(name)}\n```"
    cells = [_cell("markdown", "statement", head)]
    codes = [f"{MARK}{name}\n{handout.imports}", *bodies]
    cells += [_cell("code", f"code-{i}", code) for i, code in enumerate(codes)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, identity: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": identity, "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": text.splitlines(keepends=True)}
