"""A story has the words of its run, and probabilities that the run itself gives."""

import numpy as np
import pytest
from systems import untrained

from regard.core.errors import ConfigError
from regard.tasks.base import TASKS
from regard.tasks.look import Look
from regard.tasks.story import SHOWN, story_of, words_of
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

SOURCE = "a b c d"


def told(run, source=SOURCE, **choice):
    asked = {"name": "decoder.cross", "layer": 0, "head": 0, "token": 2, **choice}
    return story_of(TASKS[run.task], run, source, **asked)


@pytest.fixture(scope="module", params=["transformer", "bahdanau2015", "luong2015"])
def run(request):
    return untrained(request.param)


def test_the_chosen_word_has_the_probability_that_the_run_gives_it(run):
    look = run.explain(SOURCE)
    rows = range(len(look.target_tokens))
    stories = [told(run, target=look.answer, token=t) for t in rows]
    (expected,) = run.score([SOURCE], [look.answer])
    chosen = [
        next(one for one in story["outcome"]["choices"] if one["text"] == story["writes"])
        for story in stories
    ]
    total = sum(np.log(one["probability"]) for one in chosen)
    assert total == pytest.approx(expected, abs=1e-4)


def test_probabilities_and_the_rest_sum_to_one(run):
    outcome = told(run)["outcome"]
    shares = [one["probability"] for one in outcome["choices"]]
    assert SHOWN <= len(shares) <= SHOWN + 1
    assert sum(shares) + outcome["rest"] == pytest.approx(1)
    assert shares[:SHOWN] == sorted(shares[:SHOWN], reverse=True)


def test_a_decoder_reads_the_token_before_the_one_it_writes(run):
    look = run.explain(SOURCE)
    first, third = told(run, token=0), told(run, token=2)
    assert (first["reads"], first["writes"]) == ("<s>", look.target_tokens[0])
    assert (third["reads"], third["writes"]) == look.target_tokens[1:3]
    assert third["steps"]["row"] == look.target_tokens[2]


def test_systems_are_told_by_blocks_or_by_states():
    assert told(untrained("transformer"))["kind"] == "blocks"
    states = told(untrained("bahdanau2015"))
    assert states["kind"] == "states"
    assert len(states["story"]["read"]) == len(SOURCE.split()) + 1  # the end token, too


def test_a_source_token_writes_nothing():
    story = told(untrained("transformer"), name="encoder.self", token="b")
    assert (story["reads"], story["writes"], story["outcome"]) == ("b", None, None)


def test_words_hold_their_pieces_and_marks_stand_alone():
    run = untrained("transformer")
    found = words_of(run.tokenizers.source, run.explain("a  b"))
    assert [one["text"] for one in found] == ["a", "b", "</s>"]
    assert [one["pieces"] for one in found] == [["a"], ["b"], ["</s>"]]


def test_a_word_of_several_pieces_is_one_word():
    class Pieces:
        def encode(self, text):
            return [4, 5, 6]

        def tokens(self, ids):
            return ["abc", "def", "gh"]

        def offsets(self, text):
            return [(0, 3), (3, 6), (7, 9)]

    look = Look(("<s>", "abc", "def", "gh", "</s>"), (), "", {}, source="abcdef gh")
    found = words_of(Pieces(), look)
    assert found[1] == {"text": "abcdef", "pieces": ["abc", "def"]}
    assert [one["text"] for one in found] == ["<s>", "abcdef", "gh", "</s>"]
    other = Look(("abc", "<sep>", "def"), (), "", {}, source="abcdef gh")
    assert [one["text"] for one in words_of(Pieces(), other)] == ["abc", "<sep>", "def"]


def test_a_run_without_such_an_attention_is_refused():
    with pytest.raises(ConfigError, match=r"no attention 'decoder\.none'"):
        told(untrained("transformer"), name="decoder.none")


def test_an_edit_changes_the_story():
    run = untrained("transformer")
    edit = {"kind": "ablate", "name": "decoder.cross", "layer": 0, "head": 0}
    story = told(run, edit=[edit], target="a b")
    assert not np.any(story["story"]["heads"][0])
    assert story["outcome"] != told(run, target="a b")["outcome"]


PLACES = {
    "transformer-d": ["decoder.self"],
    "dmca2018": ["decoder.self", "decoder.self.compressed"],
}
MUTED = [{"kind": "ablate", "name": "decoder.self", "layer": 0, "head": 1}]


@pytest.mark.parametrize("edit", [[], MUTED, [{"kind": "no_positions"}]], ids=len)
@pytest.mark.parametrize("preset", PLACES)
def test_a_source_and_its_target_as_one_text_are_told_as_the_look_has_them(preset, edit):
    run = untrained(preset)
    look = run.explain(SOURCE, "a b c", edit=edit)
    for name in PLACES[preset]:
        story = told(run, name=name, target="a b c", token=2, edit=edit)
        assert (story["reads"], story["writes"]) == ("b", "c")
        (chosen,) = (one for one in story["outcome"]["choices"] if one["text"] == "c")
        assert chosen["probability"] == pytest.approx(look.written.probabilities[2], abs=1e-5)
        heads = look.records[name][0].outputs[:, 2]
        np.testing.assert_allclose(story["story"]["heads"], heads, atol=2e-5)


def test_slots_name_the_positions_that_they_are_made_of():
    story = told(untrained("dmca2018"), name="decoder.self.compressed", target="a b", token=1)
    assert story["positions"] == [*SOURCE.split(), "</s>", "<s>", "a", "b"]
    assert story["steps"]["columns"] == ["null", "[0–2]", "[3–5]"]
    assert told(untrained("transformer"))["positions"] == [*SOURCE.split(), "</s>"]


def test_a_space_that_is_a_piece_of_its_own_is_no_letter_of_its_word():
    tokenizer = Tokenizer.train(["ab", "ab", "z ab"], TextSettings(kind="bpe", vocab_size=261))
    tokens = tokenizer.tokens(tokenizer.encode("z ab"))
    assert "▁" in tokens  # “ ab” was seen once, and is in pieces
    look = Look(
        attentions={}, source="z ab", source_tokens=tuple(tokens), target_tokens=(), answer=""
    )
    assert [one["text"] for one in words_of(tokenizer, look)] == ["z", "ab"]
