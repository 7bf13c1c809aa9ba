"""Tasks written as texts: the same examples as the tasks have, and a user's own rows."""

import pytest

from regard.core.errors import ConfigError, DataError
from regard.core.settings import parse
from regard.data.language import lines_go_on, prompted_splits, text_splits
from regard.data.settings import DataSettings
from regard.data.worlds import labelled_sentences, sentences
from regard.data.worlds.prompted import MOST_OPTIONS, Item, texts_of


def settings(**given):
    return parse(DataSettings, given, "data")


@pytest.fixture(scope="module")
def everything():
    return prompted_splits(settings(world="everything", n_train=300))


def test_the_world_asks_what_the_task_heads_are_asked(everything):
    assert {split: [one.name for one in some] for split, some in everything.items()} == {
        split: ["translation", "sentiment", "topics"] for split in ("train", "valid", "test")
    }
    pairs = sentences.build_sentences("en-fr", n_train=300)
    for split, (translation, sentiment, topics) in everything.items():
        assert [item.answer for item in translation.items] == [p.target for p in pairs[split]]
        for exercise in (sentiment, topics):
            built = labelled_sentences.build_labelled(exercise.name, n_train=300)[split]
            assert [item.answer for item in exercise.items] == [one.label for one in built]
            assert all(
                one.text in item.prompt for one, item in zip(built, exercise.items, strict=True)
            )
    assert translation.options == ()
    assert sentiment.options == ("negative", "positive")


def test_an_item_is_a_prompt_and_an_answer(everything):
    pair = sentences.build_sentences("en-fr", n_train=300)["test"][0]
    item = everything["test"][0].items[0]
    assert item.prompt == f"translate : {pair.source} french :"
    assert item.text == f"translate : {pair.source} french : {pair.target}"
    back = prompted_splits(settings(world="everything", n_train=300, direction="fr-en"))
    assert back["test"][0].items[0].prompt == f"translate : {pair.target} english :"


def test_texts_are_mixed_and_always_alike(everything):
    exercises = everything["train"]
    texts = texts_of(exercises, 0)
    assert sorted(texts) == sorted(item.text for one in exercises for item in one.items)
    assert texts == texts_of(exercises, 0) != texts_of(exercises, 1)
    kinds = {text.split()[0] for text in texts[:50]}
    assert kinds == {"translate", "review", "text"}
    assert text_splits(settings(world="everything", n_train=300))["train"] == texts


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "mine.tsv"
    rows = [f"tea {i}\tgood" if i % 3 else f"mud {i}\tbad" for i in range(60)]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_rows_of_a_table_become_texts(table):
    data = settings(train=str(table), prompt="say: {text} it is: ")
    splits = prompted_splits(data)
    assert [*splits] == ["train", "valid"]
    ((train,), (valid,)) = splits.values()
    assert (train.name, train.options) == ("answers", ("bad", "good"))
    assert valid.options == train.options
    assert Item("say: mud 0 it is:", "bad") in {*train.items, *valid.items}
    assert len(train.items) + len(valid.items) == 60
    assert not {*train.items} & {*valid.items}
    assert not lines_go_on(data)
    assert text_splits(data)["valid"] == texts_of([valid], 0)


def test_a_pattern_and_two_texts_a_row(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("".join(f"{'yn'[i % 2]}: a{i} / b{i}\n" for i in range(40)))
    data = settings(
        train=str(path),
        pattern=r"(?P<label>\w): (?P<text>\w+) / (?P<other>\w+)",
        prompt="{other} then {text}?",
    )
    items = {item for (one,) in prompted_splits(data).values() for item in one.items}
    assert Item("b3 then a3?", "n") in items


@pytest.mark.parametrize(("n", "labels"), [(MOST_OPTIONS, True), (MOST_OPTIONS + 1, False)])
def test_many_answers_are_no_labels(tmp_path, n, labels):
    path, valid = tmp_path / "mine.tsv", tmp_path / "valid.tsv"
    path.write_text("".join(f"a{i}\tb{i}\n" for i in range(n)))
    valid.write_text("a\tb1\n")
    data = settings(train=str(path), valid=str(valid), prompt="{text} =")
    ((exercise,), _) = prompted_splits(data).values()
    assert bool(exercise.options) == labels


def test_one_answer_leaves_no_choice(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("".join(f"a{i}\tb\n" for i in range(30)))
    splits = prompted_splits(settings(train=str(path), prompt="{text} ="))
    assert splits["train"][0].options == ()


@pytest.mark.parametrize("prompt", ["no place", "{text} {label}", "{other}", "{text} {"])
def test_prompts_that_are_none(table, prompt):
    with pytest.raises(ConfigError, match="expected a text with {text} in it"):
        settings(train=str(table), prompt=prompt)


def test_what_does_not_go_together(table):
    with pytest.raises(ConfigError, match="world 'sentences' has no files"):
        settings(world="sentences", prompt="{text}")
    with pytest.raises(ConfigError, match="world 'everything' has en-fr and fr-en"):
        settings(world="everything", direction="en-de")
    with pytest.raises(DataError, match=r"say in data\.prompt how rows are written as texts"):
        text_splits(settings(train=str(table)))


def test_plain_texts_ask_nothing():
    assert prompted_splits(settings(world="sentences", n_train=300)) == {}


def test_what_stands_in_braces_in_a_text_is_left_alone(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("".join(f"{{other}} {i}\t{{text}} {i}\t{'yn'[i % 2]}\n" for i in range(40)))
    data = settings(train=str(path), prompt="{text} : {other} :")
    items = {item for (one,) in prompted_splits(data).values() for item in one.items}
    assert Item("{other} 3 : {text} 3 :", "n") in items


@pytest.mark.parametrize(
    ("row", "prompt", "told"),
    [
        ("tea {i}\tgood", "{text} : {other} :", "but a row has one text"),
        ("tea {i}\tmud {i}\tgood", "{text} :", "but a row has two texts"),
    ],
)
def test_a_prompt_takes_as_many_texts_as_a_row_has(tmp_path, row, prompt, told):
    path = tmp_path / "mine.tsv"
    path.write_text("".join(row.replace("{i}", str(i)) + "\n" for i in range(40)))
    with pytest.raises(ConfigError, match=told):
        prompted_splits(settings(train=str(path), prompt=prompt))
