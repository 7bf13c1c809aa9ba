import gzip
import re
from importlib.resources import files

import pytest
import yaml

from regard.cli.main import main
from regard.core.errors import ConfigError
from regard.data.records import Corpus, Pair
from regard.data.splits import read_splits
from regard.models.presets import presets_for
from regard.models.settings import SequenceConfig
from regard.recipes.recipe import builtin_recipes, load_recipe
from regard.runs.lecture_tables import TABLES
from regard.tasks.recipe import Recipe, recipe_from


@pytest.mark.parametrize("name", builtin_recipes())
def test_every_built_in_recipe_is_valid_and_says_what_to_expect(name):
    assert load_recipe(name)
    assert len(builtin_recipes()[name]) > 10
    text = (files("regard.recipes") / f"{name}.yaml").read_text()
    comment = "\n".join(line for line in text.split("\n") if line.startswith("#"))
    assert f"regard train {name}" in comment
    elsewhere = "measured in benchmarks/RESULTS.md" in comment
    if load_recipe(name).data.world is None or "For a GPU" in comment:
        assert elsewhere
    elif not elsewhere:
        assert re.search(r"Expect [\d.]+ %", comment)
        assert re.search(r"\d+ s of training on two CPU cores", comment)


SUMMARIZERS = {"seq2seq-attention", "transformer-ed", "transformer-d", "dmca2018"}


def test_every_summarizer_is_a_row_of_the_lectures_table():
    assert {row.preset for row in TABLES["summarization"].rows} == SUMMARIZERS


@pytest.mark.parametrize("name", sorted({*presets_for(SequenceConfig)} - SUMMARIZERS))
def test_every_translator_has_a_recipe_of_its_own(name):
    recipe = load_recipe(name)
    assert (recipe.model.preset, recipe.data.world) == (name, "sentences")


@pytest.mark.parametrize("name", sorted({*presets_for(SequenceConfig)} - {"bahdanau2015"}))
def test_another_preset_in_a_recipe_says_what_to_leave_out(name):
    """What only some families can be told is refused with a remedy, and the remedy works."""
    overrides = ["folder=there", f"preset={name}"]
    for _ in range(3):
        try:
            recipe = load_recipe("multi30k-en-de", overrides)
            break
        except ConfigError as error:
            remedies = re.findall(r"; leave it out, as (\w+=null) does", str(error))
            assert remedies
            overrides += remedies
    assert recipe.model.preset == name
    assert {*overrides[2:]} <= {"norm_first=null", "n_layers=null"}


MULTI30K = [name for name in builtin_recipes() if name.startswith("multi30k")]
TATOEBA = [name for name in builtin_recipes() if name.startswith("tatoeba")]


@pytest.mark.parametrize("name", MULTI30K)
def test_a_recipe_of_parallel_files_reads_them_from_the_folder_it_is_given(name, tmp_path):
    source, target = name.split("-")[1:3]
    for split in ("train", "val", "test_2016_flickr"):
        for side in (source, target):
            packed = gzip.compress(f"{split} {side}\n".encode())
            (tmp_path / f"{split}.{side}.gz").write_bytes(packed)
    recipe = load_recipe(name, [f"folder={tmp_path}"])
    assert recipe.data.direction == f"{source}-{target}"
    splits = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    assert read_splits(recipe.data, "pair") == {
        split: Corpus((Pair(f"{file} {source}", f"{file} {target}"),))
        for split, file in splits.items()
    }


@pytest.mark.parametrize("name", TATOEBA)
def test_a_recipe_of_one_table_reads_the_right_columns(name, tmp_path):
    source, target = name.split("-")[1:]
    other = ({source, target} - {"en"}).pop()
    lines = "".join(f"en {i}\t{other} {i}\tby nobody\n" for i in range(9000))
    file = {"fr": "fra.txt.gz", "de": "deu.txt.gz"}[other]
    (tmp_path / file).write_bytes(gzip.compress(lines.encode()))
    recipe = load_recipe(name, [f"folder={tmp_path}"])
    assert recipe.data.direction == f"{source}-{target}"
    splits = read_splits(recipe.data, "pair")
    assert {split: len(corpus.examples) for split, corpus in splits.items()} == {
        "train": 3000,
        "valid": 3000,
        "test": 3000,
    }
    for corpus in splits.values():
        assert all(
            pair.source[:2] == source and pair.target[:2] == target for pair in corpus.examples
        )


