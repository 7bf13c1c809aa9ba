"""Each metric against values worked by hand or by loops, and the registry that knows them all."""

import math
import random

import pytest

from regard.core.errors import ConfigError, DataError
from regard.evaluation.label_metrics import accuracy, macro_f1, pearson, perplexity, spearman
from regard.evaluation.metrics import METRICS, check_metrics, computed, metric, titles
from regard.evaluation.text_metrics import bleu, chrf, exact_match, f1, gleu, normalised_answer

KNOWN = {
    "top5",
    "true_captions",
    "pointing_accuracy",
    "mass_inside",
    "rank_correlation",
    "loss",
    "perplexity",
    "bleu",
    "chrf",
    "exact_match",
    "accuracy",
    "macro_f1",
    "spearman",
}
KNOWN |= {"pearson", "f1", "aer", "antecedent_accuracy", "bleu_lc", "word_perplexity", "gleu"}
KNOWN |= {"rouge1", "rouge2", "rouge_l", "log_perplexity", "fact_attention"}
PERFECT = {
    "ranked labels": ([["b", "a"], ["a", "b"]], ["a", "a"]),
    "texts": (["a b c d", "e f g h"], ["a b c d", "e f g h"]),
    "labels": (["a", "b"], ["a", "b"]),
    "numbers": ([1.0, 2.0, 4.0], [1.0, 2.0, 4.0]),
    "links": ([{(0, 1)}, {(2, 2)}], [{(0, 1)}, {(2, 2)}]),
}
BEST = {"share": 1.0, "points": 100.0, "correlation": 1.0}


@pytest.fixture
def length_ratio():
    @metric("length_ratio", unit="ratio", better="higher", signature="characters")
    def ratio(predictions, references):
        return sum(map(len, predictions)) / sum(map(len, references))

    yield METRICS["length_ratio"]
    del METRICS._things["length_ratio"]


def of_texts_and_labels(one):
    """Whether it is one of those that every task may have; pictures have more in other modules."""
    return one.function is None or one.function.__module__ in (
        "regard.evaluation.text_metrics",
        "regard.evaluation.label_metrics",
    )


def test_the_registry_knows_every_score_of_an_evaluation():
    assert {name for name, one in METRICS.items() if of_texts_and_labels(one)} == KNOWN


@pytest.mark.parametrize(
    "name", [name for name, one in METRICS.items() if one.function and of_texts_and_labels(one)]
)
def test_what_is_perfect_has_the_best_value_of_its_unit(name):
    one = METRICS[name]
    best = BEST[one.unit] if one.better == "higher" else 0.0
    assert one(*PERFECT[one.takes]) == pytest.approx(best)


def test_the_direction_says_what_is_better():
    assert METRICS["bleu"].cost(40) < METRICS["bleu"].cost(30)
    assert METRICS["loss"].cost(1.0) < METRICS["loss"].cost(2.0)


def test_somebody_elses_metric_is_computed_like_ours(length_ratio):
    assert length_ratio.title == "length ratio"
    found = computed(["exact_match", "length_ratio"], ["ab", "c"], ["ab", "cdef"])
    wanted = {"exact_match": 0.5, "length_ratio": 0.5, "length_ratio_signature": "characters"}
    assert found == wanted
    check_metrics(["length_ratio"], "texts")


def test_a_name_that_is_entered_twice_is_refused_with_both_modules():
    with pytest.raises(ConfigError, match=f"by regard.evaluation.text_metrics and by {__name__}"):
        metric("bleu", unit="points", better="higher")(lambda predictions, references: 0.0)


def test_a_metric_that_a_task_cannot_supply_is_refused():
    with pytest.raises(ConfigError, match="bleu cannot be computed from labels.*macro_f1"):
        check_metrics(["accuracy", "bleu"], "labels")
    with pytest.raises(ConfigError, match="did you mean 'accuracy'"):
        check_metrics(["acuracy"], "labels")
    with pytest.raises(ConfigError, match="perplexity is measured on the model"):
        METRICS["perplexity"]([], [])


def test_titles_are_those_of_the_scores_there_are():
    found = titles({"n": 3, "macro_f1": 0.5, "accuracy": 0.4})
    assert found == {"accuracy": "accuracy", "macro_f1": "macro F1"}


def test_bleu_equals_a_value_worked_by_hand():
    # a b c d e against a b c d f: 4/5 words, 3/4 pairs, 2/3 triples, 1/2 quadruples, same length.
    by_hand = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert bleu(["a b c d e"], ["a b c d f"]) == pytest.approx(by_hand)


