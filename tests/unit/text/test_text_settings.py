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
    with pytest.raises(ConfigError, match=r"'text\.vocabsize'.*vocab_size.*text\.kind='words'"):
        parse(TextSettings, {"kind": "words", "vocabsize": 3}, "text")


def test_settings_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        TextSettings().kind = "word"


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_of_skipped_merges_is_a_share(share):
    with pytest.raises(ConfigError, match=r"text\.bpe_dropout"):
        parse(TextSettings, {"bpe_dropout": share}, "text")


@pytest.mark.parametrize("kind", ["word", "char"])
def test_only_pieces_have_merges_to_skip(kind):
    assert TextSettings(kind=kind, bpe_dropout=0).bpe_dropout == 0
    assert TextSettings(kind="bpe", bpe_dropout=0.1).bpe_dropout == 0.1
    with pytest.raises(ConfigError, match=rf"text\.bpe_dropout: kind '{kind}' has no merges"):
        parse(TextSettings, {"kind": kind, "bpe_dropout": 0.1}, "text")
