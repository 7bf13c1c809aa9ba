"""A language model that nobody trained: what it writes is nonsense, and all laws hold."""

import math
from pathlib import Path

import pytest
import torch
from language_models import language_model

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError, DataError
from regard.data.settings import DataSettings
from regard.decoding.sampling import seeded
from regard.tasks.generation import TORN, framing_for
from regard.tasks.recipe import recipe_from
from regard.tasks.writer import Writer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

CPU = torch.device("cpu")
TEXTS = ["the café is open.", "is it? it is.", "", "we see the café", "it was open!"] * 3


def writer(kind="word", train="texts.txt", max_len=17):
    text = TextSettings(kind=kind, vocab_size=300)
    tokenizer = Tokenizer.train(TEXTS, text)
    raw = {
        "task": "language",
        "data": {"train": train},
        "text": {"kind": kind, "vocab_size": 300},
        "model": {"preset": "gpt"},
        "train": {"max_steps": 1},
    }
    model = language_model(n_vocab=tokenizer.n_vocab, max_len=max_len)
    data = DataSettings(train=train)
    framing = framing_for(tokenizer, data)
    return Writer(RunFolder(Path("nowhere")), recipe_from(raw), framing, model, CPU)


@pytest.fixture
def words():
    return writer()


@pytest.fixture
def pieces():
    """Bytes: characters are torn all the time. Entries of JSONL stand alone."""
    return writer("bpe", "texts.jsonl", max_len=60)


@torch.no_grad()
def alone(run, ids, stride):
    """Log-probabilities of every id but the first, each by a forward pass of its own."""
    context, found = run.context, []
    for at in range(1, len(ids)):
        begin = 0
        while begin + context < at:
            begin += stride
        logits = run.model(torch.tensor([ids[begin:at]]))[0, -1]
        found.append(float(logits.log_softmax(dim=-1)[ids[at]]))
    return found


@pytest.mark.parametrize("stride", [None, 1, 5, 16, 17])
def test_perplexity_is_that_of_every_token_scored_alone(words, stride):
    found = alone(words, words.framing.laid(TEXTS).tolist(), stride or 17)
    wanted = math.exp(-sum(found) / len(found))
    assert words.perplexity(TEXTS, stride=stride) == pytest.approx(wanted, rel=1e-5)
    scores = words.evaluate_texts(TEXTS, split="all", stride=stride).scores
    assert scores["perplexity"] == pytest.approx(wanted, rel=1e-5)
    assert scores["tokens"] == len(found)


def test_a_text_of_lines_is_its_lines(words):
    assert words.perplexity("\n".join(TEXTS)) == words.perplexity(TEXTS)


def test_a_shorter_stride_gives_other_numbers(words):
    assert words.perplexity(TEXTS, stride=3) != words.perplexity(TEXTS)


@pytest.mark.parametrize("stride", [0, 18])
def test_an_impossible_stride_is_refused(words, stride):
    with pytest.raises(ConfigError, match=f"from 1 to the context of 17: {stride}"):
        words.perplexity(TEXTS, stride=stride)


def test_the_score_of_a_text_is_the_sum_over_its_tokens_and_its_end(words):
    for text in ("the café is open.", "", " ".join(["it is"] * 20)):
        ids = words.framing.scored([text]).tolist()
        assert ids[0] == ids[-1] == 2
        assert words.score(text) == pytest.approx(sum(alone(words, ids, 8)), abs=1e-3)
    assert words.score(TEXTS[:2]) == [words.score(TEXTS[0]), words.score(TEXTS[1])]


def test_the_perplexity_a_word_counts_words_between_spaces_and_ends(words):
    scores = words.evaluate_texts(TEXTS, split="all").scores
    n_words = sum(len(text.split()) + 1 for text in TEXTS)
    assert n_words < scores["tokens"]
    wanted = math.exp(scores["loss"] * scores["tokens"] / n_words)
    assert scores["word_perplexity"] == pytest.approx(wanted)
    strange = words.evaluate_texts(["the dragon is"], split="one").scores
    assert "word_perplexity" not in strange
    assert strange["unknown"] == 1


def test_choosing_compares_the_log_probabilities_of_continuations(words):
    chosen = words.choose("the café", [" is open", " was"])
    before = words.framing.read("the café")
    weights = {}
    for option in (" is open", " was"):
        after = words.tokenizer.encode(option)
        found = alone(words, [*before, *after], 17)[len(before) - 1 :]
        weights[option] = math.exp(sum(found))
    total = sum(weights.values())
    assert chosen == pytest.approx({name: weight / total for name, weight in weights.items()})
    with pytest.raises(DataError, match="two options or more"):
        words.choose("the", [" café"])
    with pytest.raises(DataError, match="no text to be chosen by"):
        words.choose("the", [" café", " "])
    with pytest.raises(DataError, match="18 tokens to read, but the model's context holds 17"):
        words.choose("it " * 16, [" is it", " was it"])


def test_prompt_and_text_together_read_well(words):
    text = words.generate("the café", max_new=5, seed=0)
    whole = "the café" + text
    again = words.framing.say([*words.framing.read("the café"), *words.framing.inside(text)])
    assert whole.split() == again.split()
    assert words.generate("the café", max_new=5, temperature=0) == words.generate(
        "the café", max_new=5, top_k=1
    )