def test_bleu_punishes_what_is_too_short():
    # Everything written is right, four words for six: exp(1 - 6/4).
    by_hand = 100 * math.exp(1 - 6 / 4)
    assert bleu(["a b c d"], ["a b c d e f"]) == pytest.approx(by_hand)


def test_bleu_of_several_references_equals_a_value_worked_by_hand():
    # a b c d e f against a b c x x x and x x c d e f: in one or the other are all 6 words, all 5
    # pairs, 3 of 4 triples (not bcd) and 1 of 3 quadruples (cdef).
    by_hand = 100 * (6 / 6 * 5 / 5 * 3 / 4 * 1 / 3) ** (1 / 4)
    references = [["a b c x x x", "x x c d e f"]]
    assert bleu(["a b c d e f"], references) == pytest.approx(by_hand)
    assert "nrefs:2" in METRICS["bleu"].signature(references)


def test_one_reference_each_is_plain_bleu_and_some_with_more_are_told():
    hypotheses, references = ["a b c d", "a b c d e x"], ["a b c d", "a b c d e f"]
    assert bleu(hypotheses, [[one] for one in references]) == bleu(hypotheses, references)
    more = [references[:1], [references[1], "a b c d e x"]]
    assert bleu(hypotheses, more) == pytest.approx(100)
    assert "nrefs:var" in METRICS["bleu"].signature(more)


