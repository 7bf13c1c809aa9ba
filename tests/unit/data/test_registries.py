"""Worlds and file formats by name: those there are, and those that somebody else brings."""

import hashlib

import pytest

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.data.corpora import read_corpus
from regard.data.readers import READERS, Row
from regard.data.records import Labelled, Pair
from regard.data.settings import DataSettings
from regard.data.worlds.registry import WORLDS, World, world_records


@pytest.fixture
def entered():
    """Enters things into registries, and takes them out again."""
    added = []

    def enter(registry, name, thing):
        registry.add(name)(thing)
        added.append((registry, name))

    yield enter
    for registry, name in added:
        del registry._things[name]


def settings(**given):
    return parse(DataSettings, given, "data")


def test_a_world_of_a_plugin_can_be_named_in_a_recipe(entered):
    with pytest.raises(ConfigError, match="unknown world 'waves'"):
        settings(world="waves")
    entered(WORLDS, "waves", World({"frames": lambda asked: {"train": [asked.size["seed"]]}}))
    assert world_records(settings(world="waves", world_seed=7).world_request(), "frames") == {
        "train": [7]
    }
    with pytest.raises(ConfigError, match="world 'copy' has no frames; choose waves, or name"):
        world_records(settings(world="copy").world_request(), "frames")


@pytest.mark.parametrize(
    ("world", "kind", "message"),
    [
        ("copy", "label", "'copy' has no labels; choose sentiment or topics, or name files"),
        ("sentiment", "pair", "'sentiment' has no pairs of source and target; choose sentences"),
        ("sentences", "question", "'sentences' has no questions; choose questions, or name"),
        ("topics", "score", "'topics' has no pairs that are alike; choose sentences, or"),
    ],
)
def test_a_world_without_such_records_names_those_that_have_them(world, kind, message):
    with pytest.raises(ConfigError, match=message):
        world_records(settings(world=world).world_request(), kind)


def test_a_format_of_a_plugin_is_read_like_any_other(tmp_path, entered):
    def read_colons(path):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            yield Row(f"{path}:{number}", line.split(" : "))

    path = tmp_path / "a.colons"
    path.write_text("one : un\ntwo : deux\n")
    entered(READERS, ".colons", read_colons)
    assert read_corpus(str(path), "pair").examples == (Pair("one", "un"), Pair("two", "deux"))
    assert read_corpus(str(path), "label").examples[0] == Labelled("one", label="un")


def digest(lines):
    return hashlib.sha256("\n".join(map(repr, lines)).encode()).hexdigest()[:16]


def of_pair(pair):
    links = pair.alignment, pair.antecedents, pair.target_antecedents
    return (pair.source, pair.target, *links, sorted(pair.tags))


def of_text(one):
    return one.text, one.other, one.label, one.score


def of_question(one):
    return one.text, one.other, one.answers, one.start


# Made by the first version (c066c44): seed 5, 500 for training.
DIGESTS = {
    ("sentences", "pair"): {
        "train": "9ba5f6c749525f11",
        "valid": "2f78d4d7c7647a03",
        "test": "aeb3213dac69c867",
        "pronouns": "53d787cc9d96058e",
        "order": "c0673d1a9fb582d9",
        "long": "13ea0a5d74658385",
    },
    ("copy", "pair"): {
        "train": "eaae43c7e077203e",
        "valid": "2b35e0e17ddf08ae",
        "test": "7e8a466c6d3888e2",
    },
    ("reverse", "pair"): {
        "train": "80d0cdf7ff056d5a",
        "valid": "6b999e533abac789",
        "test": "2a12793bcbbc0caf",
    },
    ("sort", "pair"): {
        "train": "631f20bd1a0e30b3",
        "valid": "58f08d869989a177",
        "test": "6d4cd53b77447860",
    },
    ("recall", "pair"): {
        "train": "41330c0ceb1b961e",
        "valid": "e5db78832c80afcc",
        "test": "d4203f1866e61025",
    },
    ("sentiment", "label"): {
        "train": "26c944d55f07f394",
        "valid": "20fa992755192ee9",
        "test": "3587825d2b2a4dc0",
    },
    ("topics", "label"): {
        "train": "b453a054dd9ecf41",
        "valid": "5e60b4efdca54f5b",
        "test": "861041729800e1bf",
    },
    ("questions", "question"): {
        "train": "8ff13eff9c2719f7",
        "valid": "00a84757cbefd088",
        "test": "a9ee45f4a1ecc222",
    },
}


@pytest.mark.parametrize(("world", "kind"), DIGESTS)
def test_worlds_are_what_they_were(world, kind):
    """Runs are resumed, and scores compared, on data that is made anew each time."""
    asked = settings(world=world, n_train=500, world_seed=5)
    shown = {"pair": of_pair, "label": of_text, "question": of_question}[kind]
    splits = world_records(asked.world_request(), kind)
    found = {name: digest(map(shown, records)) for name, records in splits.items()}
    assert found == DIGESTS[world, kind]
