import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DataError, ShapeError
from regard.evaluation.attention import ALIGNMENT, ANTECEDENTS, Watched, links, words_matrix
from regard.evaluation.label_metrics import alignment_error_rate


def test_error_rate_worked_by_hand():
    # |A| = 3, |S| = 2, |A∩S| = 1, P has S and (2, 2): |A∩P| = 2.
    predicted, sure, possible = {(0, 0), (2, 2), (3, 1)}, {(0, 0), (1, 1)}, {(2, 2)}
    assert alignment_error_rate([predicted], [sure], [possible]) == pytest.approx(1 - 3 / 5)


def test_without_possible_links_it_is_one_minus_f1():
    predicted, sure = {(0, 0), (1, 2), (2, 1)}, {(0, 0), (1, 1)}
    precision, recall = 1 / 3, 1 / 2
    f1 = 2 * precision * recall / (precision + recall)
    assert alignment_error_rate([predicted], [sure]) == pytest.approx(1 - f1)


def test_possible_links_are_forgiven_but_not_asked_for():
    sure, possible = {(0, 0)}, {(0, 0), (1, 1)}
    assert alignment_error_rate([sure], [sure], [possible]) == 0.0
    assert alignment_error_rate([possible], [sure], [possible]) == 0.0
    assert alignment_error_rate([possible], [sure]) > 0.0


def test_the_corpus_rate_counts_links_and_not_sentences():
    # One right link in the first sentence, three wrong in the second: 1 - 2/(4 + 4).
    predicted = [{(0, 0)}, {(0, 1), (1, 2), (2, 0)}]
    sure = [{(0, 0)}, {(0, 0), (1, 1), (2, 2)}]
    assert alignment_error_rate(predicted, sure) == pytest.approx(3 / 4)


def test_no_links_at_all_are_refused():
    with pytest.raises(DataError, match="needs links"):
        alignment_error_rate([set()], [set()])


def test_unequal_counts_of_sentences_are_refused():
    with pytest.raises(DataError, match="1 predicted, 2 sure"):
        alignment_error_rate([{(0, 0)}], [{(0, 0)}, {(1, 1)}])


# Source: <s>, two pieces of word 0, word 1, </s>. Target: word 0, two pieces of word 1, </s>.
SOURCE_WORDS = [None, 0, 0, 1, None]
TARGET_WORDS = [0, 1, 1, None]
WEIGHTS = np.array(
    [
        [0.1, 0.2, 0.25, 0.4, 0.05],
        [0.0, 0.6, 0.2, 0.1, 0.1],
        [0.5, 0.0, 0.0, 0.3, 0.2],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ]
)


def test_merging_sums_over_source_pieces_and_averages_over_target_pieces():
    by_hand = [[0.45, 0.4], [(0.8 + 0.0) / 2, (0.1 + 0.3) / 2]]
    np.testing.assert_allclose(words_matrix(WEIGHTS, SOURCE_WORDS, TARGET_WORDS), by_hand)


def test_links_use_whole_words():
    # No single piece of word 0 beats word 1 in the first row; together they do.
    assert links(words_matrix(WEIGHTS, SOURCE_WORDS, TARGET_WORDS)) == {(0, 0), (0, 1)}


def test_merging_keeps_leading_axes():
    both = words_matrix(np.stack((WEIGHTS, 2 * WEIGHTS)), SOURCE_WORDS, TARGET_WORDS)
    one = words_matrix(WEIGHTS, SOURCE_WORDS, TARGET_WORDS)
    np.testing.assert_allclose(both, np.stack((one, 2 * one)))


WORDS = st.lists(st.none() | st.integers(0, 4), max_size=8)


@given(WORDS, WORDS)
def test_merging_equals_loops(source_words, target_words):
    """Words may lie anywhere, have no token, or several that are apart."""
    weights = np.random.default_rng(0).random((2, len(target_words), len(source_words)))
    both = (target_words, source_words)
    sizes = [1 + max((word for word in words if word is not None), default=-1) for words in both]
    by_loops = np.zeros((2, *sizes))
    for t, target in enumerate(target_words):
        for s, source in enumerate(source_words):
            if target is not None and source is not None:
                by_loops[:, target, source] += weights[:, t, s] / target_words.count(target)
    np.testing.assert_allclose(words_matrix(weights, source_words, target_words), by_loops)


