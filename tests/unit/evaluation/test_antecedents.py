import numpy as np
import pytest

from regard.core.errors import DataError
from regard.evaluation.antecedents import accuracy_by_head, chosen
from regard.evaluation.choosing import Watched


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
    assert accuracy_by_head(sentences) == {"head": pytest.approx(2 / 3)}


def test_attention_of_the_pronoun_to_itself_is_set_aside():
    assert accuracy_by_head([Watched({"h": looking((3, 1))}, ((3, 1),))]) == {"h": 1.0}
    assert accuracy_by_head([Watched({"h": looking((3, 2))}, ((3, 1),))]) == {"h": 0.0}


def test_any_of_several_antecedents_is_right_and_the_pronoun_counts_once():
    both = Watched({"h": looking((4, 2))}, ((4, 0), (4, 2)))
    assert accuracy_by_head([both]) == {"h": 1.0}


def test_a_pronoun_that_looks_at_nothing_finds_nothing():
    assert accuracy_by_head([Watched({"h": np.eye(3)}, ((2, 0),))]) == {"h": 0.0}


def test_a_pronoun_that_was_cut_off_finds_nothing():
    assert accuracy_by_head([Watched({"h": looking((3, 1))}, ((7, 1),))]) == {"h": 0.0}


def test_rows_ask_and_columns_are_looked_at():
    # Word 1 looks at word 3; word 3, the pronoun, looks at word 0.
    matrix = looking((1, 3), (3, 0))
    assert accuracy_by_head([Watched({"h": matrix}, ((3, 1),))]) == {"h": 0.0}


def test_the_head_is_chosen_on_valid_and_not_on_test():
    right, wrong = looking((3, 1)), looking((3, 2))
    valid = [Watched({("layer", 0): wrong, ("layer", 1): right}, ((3, 1),))]
    test = [Watched({("layer", 0): right, ("layer", 1): wrong}, ((3, 1),))]
    choice = chosen(valid, test, seed=0)
    assert (choice.label, choice.valid, choice.test) == (("layer", 1), 1.0, 0.0)


def test_the_shuffled_baseline_is_one_in_the_number_of_candidates():
    sentences = [Watched({"h": looking((3, 1), n_words=6)}, ((3, 1),)) for _ in range(100)]
    choice = chosen(sentences, sentences, seed=0)
    assert choice.test == 1.0
    assert choice.baseline == pytest.approx(1 / 5, abs=0.03)


def test_the_baseline_never_hands_the_pronouns_own_weight_to_a_candidate():
    itself = [Watched({"h": np.eye(3)}, ((2, 0),)) for _ in range(20)]
    assert chosen(itself, itself).baseline == 0.0


def test_the_seed_decides_the_baseline():
    sentences = [Watched({"h": looking((3, 1))}, ((3, 1),)) for _ in range(7)]
    first, again = ([chosen(sentences, sentences, seed=s).baseline for s in range(6)] for _ in "ab")
    assert first == again
    assert len(set(first)) > 1


def test_shuffling_leaves_the_given_weights_alone():
    matrix = looking((3, 1))
    before = matrix.copy()
    chosen([Watched({"h": matrix}, ((3, 1),))], [Watched({"h": matrix}, ((3, 1),))])
    np.testing.assert_array_equal(matrix, before)


def test_sentences_without_any_pronoun_are_refused():
    with pytest.raises(DataError, match="needs pronouns"):
        accuracy_by_head([Watched({"h": np.eye(2)}, ())])


def test_no_sentence_at_all_is_refused():
    with pytest.raises(DataError, match="no sentence"):
        chosen([], [])


def test_a_head_that_some_sentences_lack_is_refused_by_name():
    sentences = [Watched({"h": np.eye(2)}, ((1, 0),)), Watched({}, ((1, 0),))]
    with pytest.raises(DataError, match="'h', 1 do not"):
        accuracy_by_head(sentences)
