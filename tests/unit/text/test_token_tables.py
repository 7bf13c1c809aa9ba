"""Tables of tokens that others made: each is looked up, none is put together."""

from regard.text.specials import SPECIALS, UNKNOWN_ID
from regard.text.tokenizer import Tokenizer, lookup_table


def test_characters_are_looked_up_spaces_and_line_breaks_too():
    table = lookup_table("char", [*SPECIALS, "b", "a", " ", "\n"])
    assert table.encode("ab a\n\nb").ids == [5, 4, 6, 5, 7, 7, 4]
    assert table.decode([5, 4, 6, 5, 7, 7, 4]) == "ab a\n\nb"
    assert table.encode("aé").ids == [5, UNKNOWN_ID]


def test_words_are_looked_up_and_signs_stand_alone():
    table = lookup_table("word", [*SPECIALS, "chats", "les", "!"])
    assert table.encode("les chats  !").ids == [5, 4, 6]
    assert table.encode("les chiens!").ids == [5, UNKNOWN_ID, 6]


def test_they_are_tokenizers_of_ours():
    characters = Tokenizer(lookup_table("char", [*SPECIALS, "a", "b"]))
    words = Tokenizer(lookup_table("word", [*SPECIALS, "les", "chats"]))
    assert (characters.kind, words.kind) == ("char", "word")
    assert characters.encode("ab") == words.encode("les chats") == [4, 5]
    assert list(words.special_ids.values()) == list(range(len(SPECIALS)))
