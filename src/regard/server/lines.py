"""A text has a sentence on each line: they are translated one by one, and lines stay lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def lines_of(text: str) -> list[str]:
    """The lines of a text, whatever ends them.

    >>> lines_of("a b\\r\\n\\nc")
    ['a b', '', 'c']
    """
    return text.replace("\r\n", "\n").split("\n")


def spoken(texts: Iterable[str]) -> list[str]:
    """The lines of all texts that have something in them."""
    return [line for text in texts for line in lines_of(text) if line.strip()]


def joined(texts: Iterable[str], said: Iterable[str]) -> list[str]:
    """The texts with what was said in place of each of their spoken lines.

    >>> joined(["a\\n\\nb", "c"], ["A", "B", "C"])
    ['A\\n\\nB', 'C']
    """
    left = iter(said)
    return ["\n".join(next(left) if line.strip() else "" for line in lines_of(t)) for t in texts]


def alternatives(
    texts: Sequence[str], said: Sequence[str], tried: Sequence[Sequence[str]], n: int
) -> list[list[str]]:
    """Up to n other translations of each text, from several of each spoken line, best first.

    A line that has no more of them stays as it was said.

    >>> alternatives(["a\\nb"], ["A", "B"], [["A", "X", "Y"], ["Z", "B"]], 2)
    [['X\\nZ', 'Y\\nB']]
    """
    others = [
        [one for one in dict.fromkeys(several) if one != best][:n]
        for best, several in zip(said, tried, strict=True)
    ]
    whole = joined(texts, said)
    versions = [
        joined(texts, [o[i] if i < len(o) else s for o, s in zip(others, said, strict=True)])
        for i in range(n)
    ]
    return [
        list(dict.fromkeys(version[k] for version in versions if version[k] != whole[k]))
        for k in range(len(texts))
    ]
