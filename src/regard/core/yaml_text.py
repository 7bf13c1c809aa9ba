"""YAML → plain data, whoever wrote it.

Nothing in it is executed. A text may be short and stand for very much: an alias repeats what an
anchor names, and aliases of aliases multiply. So the tree is measured before it becomes data. Nor
may a key stand twice: the first would be lost without a word.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from regard.core.errors import ConfigError
from regard.core.files import LONGEST_NUMBER, read_text
from regard.core.numbers import told

MOST_BYTES = 2**20
"""Of a file."""
MOST_NODES = 100_000
"""Keys and values, aliases written out."""
DEEPEST = 50
"""Levels of lists and mappings in one another."""
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def read_yaml(path: Path) -> Any:
    """What a YAML file holds."""
    return parse_yaml(read_text(path, MOST_BYTES))


def parse_yaml(text: str) -> Any:
    """Plain data; one ConfigError, of a bounded length, where there is none."""
    try:
        loader = _OnceOnly(text)
        tree = loader.get_single_node()
        if tree is None:
            return None
        _Size().of(tree, 0)
        return loader.construct_document(tree)
    except ConfigError:
        raise
    except RecursionError:
        raise ConfigError("lists and mappings lie too deep in one another") from None
    except Exception as error:  # malformed values end in whatever Python raises about them
        raise ConfigError(told(error)) from None


class _OnceOnly(yaml.SafeLoader):
    """YAML in which no key may come twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = Counter(self.construct_object(key, deep=True) for key, _ in node.value)
        twice = next((key for key, n in keys.items() if n > 1), None)
        if twice is not None:
            raise ValueError(f"{twice!r} stands there twice (line {node.start_mark.line + 1} on)")
        return super().construct_mapping(node, deep)


class _Size:
    """Counts the nodes of a tree as if each alias were written out."""

    def __init__(self) -> None:
        self._known: dict[int, int | None] = {}
        """The size of a node that was counted; None of one whose inside is being counted."""

    def of(self, node: yaml.Node, depth: int) -> int:
        """How many nodes there are; too many, or a node inside itself, are refused."""
        if depth > DEEPEST:
            raise ConfigError(f"lists and mappings lie more than {DEEPEST} deep in one another")
        if id(node) not in self._known:
            self._known[id(node)] = None
            self._known[id(node)] = 1 + sum(self.of(one, depth + 1) for one in _inside(node))
        size = self._known[id(node)]
        if size is None:
            raise ConfigError(f"an alias stands for what it is part of (line {_line(node)})")
        if size > MOST_NODES:
            raise ConfigError(f"its aliases stand for more than {MOST_NODES:,} values")
        return size


def _inside(node: yaml.Node) -> list[yaml.Node]:
    """The nodes directly inside; a number that is too long to be one is refused."""
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    if isinstance(node, yaml.SequenceNode):
        return [*node.value]
    if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
        raise ConfigError(f"a number of {len(node.value):,} signs (line {_line(node)})")
    return []


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
