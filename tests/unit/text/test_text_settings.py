import pytest
from pydantic import ValidationError

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.text.settings import TextSettings


def test_pieces_need_room_for_every_byte():
    assert TextSettings(vocab_size=260).vocab_size == 260
    with pytest.raises(ConfigError, match=r"text\.vocab_size: 259 is too small.*at least 260"):
        parse(TextSettings, {"vocab_size": 259}, "text")


@pytest.mark.parametrize("kind", ["word", "char"])
def test_words_and_characters_need_room_for_one_beside_the_specials(kind):
    assert TextSettings(kind=kind, vocab_size=5).vocab_size == 5
    with pytest.raises(ConfigError, match=r"text\.vocab_size=4"):
        parse(TextSettings, {"kind": kind, "vocab_size": 4}, "text")


def test_all_problems_are_told_at_once():
    with pytest.raises(ConfigError, match=r"(?s)text\.kind='words'.*'text\.vocabsize'.*vocab_size"):
        parse(TextSettings, {"kind": "words", "vocabsize": 3}, "text")


def test_settings_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        TextSettings().kind = "word"
