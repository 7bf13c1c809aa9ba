"""Kinds of words of the built-in sentences."""

import pytest

from regard.data.worlds.registry import WORLDS, WorldRequest, world_records
from regard.data.worlds.word_kinds import word_kinds


@pytest.mark.parametrize(
    ("language", "word", "kinds"),
    [
        ("en", "it", {"pronoun"}),
        ("en", "mice", {"noun"}),
        ("en", "students", {"noun"}),
        ("en", "ate", {"verb"}),
        ("en", "these", {"determiner"}),
        ("en", "september", {"name"}),
        ("fr", "elle", {"pronoun"}),
        ("fr", "vieilles", {"adjective"}),
        ("fr", "arrivées", {"verb"}),
        ("fr", "porte", {"noun", "verb"}),
        ("fr", "cet", {"determiner"}),
    ],
)
def test_every_form_of_a_word_has_its_kinds(language, word, kinds):
    assert word_kinds(language)[word] == kinds


def test_every_word_of_the_world_is_of_some_kind():
    asked = WorldRequest("sentences", "en-fr", {"seed": 0, "n_train": 300})
    pairs = world_records(asked, "pair")["train"]
    texts = {"en": [one.source for one in pairs], "fr": [one.target for one in pairs]}
    for language, some in texts.items():
        words = {word for text in some for word in text.replace("'", "' ").split()}
        assert words - {*WORLDS["sentences"].word_kinds(language)} == set()
