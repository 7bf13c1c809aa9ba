"""Lines are handed on as they arrive: who waits for an answer gets it."""

import io
import sys

import pytest

from regard.cli.terminal import arriving_lines
from regard.core.errors import DataError


class Pipe(io.RawIOBase):
    """Gives one piece at each reading, as a pipe does whose writer pauses; notes each reading."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.n_read = 0

    def readable(self):
        return True

    def readinto(self, room):
        self.n_read += 1
        piece = self.pieces.pop(0) if self.pieces else b""
        room[: len(piece)] = piece
        return len(piece)


@pytest.fixture
def arriving(monkeypatch):
    def arrive(*pieces):
        pipe = Pipe(*pieces)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(pipe)))
        return pipe

    return arrive


def test_a_line_is_answered_before_the_next_is_waited_for(arriving):
    pipe = arriving(b"one\n", b"two\nthree\nfo", b"ur\n", b"five")
    seen = [(chunk, pipe.n_read) for chunk in arriving_lines(1024)]
    assert [chunk for chunk, _ in seen] == [["one"], ["two", "three"], ["four"], ["five"]]
    assert [n_read for _, n_read in seen[:3]] == [1, 2, 3]


def test_no_list_is_longer_than_asked_for(arriving):
    arriving(b"a\nb\nc\nd\ne\n")
    assert list(arriving_lines(2)) == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([], []),
        ([b"\n"], [""]),
        ([b"a\n\n", b"\n"], ["a", "", ""]),
        ([b"a\r\nb\r", b"\nc"], ["a", "b", "c"]),
        ([b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"], ["a", "\ufeffb"]),
        ([b"\xc3", b"\xa9\n"], ["é"]),
        ([b"a", b"b", b"c"], ["abc"]),
        ([b"a\x0bb\x85\xc2\x85c\n".replace(b"\x85\xc2", b"\xc2")], ["a\x0bb\x85c"]),
    ],
)
def test_only_a_newline_ends_a_line_wherever_the_pieces_break(arriving, pieces, lines):
    arriving(*pieces)
    assert [line for (line,) in arriving_lines(1)] == lines


def test_the_line_that_is_not_utf8_is_named(arriving):
    arriving(b"a\n\xff\n")
    lines = arriving_lines(1)
    assert next(lines) == ["a"]
    with pytest.raises(DataError, match="standard input, line 2: not UTF-8"):
        next(lines)
