"""Words that a tokenizer cannot read."""

import pytest

from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer, unknown_words


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("word", "a John b Mary John", ["John", "Mary", "John"]),
        ("word", "a b", []),
        ("word", "", []),
        ("char", "ab aXYb b", ["aXYb"]),
        ("bpe", "a John b", []),
    ],
)
def test_each_place_of_an_unknown_word_is_told(kind, text, expected):
    tokenizer = Tokenizer.train(["a b ab"], TextSettings(kind=kind))
    assert unknown_words(tokenizer, text) == expected