def test_shapes_go_in_as_they_come_out(words):
    one = words.generate("the", max_new=3, seed=1)
    assert isinstance(one, str)
    assert words.generate(["the"], max_new=3, seed=1) == [one]
    several = words.generate(["the", "it is"], n=3, max_new=3, seed=1)
    assert [len(texts) for texts in several] == [3, 3]
    prompts = ["the", "it is"]
    each = [words.generate(prompt, max_new=4, temperature=0) for prompt in prompts]
    assert len(set(each)) == 2
    both = words.generate(prompts, n=2, max_new=4, temperature=0)
    assert both == [[text, text] for text in each]
    assert words.generate("the", n=1, max_new=3, seed=1) == [one]


def test_nothing_that_is_no_text_is_written(words):
    texts = words.generate("", n=60, max_new=17, temperature=3.0, seed=0)
    assert not any("<" in text for text in texts)


def test_where_lines_go_on_the_end_is_a_line_break_and_else_it_ends_a_text(words):
    lines = words.generate("", n=30, max_new=17, temperature=2.0, seed=0)
    assert any("\n" in text for text in lines)
    sentences = writer(train="texts.jsonl")
    config = sentences.generation(max_new=17, temperature=2.0)
    found = sentences.written([""], config, rng=seeded(0), n=30)[0]
    assert not any("\n" in one.text for one in found)
    assert {one.finished for one in found} == {True, False}
    assert words.framing.read("the\ncafé") == [
        2,
        *words.framing.inside("the"),
        2,
        *words.framing.inside("café"),
    ]


def test_a_stop_ends_a_text_before_it(words):
    whole = words.generate("", max_new=17, temperature=2.0, seed=0)
    stop = whole[5:8]
    cut = words.generate("", max_new=17, temperature=2.0, seed=0, stop=stop)
    assert cut == whole[: whole.index(stop)] != whole
    written = words.written(
        [""], words.generation(max_new=17, temperature=2.0), rng=seeded(0), stop=stop
    )
    assert written[0][0].finished
    with pytest.raises(ConfigError, match="empty stop"):
        words.generate("", stop="")


@pytest.mark.parametrize("stop", [(), ("o", "it"), ("é ",)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_pieces_joined_are_the_text(pieces, words, stop, seed):
    for run in (pieces, words):
        how = {"max_new": 16, "temperature": 1.5, "seed": seed, "stop": stop}
        coming = list(run.stream("the café", **how))
        assert "".join(coming) == run.generate("the café", **how)
        assert all(coming)


def test_bytes_of_a_torn_character_are_held_back(pieces, monkeypatch):
    """A model that writes é and € byte by byte."""
    ids = [
        i for sign in "é€x" for i in pieces.tokenizer.byte_ids(pieces.tokenizer.unmerged(sign)[0])
    ]
    assert len(ids) == 6
    spoken = iter([*ids, ids[0]])

    def say(self, log_probs, rows, t):
        return torch.tensor([next(spoken)])

    monkeypatch.setattr("regard.decoding.sampling.Sampler.__call__", say)
    assert list(pieces.stream("the", max_new=7)) == ["é", "€", "x", TORN]


def test_a_prompt_beyond_the_context_is_refused_with_both_lengths_or_cut(words):
    prompt = " ".join(["it is"] * 10)
    with pytest.raises(DataError, match="the prompt has 21 tokens, but .* context holds 17"):
        words.generate(prompt)
    with pytest.raises(DataError, match="has 21 tokens"):
        words.stream(prompt)
    assert words.prompt_ids(prompt, 5, "left") == words.framing.read(prompt)[-13:]
    assert words.prompt_ids(prompt, 99, "left") == words.framing.read(prompt)[-8:]
    assert words.prompt_ids("it is", 99, "left") == words.framing.read("it is")
    cut = words.written([prompt], words.generation(max_new=5), rng=seeded(0), truncate="left")
    assert len(cut[0][0].tokens) == 5


def test_the_context_may_be_filled(words):
    prompt = " ".join(["it is"] * 8)  # 17 with what stands before it
    (written,) = words.written([prompt], words.generation(max_new=50), rng=seeded(0))[0]
    assert len(written.tokens) == 1
    assert not written.finished


def test_unknown_words_are_named(words):
    assert words.unknown_words("the dragon sees the knight and the dragon") == [
        "dragon",
        "sees",
        "knight",
        "and",
        "dragon",
    ]


def test_the_world_of_ids_is_told(words):
    facts = words.facts()
    assert facts["task"] == words.task == "language"
    assert facts["context"] == 17
    assert facts["special_ids"]["</s>"] == 2
    assert "context 17" in repr(words)


def test_seeds_must_be_seeds():
    with pytest.raises(ConfigError, match="a seed must be"):
        seeded(-1)
    assert seeded(None).initial_seed() != seeded(None).initial_seed()


def test_of_an_empty_text_the_end_is_scored(words):
    assert math.isfinite(words.perplexity(""))  # its end
