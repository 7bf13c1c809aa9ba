from functools import cache

import pytest

from regard import lab
from regard.data.records import Pair
from regard.lab.claims import alignment as module
from regard.lab.translators import translator
from regard.tasks.translation_scores import same_place, so_many_before

SMALL = {"steps": 150, "n_train": 2000}


@cache  # one training serves both verdicts
def smaller(steps, n_train, seed):
    shape = ("d_model=96", "d_ff=192", "n_layers=1", "lr=5e-3", "batch_tokens=512")
    told = (f"max_steps={steps}", f"n_train={n_train}", f"seed={seed}")
    return translator("transformer", *shape, *told)


@pytest.fixture(autouse=True)
def trained_once(monkeypatch):
    monkeypatch.setattr(module, "sentences_translator", smaller)


def test_attention_finds_translations_but_antecedents_no_better_than_a_blind_rule():
    result = lab.alignment(**SMALL)
    numbers = result.numbers
    assert not result.verdict
    assert numbers["alignment error rate: attention"] < numbers["alignment error rate: rule"]
    assert numbers["antecedents found: attention"] < numbers["antecedents found: rule"]
    assert "animal" in result.pictures[0]
    assert "it … wide" in result.pictures[1]


def test_of_translations_alone_the_claim_holds():
    assert lab.alignment(**SMALL, pronouns=False).verdict


def test_what_was_never_trained_finds_no_translations():
    result = lab.alignment(steps=1, n_train=500, pronouns=False)
    assert not result.verdict
    assert result.numbers["alignment error rate: attention"] > 0.7


def test_the_word_at_the_same_place_errs_where_words_move():
    moved = Pair("a red car", "une voiture rouge", alignment=((0, 0), (1, 2), (2, 1)))
    longer = Pair("students", "les étudiants", alignment=((0, 0), (0, 1)))
    assert same_place([], [moved]) == pytest.approx(2 / 3)  # one of three links is right
    assert same_place([], [longer]) == 0  # beyond the source it is the last word


def test_the_distance_of_most_antecedents_is_tried_on_other_sentences():
    def asked(*links):
        return [Pair("x", "y", antecedents=links)]

    valid = asked((5, 3), (8, 6), (8, 1))  # 2, 2 and 7 words before
    assert so_many_before(valid, asked((4, 2), (9, 2), (3, 0), (2, 0))) == 0.5


def test_a_pronoun_that_stands_for_two_is_one_question_to_the_rule_as_to_a_head():
    both = [Pair("x", "y", antecedents=((5, 3), (5, 1), (9, 8)))]
    assert so_many_before([Pair("x", "y", antecedents=((5, 3),))], both) == 0.5
