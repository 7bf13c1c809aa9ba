"""ROUGE by the package rouge-score, against values worked by hand."""

import pytest

from regard.core.errors import DataError
from regard.evaluation.metrics import METRICS, computed

SAID, RIGHT = "the cat sat", "the cat ran fast"


@pytest.mark.parametrize(
    ("name", "said", "right", "expected"),
    [
        ("rouge1", SAID, RIGHT, 2 * 2 / (3 + 4)),  # the, cat
        ("rouge2", SAID, RIGHT, 2 * 1 / (2 + 3)),  # the cat
        ("rouge_l", SAID, RIGHT, 2 * 2 / (3 + 4)),
        ("rouge1", "dog bird", "bird dog", 1.0),
        ("rouge_l", "dog bird", "bird dog", 2 * 1 / (2 + 2)),  # order counts
        ("rouge_l", "one two three four", "one three five four", 2 * 3 / (4 + 4)),
        ("rouge1", "Cats, running!", "cat runs", 1.0),  # stems, no case, no punctuation
        ("rouge1", "dog dog dog", "dog cat", 2 * 1 / (3 + 2)),  # each word of the reference once
        ("rouge_l", "", RIGHT, 0.0),
    ],
)
def test_one_text(name, said, right, expected):
    assert METRICS[name]([said], [right]) == pytest.approx(100 * expected)


def test_a_corpus_has_the_mean_of_its_texts_whatever_their_length():
    long = "one two three four five six seven"
    assert METRICS["rouge1"]([long, "dog"], [long, "cat"]) == pytest.approx(50)


def test_of_several_references_the_nearest_counts_text_by_text():
    references = [["no such words", RIGHT], ["dog", "cat"]]
    expected = 100 * (2 * 2 / 7 + 1) / 2
    assert METRICS["rouge_l"]([SAID, "dog"], references) == pytest.approx(expected)


def test_the_signature_says_how():
    scores = computed(("rouge_l",), [SAID], [[RIGHT, "dog"]])
    assert scores["rouge_l_signature"].startswith("nrefs:2|F1|stemmer:porter|")
    assert "rouge-score:0." in scores["rouge_l_signature"]
    assert METRICS["rouge1"].signature([RIGHT, [RIGHT, "dog"]]).startswith("nrefs:var|")


def test_what_does_not_go_together_is_refused():
    with pytest.raises(DataError, match="must be equally many"):
        METRICS["rouge2"]([SAID], [RIGHT, RIGHT])
