"""The worlds of labelled sentences: labels must follow from the words, by rules written here."""

import pytest

from regard.data.worlds.labelled_sentences import build_labelled

GOOD = "wonderful magnificent charming splendid adorable perfect pleasant marvellous".split()
BAD = "horrible awful ugly boring mediocre disgusting unbearable dreadful".split()
LIKE, DISLIKE = {"love", "loves", *GOOD}, {"hate", "hates", *BAD}

PROFESSIONS = "student lawyer musician singer baker journalist pilot doctor".split()
MAP = (
    "africa asia france china spain italy canada japan brazil portugal paris london rome berlin "
    "lisbon geneva"
).split()
FOOD = "cheese cake egg lemon apple pear carrot tomato".split()
ROADS = "bridge path tunnel boulevard field street road avenue square forest".split()
ANIMALS = (
    "animal dog cat horse bird rabbit wolf bear elephant hedgehog cow goat mouse turtle giraffe "
    "hen goose frog bee ant"
).split()
PLURALS = {"wolves": "wolf", "mice": "mouse", "geese": "goose", "tomatoes": "tomato"}


@pytest.fixture(scope="module")
def worlds():
    return {name: build_labelled(name, n_train=1500) for name in ("sentiment", "topics")}


def every(splits):
    return [one for split in splits.values() for one in split]


def opinion(sentence):
    """One opinion, turned around by a *not* in its own clause."""
    clauses = [[]]
    for word in sentence.split(" "):
        if word in ("because", "and"):
            clauses.append([])
        else:
            clauses[-1].append(word)
    (said,) = [clause for clause in clauses if (LIKE | DISLIKE) & set(clause)]
    (word,) = (LIKE | DISLIKE) & set(said)
    return "positive" if (word in LIKE) != ("not" in said) else "negative"


def topic(sentence):
    words = {PLURALS.get(word, word) for word in sentence.split(" ")}
    words |= {word.removesuffix("s") for word in words}
    lists = {
        "work": PROFESSIONS, "travel": MAP, "food": FOOD, "roads": ROADS, "animals": ANIMALS
    }  # fmt: skip
    return next((name for name, known in lists.items() if words & set(known)), "people")


def test_sentiment_follows_from_the_words(worlds):
    for one in every(worlds["sentiment"]):
        assert opinion(one.text) == one.label, one.text


def test_topics_follow_from_the_words(worlds):
    for one in every(worlds["topics"]):
        assert topic(one.text) == one.label, one.text


def test_a_bag_of_words_cannot_tell_the_sentiment(worlds):
    """Whoever turns an opinion around at every *not*, wherever it stands, is often wrong."""
    texts = every(worlds["sentiment"])
    wrong = sum(
        ("positive" if bool(LIKE & set(words)) != ("not" in words) else "negative") != one.label
        for one in texts
        for words in [one.text.split(" ")]
    )
    assert 0.03 < wrong / len(texts) < 0.4
    negated = [one for one in texts if "not" in one.text.split(" ")]
    assert 0.3 < len(negated) / len(texts) < 0.7


@pytest.mark.parametrize("name", ["sentiment", "topics"])
def test_no_sentence_is_there_twice(worlds, name):
    texts = [one.text for one in every(worlds[name])]
    assert len(texts) == len(set(texts))
    assert {split: len(found) for split, found in worlds[name].items()} == {
        "train": 1500,
        "valid": 1000,
        "test": 1000,
    }


def test_labels_are_about_equally_frequent(worlds):
    labels = [one.label for one in worlds["sentiment"]["train"]]
    assert 0.45 < labels.count("positive") / len(labels) < 0.55
    topics = [one.label for one in worlds["topics"]["train"]]
    assert all(topics.count(label) > 100 for label in {*topics})
    assert len({*topics}) == 6


@pytest.mark.parametrize("name", ["sentiment", "topics"])
def test_a_seed_makes_a_world_and_another_seed_another(name):
    first, again, other = (build_labelled(name, seed=seed, n_train=50) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_nothing_is_praised_by_the_way(worlds):
    """A beautiful castle that is awful would have two opinions in it."""
    assert not any("beautiful" in one.text.split(" ") for one in every(worlds["sentiment"]))


def test_all_kinds_of_opinions_occur(worlds):
    texts = [one.text for one in worlds["sentiment"]["train"]]
    for sign in (" because ", " and ", " does not love ", " do not love ", " not very ", " hates "):
        assert any(sign in text for text in texts), sign
