"""What people type is read as a plain world writes it, and stays where it stands."""

import pytest

from regard.data.worlds.registry import WORLDS, WorldRequest
from regard.text import words
from regard.text.plain import plain
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer, unknown_words

TYPED = "“I am a Student”, said  L’animal (tired)."


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("I am a student.", "i am a student"),
        (TYPED, "i am a student said  l'animal tired"),
        ("Yes , no", "yes no"),
        ("a.b", "a b"),
        ("'Hello'", "hello"),
        ("l'animal n'a pas", "l'animal n'a pas"),
        ("3.5 well-known", "3.5 well-known"),
        ("  two  spaces ", "  two  spaces "),
        ("?!", ""),
        ("", ""),
    ],
)
def test_capitals_and_signs_go_and_words_stay(typed, read):
    found = plain(typed)
    assert found.text == read
    assert len(found.places) == len(read)
    for begin, end in words.spans(read):
        first, last = found.typed(begin, end)
        assert plain(typed[first:last]).text.rstrip("'") == read[begin:end].rstrip("'")


@pytest.mark.parametrize("kind", ["word", "char", "bpe"])
def test_a_tokenizer_that_reads_plain_texts_tells_places_in_what_was_typed(kind):
    texts = ["i am a student said l'animal tired", "she is"] * 2
    settings = TextSettings(kind=kind, vocab_size=400)
    tokenizer = Tokenizer.train(texts, settings).reading_plain()
    read = plain(TYPED).text
    assert tokenizer.encode(TYPED) == tokenizer.encode(read)
    assert tokenizer.encode_batch([TYPED]) == [tokenizer.encode(read)]
    spoken = "".join(TYPED[begin:end] for begin, end in tokenizer.offsets(TYPED))
    assert plain(spoken).text.replace(" ", "") == read.replace(" ", "")
    split = words.split(TYPED)
    owners = dict.fromkeys(split[n] for n in tokenizer.word_ids(TYPED) if n is not None)
    assert [*owners] == ["I", "am", "a", "Student", "said", "L’", "animal", "tired"]


def test_unknown_words_are_named_as_they_were_typed():
    tokenizer = Tokenizer.train(["i am a student"], TextSettings(kind="word")).reading_plain()
    assert unknown_words(tokenizer, "I am a Zebra.") == ["Zebra"]
    assert unknown_words(tokenizer, "I AM, A STUDENT!") == []


@pytest.mark.parametrize("name", [name for name, world in WORLDS.items() if world.plain])
def test_a_world_that_is_called_plain_is_so(name):
    kind = "pair" if "pair" in WORLDS[name].records else "label"
    asked = WorldRequest(name, "en-fr", {"seed": 0, "n_train": 100})
    for records in WORLDS[name].records[kind](asked).values():
        for record in records:
            for text in (record.source, record.target) if kind == "pair" else (record.text,):
                assert plain(text).text == text