@pytest.mark.parametrize("size", ["base", "big"])
def test_the_sizes_of_the_paper_have_its_schedule(size):
    asked = load_recipe("transformer", [f"size={size}", "batch_tokens=25000"])
    assert asked.train.schedule == "inverse_sqrt"
    assert asked.train.batch_tokens == 25000  # what is asked for goes before
    d_model = {"base": 512, "big": 1024}[size]
    for step in (1, 4000, 16000):
        paper = d_model**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert asked.train.rate_at(step, d_model) == pytest.approx(paper)
    assert load_recipe("transformer", ["size=small"]).train.schedule == "linear"


@pytest.mark.parametrize("sizes", ["3", "{base: 3}", "{base: {train: 3}}"])
def test_sizes_that_are_no_sections_are_refused(tmp_path, sizes):
    path = tmp_path / "my.yaml"
    path.write_text(f"data: {{world: copy}}\ntrain: {{max_steps: 1}}\nsizes: {sizes}\n")
    with pytest.raises(ConfigError, match="sizes must be sections"):
        load_recipe(str(path), ["size=base"])


def test_set_overrides_by_full_name_and_by_bare_name_where_that_is_clear():
    recipe = load_recipe("transformer", ["model.n_heads=2", "lr=3e-4", "seed=9", "bias=false"])
    assert recipe.model.n_heads == 2
    assert recipe.train.lr == 3e-4
    assert recipe.train.seed == 9
    assert recipe.model.bias is False


def test_set_reaches_into_sections_of_sections():
    before = load_recipe("cifar10").data.augment
    assert before.crop
    found = load_recipe("cifar10", ["data.augment.mixup=0.7", "data.augment.flip=false"])
    changes = {"mixup": 0.7, "flip": False}
    assert found.data.augment == before.model_copy(update=changes)
    first = load_recipe("counting", ["data.augment.colour=0.5"]).data.augment
    assert first.colour == 0.5
    for override, message in (
        ("data.augment.mixupp=1", r"'data\.augment\.mixupp' \(did you mean 'mixup'\?\)"),
        ("data.folder.a=1", r"^section data\.folder of the recipe must hold settings$"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_recipe("cifar10", ["folder=x", override])


def test_plain_data_names_a_task_as_a_file_does(tmp_path):
    raw = {
        "task": "classification",
        "data": {"train": "pictures"},
        "model": {"preset": "vit2021"},
        "train": {"max_steps": 1},
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(raw))
    assert recipe_from(raw) == load_recipe(str(tmp_path / "a.yaml"))
    assert recipe_from(raw).task == "image_classification"
    assert recipe_from({**raw, "model": {"preset": "bert"}}).task == "classification"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("max_len=9", r"in several sections: say model\.max_len or decode\.max_len"),
        ("n_head=9", r"unknown setting 'n_head' \(did you mean 'n_heads'\?\)"),
        ("model.n_head=9", r"model\.n_head=9: .*no setting 'n_head' \(did you mean 'n_heads'\?\)"),
        ("modle.n_heads=9", r"no section 'modle' \(did you mean 'model'\?\)"),
        ("n_heads", "takes key=value"),
        ("n_heads=[", "no YAML value"),
        ("dropout=1.5", r"model\.dropout=1\.5: input should be less than 1"),
        ("score=dott", r"unknown score 'dott' \(did you mean 'dot'\?\)"),
        ("max_steps=null", "would never end"),
        ("learning_rate=3", r"unknown setting 'learning_rate' \(did you mean 'lr'\?\)$"),
        (
            "train.epochs=3",
            r"^unknown setting 'train.epochs'; trainings are counted in steps, not in ",
        ),
        ("train.quux=3", r"^unknown setting 'train.quux'; known: seed, "),
        ("model.num_heads=3", r"no setting 'num_heads' \(did you mean 'n_heads'\?\)"),
        ("data.direction=en-pirate", "'en-pirate': .* 2 or 3 small letters .* invented ones too"),
    ],
)
def test_wrong_overrides_are_explained(override, message):
    with pytest.raises(ConfigError, match=message):
        load_recipe("transformer", [override])


def test_a_wrong_name_is_told_before_what_follows_from_it():
    raw = {"data": {"world": "copy"}, "train": {"max_step": 300}}
    with pytest.raises(ConfigError) as told:
        load_recipe(raw)
    cause, consequence = str(told.value).split("; ")
    assert cause == "unknown setting 'train.max_step' (did you mean 'max_steps'?)"
    assert "would never end" in consequence


def test_a_recipe_may_be_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("data: {world: sentences}\ntrain: {max_steps: 3}\n")
    assert load_recipe(str(path)).train.max_steps == 3


