"""The world of questions: one answer each, in the text, and no sentence on both sides."""

from collections import Counter

import pytest

from regard.data.worlds.questions import COLOURS, Facts, build_questions
from regard.data.worlds.stable_random import StableRandom
from regard.text.words import split

PROFESSIONS = "student lawyer musician singer baker journalist pilot doctor".split()
MONTHS = (
    "january february march april may june july august september october november december"
).split()


@pytest.fixture(scope="module")
def world():
    return build_questions(n_train=3000)


def every(world):
    return [one for split in world.values() for one in split]


def sentences(question):
    return question.context.removesuffix(".").split(". ")


def answered_in(question):
    """The sentence that holds the answer."""
    return sentences(question)[question.context[: question.start].count(". ")]


def test_an_answer_stands_in_its_text_where_it_is_said_to(world):
    for one in every(world):
        assert one.context[one.start : one.end] == one.label
        assert one.answers == (one.label,)
        before, after = one.context[: one.start][-1:], one.context[one.end :][:1]
        assert before in ("", " ")
        assert after in (" ", ".")


def test_sizes_are_those_that_are_asked_for(world):
    assert {name: len(found) for name, found in world.items()} == {
        "train": 3000, "valid": 1000, "test": 1000,
    }  # fmt: skip
    assert {len(sentences(one)) for one in every(world)} == {2, 3}


def test_no_sentence_is_both_learned_from_and_scored(world):
    known = {name: {s for one in found for s in sentences(one)} for name, found in world.items()}
    assert not known["train"] & known["valid"]
    assert not known["train"] & known["test"]
    assert not known["valid"] & known["test"]


def test_tests_use_no_word_that_training_does_not(world):
    known = {word for one in world["train"] for word in split(f"{one.text} {one.context}")}
    for name in ("valid", "test"):
        unknown = {w for one in world[name] for w in split(f"{one.text} {one.context}")} - known
        assert not unknown


def test_what_is_asked_for_is_what_is_answered(world):
    """By rules that look at the words alone."""
    seen = Counter()
    for one in every(world):
        kind = one.text.split(" ")[0:2]
        seen[kind[0]] += 1
        said = answered_in(one)
        if kind == ["what", "colour"]:
            assert one.label in COLOURS
            assert said.endswith(f" {one.label}")
        elif " the job of " in one.text:
            assert one.label.split(" ")[-1] in PROFESSIONS
        elif kind[0] == "when":
            assert one.label in MONTHS
        elif kind[0] == "why":
            assert one.label.split(" ")[0] in ("it", "he", "she")
            assert said.endswith(f" because {one.label}")
        elif kind[0] == "where":
            assert one.label.split(" ")[0] in ("in", "near", "behind")
    assert {*seen} == {"what", "who", "which", "when", "why", "where", "with"}
    assert min(seen.values()) > 50


def test_the_words_of_a_question_stand_in_the_sentence_of_its_answer(world):
    """All but what asks, and the verb after *did* and *does*."""
    asking = {"when", "why", "where", "with", "whom", "did", "does"}
    for one in every(world):
        if one.text.split(" ")[0] in asking:
            words = {*split(one.text.removesuffix("?"))} - asking
            assert len(words - {*split(answered_in(one))}) <= 1, one


def test_a_pronoun_is_asked_back_to_what_it_means():
    """*what was too wide?* is answered with the street, not with *it*."""
    facts = Facts(StableRandom(3))
    drawn = [kind() for _ in range(100) for kind in facts.kinds]
    found = [fact for fact in drawn if "because" in fact.parts]
    assert found
    for fact in found:
        (about,) = [part for asked, part in fact.asked if asked.split(" ")[-3:-1] in _TOO]
        pronoun = fact.parts[-1].split(" ")[0]
        things = {0: ("it", "he", "she"), 2: ("it",)}
        assert pronoun in things[about]
        assert fact.start(4) == fact.sentence.index(fact.parts[4], len(fact.parts[0]))


_TOO = (["is", "too"], ["was", "too"])


def test_a_seed_makes_a_world_and_another_seed_another():
    first, again, other = (build_questions(seed=seed, n_train=50) for seed in (1, 1, 2))
    assert first == again
    assert first != other
