"""Files cut into parts, and who may answer them."""

import pytest

from regard.core.errors import DataError
from regard.runs import parts
from regard.runs.parts import Part, looked_through, matching


def cut(path, size):
    """The parts of a file."""
    file = looked_through(path, size)
    for n, start in enumerate(file.starts):
        n_lines = min(size, file.n_lines - n * size)
        yield Part(path, start, n * size, n_lines, n, path.with_suffix(f".{n}"), path)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("end", ["\n", ""])
def test_parts_are_the_lines_of_the_file(tmp_path, size, end):
    wanted = ["a", "", "ç d", "form\ffeed \u2028 inside", "e"]
    path = tmp_path / "lines.txt"
    path.write_bytes(b"\xef\xbb\xbf" + ("\r\n".join(wanted) + end).encode())
    some = list(cut(path, size))
    found = [lines for part in some for lines in part.read(2)]
    assert [line for lines in found for line in lines] == wanted
    assert max(map(len, found)) <= 2
    assert sum(part.n_lines for part in some) == len(wanted)


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("a\nb\nc\n")
    file = looked_through(path, 2)
    last = list(cut(path, 2))[-1]
    assert not file.changed()
    path.write_text("a\nb\n")
    assert file.changed()
    with pytest.raises(DataError, match="cut short"):
        list(last.read(5))


def test_what_is_no_text_is_refused_with_its_line(tmp_path, monkeypatch):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\n\xff\n")
    with pytest.raises(DataError, match=r"lines.txt, line 2: not UTF-8 .*; save it as UTF-8"):
        looked_through(path, 10)
    path.write_bytes(b"\x1f\x8b\x08\xff")
    with pytest.raises(DataError, match=r"line 1: not UTF-8 .*; unpack it first"):
        looked_through(path, 10)
    monkeypatch.setattr(parts, "LONGEST", 4)
    path.write_bytes(b"abc\nabcd\n")
    with pytest.raises(DataError, match="line 2: a line of more than"):
        looked_through(path, 10)


def test_names_and_globs_mean_files_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "c[1].txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "z.txt").mkdir()
    names = [path.name for path in matching(["c[1].txt", "[ab].txt"])]
    assert names == ["c[1].txt", "a.txt", "b.txt"]
    assert matching([str(tmp_path / "*.txt")])[0] == tmp_path / "a.txt"
    for wrong, why in (("x*", "names no file"), ("z*", "names no file"), ("z.txt", "is a folder")):
        with pytest.raises(DataError, match=why):
            matching([wrong])
    with pytest.raises(DataError, match="is not a plain file"):
        matching(["/dev/null"])
