import gzip

import pytest

from regard.core.errors import DataError
from regard.data.alignments import Aligned, read_aligned


@pytest.fixture
def write(tmp_path):
    def write(texts: str, links: str, packed: bool = True):
        paths = []
        for name, content in {"pairs": texts, "gold": links}.items():
            path = tmp_path / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
            paths.append(path)
        return paths

    return write


def told(paths):
    with pytest.raises(DataError) as caught:
        read_aligned(*paths)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("packed", [True, False])
def test_links_are_counted_from_zero_and_sure_ones_told_from_possible_ones(write, packed):
    paths = write("oh , l' été   ||| so  summer  \nno ||| non\n", "1-1 4p2 4-2\n1p1\n", packed)
    assert read_aligned(*paths) == [
        Aligned(("oh", ",", "l'", "été"), ("so", "summer"), ((0, 0), (3, 1)), ((3, 1),)),
        Aligned(("no",), ("non",), (), ((0, 0),)),
    ]


def test_a_sentence_may_have_no_link_but_not_all_of_them(write):
    assert read_aligned(*write("a ||| b\nc ||| d\n", "1-1\n\n"))[1].sure == ()
    paths = write("a ||| b\nc ||| d\n", "\n\n")
    assert told(paths) == f"{paths[1]}: no links at all; expected lines such as 1-1 2p3"


@pytest.mark.parametrize("line", ["a b", "a ||| ", "||| b", "a ||| b ||| c", ""])
def test_a_line_that_is_no_pair_is_located(write, line):
    paths = write(f"a ||| b\n{line}\n", "1-1\n1-1\n")
    assert told(paths).startswith(f"{paths[0]}:2: expected words, |||, words, but found ")


@pytest.mark.parametrize("link", ["1", "1:1", "1-", "a-b", "1P1", "-1-1", "1-1,2-2"])
def test_a_link_that_is_none_is_located(write, link):
    paths = write("a ||| b\n", f"1-1 {link}\n")
    assert told(paths).startswith(f"{paths[1]}:1: expected links such as 1-1 (sure) or 2p3")
    assert told(paths).endswith(repr(link))


@pytest.mark.parametrize("link", ["0-1", "1-0", "3-1", "1p4"])
def test_a_link_to_no_word_is_located(write, link):
    paths = write("a ||| b\nc d ||| e f g\n", f"1-1\n2-3 {link}\n")
    assert told(paths) == (
        f"{paths[1]}:2: link {link} does not fit a pair of 2 and 3 words, counted from 1; "
        "do the files belong together, source first?"
    )


def test_gold_for_fewer_sentences_is_refused(write):
    paths = write("a ||| b\nc ||| d\n", "1-1\n")
    assert told(paths).startswith(f"files of unequal length: {paths[1]} ends after line 1, ")


def test_a_missing_file_and_one_that_is_not_packed_are_named(write, tmp_path):
    paths = write("a ||| b\n", "1-1\n")
    assert told((paths[0], tmp_path / "gld.gz")).startswith("no file gld.gz in ")
    paths[1].write_text("1-1, and long enough for a header\n")
    assert "packed data is cut short or damaged after line 0" in told(paths)