def test_corpus_bleu_is_not_the_mean_of_sentence_bleu():
    hypotheses = ["a b c d", "a b c d e f g x"]
    references = ["a b c d", "a b c d e f g h"]
    each = [bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
    # Counts are summed first: 11/12 words, 9/10 pairs, 7/8 triples, 5/6 quadruples.
    by_hand = 100 * (11 / 12 * 9 / 10 * 7 / 8 * 5 / 6) ** (1 / 4)
    together = bleu(hypotheses, references)
    assert together == pytest.approx(by_hand)
    assert abs(together - sum(each) / 2) > 1


def test_chrf_equals_a_value_worked_by_hand():
    # "abc" against "abd": orders 1 to 3 exist; precision = recall = mean(2/3, 1/2, 0/1).
    assert chrf(["abc"], ["abd"]) == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


def test_case_counts_unless_lowercase_is_asked_for_and_the_signature_says_which():
    found = computed(("bleu", "bleu_lc", "chrf"), ["The Cat Sat Down"], ["the cat sat down"])
    assert found["bleu"] < 100
    assert found["chrf"] < 100
    assert found["bleu_lc"] == pytest.approx(100)
    assert "case:mixed" in found["bleu_signature"]
    assert "case:lc" in found["bleu_lc_signature"]
    assert "nrefs:1" in found["chrf_signature"]
    assert "version:" in found["chrf_signature"]


def test_tokenised_full_stops_raise_no_warning(caplog):
    lines = ["the cat sat down ."] * 200
    assert bleu(lines, lines) == pytest.approx(100)
    assert not caplog.records


def test_exact_match_forgives_spacing_and_nothing_else():
    references = ["je suis étudiant", "john aime mary", "l'animal", "non"]
    hypotheses = ["  je suis\tétudiant\n", "john aime mary.", "L'animal", "non"]
    assert exact_match(hypotheses, references) == 0.5


@pytest.mark.parametrize("score", [bleu, chrf, exact_match])
def test_unequal_counts_are_refused_with_both_named(score):
    with pytest.raises(DataError, match="3 .*, 2 references"):
        score(["a", "b", "c"], ["a", "b"])


@pytest.mark.parametrize("score", [bleu, chrf, exact_match])
def test_nothing_to_score_is_refused(score):
    with pytest.raises(DataError, match="nothing to score"):
        score([], [])


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
    assert normalised_answer(answer) == plain


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
    with pytest.raises(DataError, match="1 predictions, 2 references"):
        f1(["a"], [["a"], ["b"]])
    with pytest.raises(DataError, match="nothing to score"):
        exact_match([], [])


def f1_by_loops(predicted, right):
    scores = []
    for label in {*predicted, *right}:
        hit = miss = false = 0
        for p, r in zip(predicted, right, strict=True):
            hit += p == label and r == label
            false += p == label and r != label
            miss += p != label and r == label
        precision = hit / (hit + false) if hit + false else 0
        recall = hit / (hit + miss) if hit + miss else 0
        both = precision + recall
        scores.append(2 * precision * recall / both if both else 0)
    return sum(scores) / len(scores)


def rank_by_loops(numbers, x):
    below = sum(y < x for y in numbers)
    equal = sum(y == x for y in numbers)
    return below + (equal + 1) / 2


def pearson_by_loops(a, b):
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    top = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    bottom = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return top / bottom


def drawn(seed, n=40, values=6):
    rng = random.Random(seed)
    return [rng.randrange(values) for _ in range(n)], [rng.randrange(values) for _ in range(n)]


@pytest.mark.parametrize("seed", range(5))
def test_macro_f1_is_that_of_precision_and_recall(seed):
    predicted, right = drawn(seed)
    assert macro_f1(predicted, right) == pytest.approx(f1_by_loops(predicted, right))


def test_a_label_that_is_never_given_counts_as_nothing():
    assert macro_f1(["a", "a"], ["a", "b"]) == pytest.approx((2 / 3 + 0) / 2)
    assert accuracy(["a", "a"], ["a", "b"]) == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_the_correlation_of_ranks_equals_sharing_theirs(seed):
    a, b = drawn(seed)
    ranks = [[rank_by_loops(side, x) for x in side] for side in (a, b)]
    assert spearman(a, b) == pytest.approx(pearson_by_loops(*ranks))
    assert pearson(a, b) == pytest.approx(pearson_by_loops(a, b))


def test_a_known_value():
    """Ranks 1 2 3 4 5 and 2 1 4 3 5: 1 - 6 · 4 / (5 · 24)."""
    assert spearman([1, 2, 3, 4, 5], [20, 10, 40, 30, 50]) == pytest.approx(0.8)


def test_what_is_always_the_same_has_no_correlation():
    assert math.isnan(pearson([1, 1, 1], [1, 2, 3]))


@pytest.mark.parametrize("measure", [accuracy, macro_f1, pearson, spearman])
def test_what_cannot_be_compared_is_refused(measure):
    with pytest.raises(DataError):
        measure([1, 2], [1])
    with pytest.raises(DataError):
        measure([], [])


def test_perplexity_is_the_geometric_mean_of_one_over_the_probabilities():
    probabilities = [0.5, 0.125, 0.25]
    total = sum(math.log(p) for p in probabilities)
    assert perplexity(total, 3) == pytest.approx((2 * 8 * 4) ** (1 / 3))


def test_certainty_has_perplexity_one():
    assert perplexity(0.0, 7) == 1.0


def test_a_perplexity_beyond_all_floats_is_infinite():
    assert perplexity(-1e6, 1) == math.inf


def test_perplexity_of_nothing_is_refused():
    with pytest.raises(DataError, match="at least one token, got 0"):
        perplexity(0.0, 0)


def gleu_by_loops(said, right):
    """The smaller of precision and recall of all 1- to 4-grams, matching them one by one."""
    said, right = said.split(), right.split()
    ours = [said[i : i + n] for n in (1, 2, 3, 4) for i in range(len(said) - n + 1)]
    theirs = [right[i : i + n] for n in (1, 2, 3, 4) for i in range(len(right) - n + 1)]
    left, n_shared = list(theirs), 0
    for one in ours:
        if one in left:
            left.remove(one)
            n_shared += 1
    return min(n_shared / len(ours), n_shared / len(theirs)) if ours and theirs else 0.0


def test_gleu_is_the_smaller_of_precision_and_recall_in_the_mean_of_sentences():
    rng = random.Random(3)
    text = lambda: " ".join(rng.choice("abc") for _ in range(rng.randint(1, 9)))  # noqa: E731
    pairs = [(text(), text()) for _ in range(60)]
    each = [gleu_by_loops(said, right) for said, right in pairs]
    assert [gleu([said], [right]) for said, right in pairs] == pytest.approx(each)
    assert 0.1 < sum(each) / 60 < 0.9
    assert gleu(*map(list, zip(*pairs, strict=True))) == pytest.approx(sum(each) / 60)


def test_gleu_takes_the_nearest_reference_and_tells_marks_from_words():
    assert gleu(["a b c"], [["x", "a b c", "a b"]]) == 1.0
    assert gleu(["yes."], ["yes ."]) == 1.0
    assert gleu([""], ["a b"]) == gleu(["a b"], [""]) == 0.0
    assert gleu([""], [""]) == 1.0
