"""Scores of captions: worked by hand, and laws that hold for any."""

import math

import pytest

from regard.core.errors import DataError
from regard.evaluation.captions import cider, meteor_stem, n_grams, rouge_l_coco, words_of
from regard.evaluation.metrics import METRICS

CAPTIONS = ["a red circle", "a small blue star", "two green moons left of a cross"]
REFERENCES = [[one, f"there is {one}"] for one in CAPTIONS]


def test_words_are_lower_cased_and_punctuation_is_dropped():
    assert words_of("L'animal, (the Dog) isn't well-known.") == (
        "l'animal", "the", "dog", "isn't", "well-known",
    )  # fmt: skip


@pytest.mark.parametrize("score", [cider, rouge_l_coco, meteor_stem])
def test_a_perfect_caption_is_better_than_any_other(score):
    best = score(CAPTIONS, REFERENCES)
    assert best > score(["a red star", *CAPTIONS[1:]], REFERENCES)
    assert best > score(CAPTIONS[::-1], REFERENCES)
    assert score(["", "", ""], REFERENCES) == 0
    assert score(["nothing alike"] * 3, REFERENCES) == 0


def test_one_reference_may_stand_alone():
    assert rouge_l_coco(CAPTIONS, CAPTIONS) == rouge_l_coco(CAPTIONS, [[one] for one in CAPTIONS])
    assert rouge_l_coco(CAPTIONS, CAPTIONS) == pytest.approx(100)


def test_n_grams_have_one_to_four_words():
    counts = n_grams(("a", "b", "a", "b", "c"))
    assert counts["a",] == counts["b",] == counts["a", "b"] == 2
    assert counts["a", "b", "a", "b"] == counts["b", "a", "b", "c"] == 1
    assert max(map(len, counts)) == 4


def test_cider_by_hand():
    """Two pictures; *a* is in both and weighs nothing, the other words weigh ln 2."""
    found = cider(["a red", "a blue"], ["a red", "a green"])
    # First: 1-grams (red) and 2-grams (a red) agree fully, 3- and 4-grams do not exist.
    assert found == pytest.approx(10 * (2 / 4 + 0) / 2)


def test_cider_punishes_other_lengths_and_repetition():
    refs = ["a red circle here", "one blue star there"]
    once = cider(["a red circle here", "x"], refs)
    longer = cider(["a red circle here and again here here", "x"], refs)
    repeated = cider(["red red red red", "x"], refs)
    assert once > longer > repeated
    assert cider(["a red circle here", "x"], refs) == pytest.approx(5.0)


def test_rouge_by_hand():
    """LCS of 3 in 4 and 5 words; precision and recall may come from two references."""
    assert rouge_l_coco(["a b c d"], ["a x c y d"]) == pytest.approx(
        100 * 2.44 * (3 / 4) * (3 / 5) / (3 / 5 + 1.44 * 3 / 4)
    )
    both = rouge_l_coco(["a b c d"], [["a b c d e f g h", "a b"]])
    assert both == pytest.approx(100)  # all of it is in the first, and all of the second is in it


def test_meteor_by_hand():
    """Four of five words match in two runs, one of them by its stem."""
    found = meteor_stem(["the cats sat on mats"], ["the cat sat near mats"])
    f = 0.8 * 0.8 / (0.9 * 0.8 + 0.1 * 0.8)
    assert found == pytest.approx(100 * f * (1 - 0.5 * (2 / 4) ** 3))
    assert meteor_stem(["a cat"], ["a cat"]) == pytest.approx(100 * (1 - 0.5 / 8))


def test_lists_that_do_not_go_together_are_refused():
    with pytest.raises(DataError, match="equally many"):
        cider(["a"], ["a", "b"])


def test_they_are_metrics_with_signatures():
    for name in ("cider", "rouge_l_coco", "meteor_stem"):
        assert METRICS[name].better == "higher"
        assert METRICS[name].signature()
    assert math.isfinite(METRICS["cider"](CAPTIONS, REFERENCES))