def test_one_token_a_word_changes_nothing():
    square = np.random.default_rng(0).random((3, 4))
    np.testing.assert_array_equal(words_matrix(square, range(4), range(3)), square)


def test_a_target_word_without_tokens_or_weight_gets_no_link():
    weights = np.array([[0.3, 0.7], [0.0, 0.0]])
    assert links(words_matrix(weights, [0, 1], [0, 3])) == {(1, 0)}


def test_special_tokens_alone_give_no_links():
    assert links(words_matrix(np.ones((1, 2)), [None, None], [0])) == set()
    assert links(words_matrix(np.ones((2, 1)), [0], [None, None])) == set()


def test_words_for_another_number_of_tokens_are_refused():
    with pytest.raises(ShapeError, match=r"weights \(4, 5\) .* \(4, 3\) tokens"):
        words_matrix(WEIGHTS, [0, 1, 2], TARGET_WORDS)


def diagonal(n):
    return tuple((i, i) for i in range(n))


def test_the_head_is_chosen_on_valid_and_scored_on_test():
    eye, other = np.eye(4), np.roll(np.eye(4), 1, axis=1)
    valid = [Watched({"good here": eye, "good there": other}, diagonal(4))]
    test = [Watched({"good here": other, "good there": eye}, diagonal(4))]
    choice = ALIGNMENT.chosen(valid, test)
    assert (choice.label, choice.valid, choice.test) == ("good here", 0.0, 1.0)


def test_the_shuffled_baseline_is_near_chance():
    sentences = [Watched({"head": np.eye(5)}, diagonal(5)) for _ in range(40)]
    choice = ALIGNMENT.chosen(sentences, sentences, seed=1)
    assert choice.test == 0.0
    assert choice.baseline == pytest.approx(4 / 5, abs=0.03)


def test_links_are_source_first_while_rows_are_targets():
    # Target words 0 and 1 both look at source word 2.
    weights = np.array([[0.0, 0.1, 0.9], [0.2, 0.0, 0.8]])
    watched = [Watched({"head": weights}, ((2, 0), (2, 1)))]
    assert ALIGNMENT.chosen(watched, watched).test == 0.0


def test_possible_links_are_forgiven_on_both_sides_of_the_choice():
    eye, other = np.eye(4), np.roll(np.eye(4), 1, axis=1)
    rolled = tuple(((t + 1) % 4, t) for t in range(4))
    both = {"sure": eye, "maybe": other}
    valid = [Watched(both, diagonal(2))]
    test = [Watched(both, diagonal(2))]
    plain = ALIGNMENT.chosen(valid, test)
    assert plain.label == "sure"
    assert plain.test == pytest.approx(1 - (2 + 2) / (4 + 2))
    # With the other half of the diagonal possible on test only, the same choice is without error.
    choice = ALIGNMENT.chosen(valid, [Watched(both, diagonal(2), diagonal(4))])
    assert (choice.label, choice.valid, choice.test) == ("sure", plain.valid, 0.0)
    # Possible links on valid can turn the choice: 4 of 6 and 4 of 6 before, now 4 + 4 of 8.
    gold = (*diagonal(1), *rolled[1:2])
    assert ALIGNMENT.chosen([Watched(both, gold, rolled)], test).label == "maybe"
    assert ALIGNMENT.chosen([Watched(both, gold, diagonal(4))], test).label == "sure"


def looking(*where, n_words=5):
    """(W, W) weights in which word i looks at where[i] with 0.4 and at itself with 0.6."""
    matrix = 0.6 * np.eye(n_words)
    for word, target in where:
        matrix[word, target] += 0.4
    return matrix


