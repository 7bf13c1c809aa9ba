import gzip
import lzma
from pathlib import Path

import pytest

from regard.core.errors import DataError
from regard.data.lines import LONGEST, present, read_lines, read_parallel


def told(path):
    with pytest.raises(DataError) as caught:
        list(read_lines(path))
    return str(caught.value)


@pytest.fixture
def write(tmp_path):
    def write(content: bytes, name: str = "a.en"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("content", [b"one\ntwo\n", b"one\ntwo", b"one\r\ntwo\r\n"])
def test_lines_lose_their_ends_whatever_they_are(write, content):
    assert list(read_lines(write(content))) == ["one", "two"]


def test_only_a_newline_ends_a_line(write):
    strange = "a\x0bb\x0cc\x1cd\x85e\u2028f\rg"
    assert list(read_lines(write(f"{strange}\nnext\n".encode()))) == [strange, "next"]


def test_a_byte_order_mark_is_no_text_at_the_start_and_text_elsewhere(write):
    assert list(read_lines(write("\ufeffone\n\ufefftwo\n".encode()))) == ["one", "\ufefftwo"]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_are_unpacked(write, suffix, pack):
    assert list(read_lines(write(pack("é\nü\n".encode()), "a" + suffix))) == ["é", "ü"]


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress)])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(write, suffix, pack):
    path = write(pack(b"fine\n" + b"x" * (LONGEST + 2)), "a" + suffix)
    assert told(path) == f"{path}:2: a line of more than 16 MiB; is this a text file?"


def test_a_file_is_present_plain_or_packed(write, tmp_path):
    packed = write(gzip.compress(b""), "a.en.gz")
    assert present(tmp_path / "a.en") == packed
    assert present(packed) == packed
    assert present(tmp_path / "a.fr") is None
    plain = write(b"")
    assert present(tmp_path / "a.en") == plain


def test_a_byte_that_is_not_utf8_is_located(write):
    path = write(b"fine\ncaf\xe9\nfine\n")
    assert told(path) == (f"{path}:2: not UTF-8 (byte 0xe9 at column 4); save the file as UTF-8")


def test_a_character_cut_in_half_is_located(write):
    path = write("fine\né".encode()[:-1])
    assert told(path).startswith(f"{path}:2: not UTF-8 (byte 0xc3 at column 1)")


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("héllo\n".encode("utf-16"), "it looks like UTF-16; save it as UTF-8"),
        (gzip.compress(b"hello\n", mtime=0), "it looks like gzip; let its name end in .gz"),
        (lzma.compress(b"hello\n"), "it looks like xz; let its name end in .xz"),
    ],
)
def test_another_format_is_recognised(write, content, hint):
    path = write(content)
    assert told(path).startswith(f"{path}:1: not UTF-8")
    assert told(path).endswith(hint)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_packed_file_that_is_cut_short_is_named(write, suffix, pack):
    packed = pack(b"".join(b"line %d\n" % i for i in range(9999)))
    path = write(packed[: len(packed) // 2], "a" + suffix)
    assert f"{path}: packed data is cut short or damaged after line" in told(path)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_file_that_is_not_packed_as_its_name_says_is_named(write, suffix):
    path = write(b"just some text, long enough for a header\n", "a" + suffix)
    assert f"{path}: packed data is cut short or damaged after line 0" in told(path)


def test_damage_inside_a_packed_file_is_named(write):
    packed = bytearray(gzip.compress(b"".join(b"line %d\n" % i for i in range(999))))
    packed[len(packed) // 2] ^= 0xFF
    assert "cut short or damaged" in told(write(bytes(packed), "a.gz"))


def test_a_missing_file_is_answered_with_the_nearest_name(write, tmp_path):
    write(b"one\n", "train.en")
    path = tmp_path / "trian.en"
    assert told(path) == f"no file trian.en in {tmp_path} (did you mean 'train.en'?)"


def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "nowhere" / "train.en"
    assert told(path) == f"no file {path}: there is no folder {tmp_path / 'nowhere'}"


def test_a_folder_is_no_file(tmp_path):
    assert told(tmp_path) == f"cannot read {tmp_path}: Is a directory"


def test_a_text_where_a_file_is_asked_for_is_told_in_short():
    message = told(Path("the town lies by the sea. " * 40))
    assert message.startswith("'the town lies by the sea.")
    assert message.endswith("standard input")
    assert len(message) < 130


def test_parallel_lines_keep_empty_ones(write):
    source, target = write(b"a\n\nc\n", "s"), write(b"x\ny\n\n", "t")
    assert list(read_parallel(source, target)) == [("a", "x"), ("", "y"), ("c", "")]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("line", "quoted"), [("extra", "'extra'"), ("", "it is empty")])
def test_unequal_lengths_are_told_with_both_counts_and_the_first_surplus_line(
    write, swapped, line, quoted
):
    short, long = write(b"1\n2\n3\n", "short"), write(f"1\n2\n3\n{line}\n5\n".encode(), "long")
    with pytest.raises(DataError) as caught:
        list(read_parallel(long, short) if swapped else read_parallel(short, long))
    assert str(caught.value) == (
        f"files of unequal length: {short} ends after line 3, {long} after line 5; "
        f"line 4 of {long} ({quoted}) is the first without a partner"
    )


def test_an_empty_file_beside_a_full_one_is_named(write):
    empty, full = write(b"", "empty"), write(b"a\n", "full")
    with pytest.raises(DataError, match=f"{empty}: empty, but {full} is not"):
        list(read_parallel(full, empty))


def test_a_long_line_is_quoted_by_its_beginning(write):
    short, long = write(b"1\n", "short"), write(b"1\n" + b"x" * 100 + b"\n", "long")
    with pytest.raises(DataError, match=rf"\('{'x' * 40}…'\)"):
        list(read_parallel(short, long))
