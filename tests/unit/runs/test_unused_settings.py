"""Settings that would do nothing are refused before anything is read."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.recipes.recipe import builtin_recipes, load_recipe
from regard.runs.prepare import check_used, prepare
from regard.tasks.recipe import recipe_from

ENCODERS = ("classification", "masked", "similarity", "answers")
ALL = ("translation", "summarization", "language", *ENCODERS)
WORDLESS = ("image_classification", "detection")


def recipe(task, section="data", **settings):
    sections = {"data": {"train": "no such file.tsv"}, "train": {"max_steps": 3}}
    return recipe_from(
        {"task": task, **sections, section: {**sections.get(section, {}), **settings}}
    )


def test_a_number_of_texts_is_led_to_the_number_of_tokens():
    with pytest.raises(ConfigError, match=r"batch_size=8 does .*; set train\.batch_tokens"):
        check_used(recipe("translation", "train", batch_size=8, max_steps=3))


@pytest.mark.parametrize(
    ("section", "setting", "tasks"),
    [
        ("data", {"prompt": "{text} ="}, ("translation", "summarization", *ENCODERS)),
        ("data", {"columns": [1, 2]}, ("masked",)),
        ("data", {"long_lines": "truncate"}, ("summarization", "language", *ENCODERS)),
        ("data", {"truncate": True}, ("translation", "language", *ENCODERS)),
        ("text", {"bpe_dropout": 0.1}, ("language", *ENCODERS)),
        ("text", {"shared": False}, ("language", *ENCODERS)),
        ("train", {"teacher_forcing": 0.5}, ("language", *ENCODERS)),
        ("train", {"label_smoothing": 0.2}, ("similarity",)),
        ("decode", {"replace_unknown": True}, ("language", *ENCODERS)),
        ("decode", {"coverage_penalty": 0.2}, ("language", *ENCODERS)),
        ("decode", {"beam": 4}, ENCODERS),
        ("decode", {"length_penalty": 1.0}, ENCODERS),
        ("decode", {"stop": "first"}, ENCODERS),
        ("decode", {"temperature": 0.7}, ENCODERS),
        ("decode", {"top_k": 3}, ENCODERS),
        ("decode", {"top_p": 0.9}, ENCODERS),
        ("decode", {"seed": 3}, ENCODERS),
        ("decode", {"fast": False}, ENCODERS),
        ("decode", {"precision": "bf16"}, ENCODERS),
        ("decode", {"max_len": 9}, ENCODERS),
    ],
)
def test_each_task_refuses_what_it_does_not_heed_and_nothing_else(section, setting, tasks):
    (name,) = setting
    for task in ALL:
        if task not in tasks:
            check_used(recipe(task, section, **setting))
            continue
        told = (
            rf"^{section}\.{name}=.* does nothing in the task {task}, being for .*; leave it out$"
        )
        with pytest.raises(ConfigError, match=told):
            check_used(recipe(task, section, **setting))


def test_all_of_it_is_told_at_once_and_before_files_are_opened():
    asked = recipe("masked", "decode", beam=4, max_len=9)
    with pytest.raises(ConfigError) as caught:
        prepare(asked, torch.device("cpu"))
    assert str(caught.value) == (
        "decode.beam=4 does nothing in the task masked, being for translation, summarization, "
        "language and captioning; leave it out; "
        "decode.max_len=9 does nothing in the task masked, being for translation, summarization, "
        "language and captioning; leave it out"
    )


@pytest.mark.parametrize(
    "setting", [{"kind": "word"}, {"vocab_size": 500}, {"lowercase": True}], ids=str
)
def test_tasks_without_words_refuse_to_be_told_how_text_becomes_ids(setting):
    for task in (*ALL, "captioning", "visual_questions"):
        check_used(recipe(task, "text", **setting))
    for task in WORDLESS:
        with pytest.raises(ConfigError, match=rf"^text\..*=.* does nothing in the task {task}, "):
            check_used(recipe(task, "text", **setting))


@pytest.mark.parametrize("task", ["image_classification", "visual_questions", "detection"])
def test_tasks_that_start_from_no_other_run_refuse_one(task):
    with pytest.raises(ConfigError, match=f"^train.init=runs/a does nothing in the task {task}, "):
        check_used(recipe(task, "train", max_steps=3, init="runs/a"))
    for able in (*ALL, "captioning"):
        check_used(recipe(able, "train", max_steps=3, init="runs/a"))


def test_no_smoothing_is_what_similarity_has():
    check_used(recipe("similarity", "train", max_steps=3, label_smoothing=0))


@pytest.mark.parametrize("name", builtin_recipes())
def test_built_in_recipes_say_nothing_in_vain(name):
    check_used(load_recipe(name))
