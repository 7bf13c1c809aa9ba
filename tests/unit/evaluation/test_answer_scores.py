"""SQuAD's scores against values worked by hand."""

import pytest

from regard.core.errors import DataError
from regard.evaluation.answers import exact_match, f1, normalised


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("The Cat", "cat"),
        ("an apple, a pear", "apple pear"),
        ("another theme", "another theme"),  # no articles inside of words
        ("U.S.", "us"),
        ("well-known  (old)", "wellknown old"),
        ("The a an", ""),
        ("Élan «x»", "élan «x»"),  # only ASCII's punctuation goes
    ],
)
def test_case_punctuation_and_articles_do_not_count(answer, plain):
    assert normalised(answer) == plain


def test_the_best_of_several_right_answers_counts():
    given = ["The old cat", "in 1999", "Bob"]
    right = [["a cat", "old cat!"], ["1999"], ["Ann", "Eve"]]
    assert exact_match(given, right) == pytest.approx(1 / 3)
    # 1: both words of the second. 2: "in 1999" has one of one right and one of two given: 2/3.
    assert f1(given, right) == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_words_count_as_often_as_they_stand_there():
    # shared: two "x" and one "y" of (x x y) and (x x y y z): 2 · 3 / (3 + 5)
    assert f1(["x x y"], [["x x y y z"]]) == pytest.approx(6 / 8)


def test_an_answer_without_words_is_right_only_where_none_is_wanted():
    assert f1(["the"], [["a"]]) == 1.0
    assert f1(["the"], [["cat"]]) == 0.0
    assert exact_match(["the"], [["a", "cat"]]) == 1.0


def test_numbers_of_answers_must_agree():
    with pytest.raises(DataError, match="1 answers were given to 2 questions"):
        f1(["a"], [["a"], ["b"]])
    with pytest.raises(DataError, match="no answers to be scored"):
        exact_match([], [])
