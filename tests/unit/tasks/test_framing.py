"""What stands around texts, in our runs and in those of others."""

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from regard.data.settings import DataSettings
from regard.tasks.generation import framing_for
from regard.tasks.opening import load_tokenizer
from regard.text.pretrained import PretrainedTokenizer
from regard.text.settings import TextSettings
from regard.text.specials import SpecialIds
from regard.text.tokenizer import Tokenizer

TEXTS = ["the cat sat", "the dogs sat down"] * 5
LINES, APART = DataSettings(train="a.txt"), DataSettings(train="a.jsonl")


def foreign(begin=None, other_ends=()):
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|end|>", "<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(TEXTS, trainer)
    if begin is not None:
        inner.post_processor = processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, inner.token_to_id(begin))]
        )
    return PretrainedTokenizer(inner, SpecialIds(0, 1, 0, None, other_ends=other_ends))


def test_our_texts_open_with_the_end_of_another_and_are_closed():
    words = Tokenizer.train(TEXTS, TextSettings(kind="word"))
    framing = framing_for(words, APART)
    the, cat = words.encode("the cat")
    assert framing.read("the cat") == [2, the, cat]
    assert framing.read("") == [2]
    assert framing.scored(["the", "cat"]).tolist() == [2, the, 2, cat, 2]
    assert framing.inside(" cat") == [cat]
    assert framing.end_ids == {2}
    assert framing.hidden_ids == (0, 1, 3)
    assert framing.say([2, the, cat, 2]) == "the cat"
    assert framing.said_after([2, the], [cat]) == " cat"


def test_lines_that_go_on_are_split_and_joined_at_line_breaks():
    words = Tokenizer.train(TEXTS, TextSettings(kind="word"))
    framing = framing_for(words, LINES)
    the, cat = words.encode("the cat")
    assert framing.read("the\n\ncat") == [2, the, 2, 2, cat]
    assert framing.say([the, 2, 2, cat]) == "the\n\ncat"
    assert framing.said_after([2, the], [2, cat]) == "\ncat"
    assert framing.end_ids == frozenset()


def test_of_others_texts_open_as_their_own_tokenizer_says_and_stay_open():
    plain = framing_for(foreign(), LINES)
    ids = plain.tokenizer.encode("the cat")
    assert plain.read("the cat") == ids
    assert plain.read("") == [0]
    assert plain.scored(["the cat"]).tolist() == ids
    assert plain.hidden_ids == (1,)  # padding is the end, which may be written
    assert plain.end_ids == {0}
    assert plain.read("the\ncat") == plain.tokenizer.encode("the\ncat")
    opened = framing_for(foreign("<s>"), LINES)
    assert opened.read("the cat") == [1, *ids]
    assert opened.said_after([1, *ids], opened.inside(" sat")) == " sat"
    assert framing_for(foreign("<|end|>"), LINES).read("the cat") == [0, *ids]


def test_each_of_several_ends_ends_a_text_and_may_be_written():
    several = framing_for(foreign(other_ends=(1, 7)), LINES)
    assert several.end_ids == {0, 1, 7}
    assert several.hidden_ids == ()


@pytest.mark.parametrize("begin", [None, "<s>"])
def test_either_kind_of_tokenizer_is_found_in_a_folder(tmp_path, begin):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    Tokenizer.train(TEXTS, TextSettings(kind="word")).save(ours / "tokenizer.json")
    foreign(begin).save(theirs / "tokenizer.json")
    assert not isinstance(load_tokenizer(ours), PretrainedTokenizer)
    found = load_tokenizer(theirs)
    assert isinstance(found, PretrainedTokenizer)
    assert framing_for(found, LINES).opening == (() if begin is None else (1,))
