import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.words import join, spans, split

SENTENCES = {
    "john loves mary": ["john", "loves", "mary"],
    "l'animal n'a pas dormi.": ["l'", "animal", "n'", "a", "pas", "dormi", "."],
    "c’est trop": ["c’", "est", "trop"],
    "a well-known fact": ["a", "well-known", "fact"],
    "1,000 and 3.5kg, no 3rd": ["1,000", "and", "3.5kg", ",", "no", "3rd"],
    "really?! (yes)": ["really", "?", "!", "(", "yes", ")"],
}


@pytest.mark.parametrize(("sentence", "words"), SENTENCES.items())
def test_a_sentence_is_split_and_put_back(sentence, words):
    assert split(sentence) == words
    assert join(words) == sentence


def test_an_apostrophe_that_elides_nothing_stands_alone():
    assert split("the dogs' bone") == ["the", "dogs", "'", "bone"]


@pytest.mark.parametrize("word", ["हिन्दी", "etu\u0301diant", "می\u200cخواهم", "❤\ufe0f"])
def test_marks_and_joiners_stay_with_their_letter(word):
    assert split(f"x {word} y") == ["x", word, "y"]


@given(st.text())
@settings(deadline=None)
def test_every_character_but_white_space_is_in_one_word(sentence):
    assert "".join(split(sentence)) == re.sub(r"\s", "", sentence)


@given(st.text())
@settings(deadline=None)
def test_spans_are_where_the_words_are(sentence):
    assert [sentence[begin:end] for begin, end in spans(sentence)] == split(sentence)


@given(st.text(alphabet="abéç 1.,;'’-(%…/"))
@settings(deadline=None)
def test_splitting_again_finds_the_same_words(sentence):
    assert split(join(split(sentence))) == split(sentence)


@given(st.text(alphabet="aéçñüê '-."))
@settings(deadline=None)
def test_decomposed_accents_make_no_difference(sentence):
    decomposed = unicodedata.normalize("NFD", sentence)
    assert split(decomposed) == [unicodedata.normalize("NFD", word) for word in split(sentence)]
