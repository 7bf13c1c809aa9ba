import math

import pytest

from regard.core.errors import DataError
from regard.evaluation.text_scores import bleu, bleu_multi, chrf, exact_match


def test_bleu_equals_a_value_worked_by_hand():
    # a b c d e against a b c d f: 4/5 words, 3/4 pairs, 2/3 triples, 1/2 quadruples, same length.
    by_hand = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert bleu(["a b c d e"], ["a b c d f"]).value == pytest.approx(by_hand)


def test_bleu_punishes_what_is_too_short():
    # Everything written is right, four words for six: exp(1 - 6/4).
    by_hand = 100 * math.exp(1 - 6 / 4)
    assert bleu(["a b c d"], ["a b c d e f"]).value == pytest.approx(by_hand)


def test_bleu_of_several_references_equals_a_value_worked_by_hand():
    # a b c d e f against a b c x x x and x x c d e f: in one or the other are all 6 words, all 5
    # pairs, 3 of 4 triples (not bcd) and 1 of 3 quadruples (cdef).
    by_hand = 100 * (6 / 6 * 5 / 5 * 3 / 4 * 1 / 3) ** (1 / 4)
    score = bleu_multi(["a b c d e f"], [["a b c x x x", "x x c d e f"]])
    assert score.value == pytest.approx(by_hand)
    assert "nrefs:2" in score.signature


def test_one_reference_each_is_plain_bleu_and_some_with_more_are_told():
    hypotheses, references = ["a b c d", "a b c d e x"], ["a b c d", "a b c d e f"]
    assert bleu_multi(hypotheses, [[one] for one in references]) == bleu(hypotheses, references)
    more = bleu_multi(hypotheses, [references[:1], [references[1], "a b c d e x"]])
    assert more.value == pytest.approx(100)
    assert "nrefs:var" in more.signature


def test_corpus_bleu_is_not_the_mean_of_sentence_bleu():
    hypotheses = ["a b c d", "a b c d e f g x"]
    references = ["a b c d", "a b c d e f g h"]
    each = [bleu([h], [r]).value for h, r in zip(hypotheses, references, strict=True)]
    # Counts are summed first: 11/12 words, 9/10 pairs, 7/8 triples, 5/6 quadruples.
    by_hand = 100 * (11 / 12 * 9 / 10 * 7 / 8 * 5 / 6) ** (1 / 4)
    together = bleu(hypotheses, references).value
    assert together == pytest.approx(by_hand)
    assert abs(together - sum(each) / 2) > 1


def test_chrf_equals_a_value_worked_by_hand():
    # "abc" against "abd": orders 1 to 3 exist; precision = recall = mean(2/3, 1/2, 0/1).
    assert chrf(["abc"], ["abd"]).value == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


@pytest.mark.parametrize("score", [bleu, chrf])
def test_case_counts_unless_lowercase_is_asked_for_and_the_signature_says_which(score):
    mixed = score(["The Cat Sat Down"], ["the cat sat down"])
    lowered = score(["The Cat Sat Down"], ["the cat sat down"], lowercase=True)
    assert mixed.value < 100
    assert lowered.value == pytest.approx(100)
    assert "case:mixed" in mixed.signature
    assert "case:lc" in lowered.signature
    assert "nrefs:1" in mixed.signature
    assert "version:" in mixed.signature


def test_tokenised_full_stops_raise_no_warning(caplog):
    lines = ["the cat sat down ."] * 200
    assert bleu(lines, lines).value == pytest.approx(100)
    assert not caplog.records


def test_exact_match_forgives_spacing_and_nothing_else():
    references = ["je suis étudiant", "john aime mary", "l'animal", "non"]
    hypotheses = ["  je suis\tétudiant\n", "john aime mary.", "L'animal", "non"]
    assert exact_match(hypotheses, references) == 0.5


@pytest.mark.parametrize("score", [bleu, chrf, exact_match])
def test_unequal_counts_are_refused_with_both_named(score):
    with pytest.raises(DataError, match="3 hypotheses, 2 references"):
        score(["a", "b", "c"], ["a", "b"])


@pytest.mark.parametrize("score", [bleu, chrf, exact_match])
def test_nothing_to_score_is_refused(score):
    with pytest.raises(DataError, match="nothing to score"):
        score([], [])
