"""Files of word vectors: what is read, and what is told."""

import gzip

import numpy as np
import pytest

from regard.core.errors import ConfigError, DataError
from regard.data.word_vectors import read_vectors, write_vectors

LINES = "the 0.5 -1 2e-1\nof 1 2 3\nnew york 4 5 6\n"
WANTED = {"the", "new york", "absent"}


@pytest.fixture
def write(tmp_path):
    def write(text, name="vectors.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def read(path, d_model=3):
    return {word: [*vector] for word, vector in read_vectors(path, WANTED, d_model).items()}


EXPECTED = {"the": [np.float32(0.5), -1, np.float32(0.2)], "new york": [4, 5, 6]}


@pytest.mark.parametrize(
    "text",
    [
        LINES,
        "3 3\n" + LINES,
        LINES.replace("\n", " \n"),
        LINES.replace("\n", "\r\n") + "\n\n",
        LINES + "the 7 7 7\n",
    ],
    ids=["plain", "headed", "trailing spaces", "other line ends", "a word twice"],
)
def test_the_words_that_are_wanted_are_read(write, text):
    assert read(write(text)) == EXPECTED


def test_a_packed_file_is_read_too(write):
    assert read(write(gzip.compress(("3 3\n" + LINES).encode()), "vectors.txt.gz")) == EXPECTED


def test_a_space_that_divides_nothing_is_part_of_a_word(write):
    words = "a\u00a0b", ". .", "\u2028"
    path = write("".join(f"{word} {i} 2 3\n" for i, word in enumerate(words)))
    found = read_vectors(path, words, 3)
    assert [found[word][0] for word in words] == [0, 1, 2]


@pytest.mark.parametrize("header", ["", "3 3\n"])
def test_another_width_is_told_with_both_and_the_setting(write, header):
    path = write(header + LINES)
    with pytest.raises(ConfigError) as caught:
        read(path, d_model=4)
    assert str(caught.value) == (
        f"train.vectors: {path} has vectors of 3 numbers, but model.d_model is 4; set "
        "model.d_model=3, or take other vectors"
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a 1 2 3\nb 1 2\n", 2, "a word and 3 numbers, divided by single spaces, but found 2"),
        ("a 1 2 3\nabsent 1 2\n", 2, "but found 2 after the first space in 'absent 1 2'"),
        ("2 3\na 1 2 3\nthe 1 x 3\n", 3, "'the 1 x 3' (could not convert string to float: 'x')"),
        ("the quick brown fox\n", 1, "expected a word and its numbers"),
        ("a 1 2 3\nthe 1 nan 3\n", 2, "a number is infinite or none at all"),
        ("a 1 2 3\nthe 1 1e99 3\n", 2, "a number is infinite or none at all"),
        ("a 1 2 3\n 1 2 3\n", 2, "expected a word and 3 numbers"),
        (b"a 1 2 3\n\xff 1 2 3\n", 2, "not UTF-8"),
    ],
)
def test_a_bad_line_is_told_with_its_number(write, text, line, message):
    path = write(text)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)


def test_a_file_that_is_cut_short_or_empty_is_told(write):
    path = write("3 3\na 1 2 3\n")
    with pytest.raises(DataError, match="first line promises 3 words, but there are 1; fetch it"):
        read(path)
    with pytest.raises(DataError, match="no vector in it"):
        read(write(""))
    with pytest.raises(DataError, match="no vector in it"):
        read(write("0 3\n"))


def test_what_is_written_is_read_back_to_the_last_bit(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    write_vectors(tmp_path / "own.txt", ["the", "new york"], numbers)
    assert (tmp_path / "own.txt").read_text().startswith("2 3\nthe ")
    found = read_vectors(tmp_path / "own.txt", WANTED, 3)
    assert np.array_equal(np.stack([found["the"], found["new york"]]), numbers)
