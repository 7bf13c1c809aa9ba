import pytest

from regard.core.errors import ConfigError, DataError
from regard.evaluation.systems import by_length
from regard.evaluation.text_metrics import bleu


def of(n):
    return " ".join("abcdefghij"[:n])


def test_each_sentence_falls_into_the_bucket_of_its_source_length():
    sources = [of(1), of(3), of(4), of(5), of(7)]
    buckets = by_length(sources, sources, sources, edges=(3, 5))
    assert [(b.low, b.high, b.n) for b in buckets] == [(0, 3, 2), (4, 5, 2), (6, None, 1)]


def test_length_is_counted_in_words_not_in_spaces():
    (bucket,) = by_length(["l'animal n'a pas dormi."], ["x"], ["x"], edges=(6, 7))
    assert (bucket.low, bucket.high) == (7, 7)


def test_scores_belong_to_the_bucket_alone():
    sources = [of(2), of(2), of(6), of(6)]
    references = [of(5), of(5), of(8), of(8)]
    hypotheses = [of(5), "x", of(8), of(8)]
    short, long = by_length(sources, hypotheses, references, edges=(3,))
    assert (short.exact_match, long.exact_match) == (0.5, 1.0)
    assert short.bleu == pytest.approx(bleu(hypotheses[:2], references[:2]))
    assert long.bleu == pytest.approx(100)


def test_buckets_without_sentences_are_left_out():
    assert [b.low for b in by_length([of(9)], ["x"], ["x"], edges=(2, 4, 8))] == [9]


def test_perfect_sentences_too_short_for_four_grams_score_100():
    (bucket,) = by_length(["john sleeps"], ["john dort"], ["john dort"])
    assert bucket.bleu == pytest.approx(100)


def test_edges_must_rise():
    with pytest.raises(ConfigError, match=r"must rise, got \(5, 3\)"):
        by_length(["a"], ["a"], ["a"], edges=(5, 3))


def test_unequal_counts_are_refused():
    with pytest.raises(DataError, match="1 sources, 2 hypotheses, 2 references"):
        by_length(["a"], ["a", "b"], ["a", "b"])