def test_a_recipe_builds_on_another_and_says_only_what_it_has_otherwise(tmp_path):
    (tmp_path / "near.yaml").write_text("base: transformer\nmodel: {score: dot}\n")
    (tmp_path / "wide.yaml").write_text("base: near.yaml\nmodel: {d_ff: 64}\n")
    plain, near = load_recipe("transformer"), load_recipe(str(tmp_path / "near.yaml"))
    assert near.model.score == "dot"
    assert near.model_copy(update={"model": plain.model}) == plain
    wide = load_recipe(str(tmp_path / "wide.yaml"), ["lr=1e-4"])
    assert (wide.model.score, wide.model.d_ff, wide.train.lr) == ("dot", 64, 1e-4)
    assert "base" not in wide.model_dump()  # what a run folder keeps is whole
    assert load_recipe({"base": "copy", "train": {"seed": 7}}).train.seed == 7


def test_a_size_brings_what_the_base_says_of_it(tmp_path):
    path = tmp_path / "paper.yaml"
    path.write_text("base: transformer\nmodel: {size: base}\ntrain: {label_smoothing: 0.2}\n")
    found = load_recipe(str(path)).train
    assert (found.schedule, found.label_smoothing) == ("inverse_sqrt", 0.2)
    assert load_recipe(str(path), ["size=big"]).model.dropout == 0.3


@pytest.mark.parametrize("overrides", [[], ["size=base"], ["model.size=big"]])
def test_what_a_recipe_says_goes_before_the_sizes_of_its_base(tmp_path, overrides):
    own = "base: transformer\nmodel: {size: base}\ntrain: {max_steps: 7, lr: 0.5}\n"
    (tmp_path / "own.yaml").write_text(own)
    (tmp_path / "upon.yaml").write_text("base: own.yaml\ntrain: {seed: 4}\n")
    for name in ("own.yaml", "upon.yaml"):
        found = load_recipe(str(tmp_path / name), overrides).train
        assert (found.max_steps, found.lr) == (7, 0.5)


def test_a_recipe_of_ones_own_may_have_sizes_too(tmp_path):
    path = tmp_path / "mine.yaml"
    sizes = "sizes: {tiny: {train: {max_steps: 5}}}"
    path.write_text(f"base: transformer\ntrain: {{max_steps: 7}}\n{sizes}\n")
    assert load_recipe(str(path)).train.max_steps == 7
    assert load_recipe(str(path), ["size=tiny"]).train.max_steps == 5


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (
            "transfomer",
            r"base of recipe \S+mine.yaml: there is no file .*did you mean 'transformer'",
        ),
        ("away.yaml", r"base of recipe \S+mine.yaml: there is no file \S+away.yaml"),
        ("mine.yaml", "in a circle"),
        ("../recipes/mine.yaml", "in a circle"),
        ("[copy]", r"base=\['copy'\]: give the name of a built-in recipe"),
    ],
)
def test_a_base_that_is_none_is_explained(tmp_path, base, message):
    path = tmp_path / "recipes" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(f"base: {base}\n")
    with pytest.raises(ConfigError, match=message):
        load_recipe(str(path))


def test_a_recipe_is_printed_as_it_is_written(capsys):
    assert main(["recipes", "copy"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# ")
    assert "world: copy" in shown
    assert main(["recipes", "cpoy"]) == 2
    assert "did you mean 'copy'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data: [", "is not YAML"),
        ("just words", "must have the sections"),
        ("data: {}", "no data"),
        ("data: {world: copy}", r"^recipe \S+mine\.yaml has no section train; add it"),
        ("data: {world: copy}\ntrain:", "section train must hold settings"),
        ("data: {world: copy, direction: english}", "direction='english': .* write it as en-fr"),
    ],
)
def test_a_broken_file_is_explained(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(str(path))


def test_an_unknown_recipe_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'reverse'"):
        load_recipe("revrse")


def test_a_recipe_survives_its_own_dump():
    recipe = load_recipe("transformer")
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe


@pytest.mark.parametrize("task", ["classification", "masked", "similarity", "answers"])
def test_a_wrong_setting_is_the_only_complaint_whatever_the_task(tmp_path, task):
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"task: {task}\ndata: {{train: a.tsv}}\nmodel: {{preset: bert}}\n"
        "train: {max_steps: 3, lr: -1}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_recipe(str(path))
    assert "train.lr=-1" in str(caught.value)
    assert "translation" not in str(caught.value)
    assert ";" not in str(caught.value)


@pytest.mark.parametrize("task", ["writing", "[masked]"])
def test_an_unknown_task_is_told_and_nothing_else(tmp_path, task):
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"task: {task}\ndata: {{world: copy}}\nmodel: {{preset: bert}}\ntrain: {{max_steps: 3}}\n"
    )
    with pytest.raises(ConfigError, match="^task=") as caught:
        load_recipe(str(path))
    assert "preset" not in str(caught.value)