def test_accuracy_counts_pronouns_over_all_sentences():
    sentences = [
        Watched({"head": looking((3, 1), (4, 0))}, ((3, 1), (4, 2))),  # one of two
        Watched({"head": looking((2, 0))}, ((2, 0),)),
        Watched({"head": looking((2, 0))}, ()),  # no pronoun: no question
    ]
    assert ANTECEDENTS.by_head(sentences) == {"head": pytest.approx(2 / 3)}


def test_attention_of_the_pronoun_to_itself_is_set_aside():
    assert ANTECEDENTS.by_head([Watched({"h": looking((3, 1))}, ((3, 1),))]) == {"h": 1.0}
    assert ANTECEDENTS.by_head([Watched({"h": looking((3, 2))}, ((3, 1),))]) == {"h": 0.0}


def test_any_of_several_antecedents_is_right_and_the_pronoun_counts_once():
    both = Watched({"h": looking((4, 2))}, ((4, 0), (4, 2)))
    assert ANTECEDENTS.by_head([both]) == {"h": 1.0}


def test_a_pronoun_that_looks_at_nothing_finds_nothing():
    assert ANTECEDENTS.by_head([Watched({"h": np.eye(3)}, ((2, 0),))]) == {"h": 0.0}


def test_a_pronoun_that_was_cut_off_finds_nothing():
    assert ANTECEDENTS.by_head([Watched({"h": looking((3, 1))}, ((7, 1),))]) == {"h": 0.0}


def test_rows_ask_and_columns_are_looked_at():
    # Word 1 looks at word 3; word 3, the pronoun, looks at word 0.
    matrix = looking((1, 3), (3, 0))
    assert ANTECEDENTS.by_head([Watched({"h": matrix}, ((3, 1),))]) == {"h": 0.0}


def test_the_head_is_chosen_on_valid_and_not_on_test():
    right, wrong = looking((3, 1)), looking((3, 2))
    valid = [Watched({("layer", 0): wrong, ("layer", 1): right}, ((3, 1),))]
    test = [Watched({("layer", 0): right, ("layer", 1): wrong}, ((3, 1),))]
    choice = ANTECEDENTS.chosen(valid, test, seed=0)
    assert (choice.label, choice.valid, choice.test) == (("layer", 1), 1.0, 0.0)


def test_the_shuffled_baseline_is_one_in_the_number_of_candidates():
    sentences = [Watched({"h": looking((3, 1), n_words=6)}, ((3, 1),)) for _ in range(100)]
    choice = ANTECEDENTS.chosen(sentences, sentences, seed=0)
    assert choice.test == 1.0
    assert choice.baseline == pytest.approx(1 / 5, abs=0.03)


def test_the_baseline_never_hands_the_pronouns_own_weight_to_a_candidate():
    itself = [Watched({"h": np.eye(3)}, ((2, 0),)) for _ in range(20)]
    assert ANTECEDENTS.chosen(itself, itself).baseline == 0.0


def test_the_seed_decides_the_baseline():
    sentences = [Watched({"h": looking((3, 1))}, ((3, 1),)) for _ in range(7)]
    first, again = (
        [ANTECEDENTS.chosen(sentences, sentences, seed=s).baseline for s in range(6)] for _ in "ab"
    )
    assert first == again
    assert len(set(first)) > 1


def test_shuffling_leaves_the_given_weights_alone():
    matrix = looking((3, 1))
    before = matrix.copy()
    ANTECEDENTS.chosen([Watched({"h": matrix}, ((3, 1),))], [Watched({"h": matrix}, ((3, 1),))])
    np.testing.assert_array_equal(matrix, before)


def test_sentences_without_any_pronoun_are_refused():
    with pytest.raises(DataError, match="needs pronouns"):
        ANTECEDENTS.by_head([Watched({"h": np.eye(2)}, ())])


def test_no_sentence_at_all_is_refused():
    with pytest.raises(DataError, match="no sentence"):
        ANTECEDENTS.chosen([], [])


def test_a_head_that_some_sentences_lack_is_refused_by_name():
    sentences = [Watched({"h": np.eye(2)}, ((1, 0),)), Watched({}, ((1, 0),))]
    with pytest.raises(DataError, match="'h', 1 do not"):
        ANTECEDENTS.by_head(sentences)
