"""A comparison of systems far too small to learn anything: everything else must still hold."""

import json
import os
import shutil
import signal
import statistics
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import yaml
from at_work import Here

from regard.core.errors import CheckpointError, ConfigError, TrainingError
from regard.core.signals import Stop
from regard.data.splits import load_records
from regard.evaluation.systems import by_length, paired_bootstrap
from regard.recipes.recipe import load_recipe
from regard.runs import comparison as results
from regard.runs import side_by_side, trainings
from regard.runs.compare import claim, compare, contest, differences
from regard.runs.comparison import p_value
from regard.runs.estimate import Budget, changed
from regard.runs.side_by_side import Crew
from regard.runs.trainings import Entry, FinishedTraining, centre_rate

BUDGET = "3e8flops"
SEEDS = (1, 2)


@pytest.fixture(scope="module")
def write(settings, tmp_path_factory):
    """Write a recipe with changes to its sections; -> its path."""
    folder = tmp_path_factory.mktemp("recipes")

    def written(name, **sections):
        mixed = {**settings, **{key: {**settings[key], **some} for key, some in sections.items()}}
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(mixed))
        return str(path)

    return written


@pytest.fixture(scope="module")
def systems(write, settings):
    plain = {"model": dict.fromkeys(settings["model"]), "train": {"batch_tokens": 300}}
    return [
        write("small", model={"d_model": 16, "d_ff": 24}),
        write(
            "dot", **{**plain, "model": {**plain["model"], "preset": "cs224n2019", "d_model": 16}}
        ),
    ]


@pytest.fixture(scope="module")
def data(write):
    return write("letters", text={"kind": "word", "shared": True})


@pytest.fixture(scope="module")
def whole(systems, data, tmp_path_factory):
    """A comparison that nothing disturbed; -> its folder and itself."""
    out = tmp_path_factory.mktemp("comparisons") / "whole"
    return out, compare(systems, data=data, budget=BUDGET, seeds=SEEDS, out=out)


def facts(path):
    return json.loads((path / "scores.json").read_text())


def timeless(comparison):
    """The table without its clocks."""
    table = comparison.as_json()
    for row in table["systems"]:
        row["seconds"] = row["grid_seconds"] = None
        row["seeds"] = [{**one, "seconds": None} for one in row["seeds"]]
    return table


# ------------------------------------------------------------------ the table


def test_a_training_that_could_not_be_estimated_is_a_row_too(whole, data):
    """Of one that is compiled nothing is expected beforehand; what it measured is there."""
    folder = whole[0] / "small" / "seed-1"
    found = facts(folder)
    assert found["measured"]["parameters"] == found["estimate"]["parameters"]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    valid = [line for line in lines if line["kind"] == "valid"]
    texts = json.loads((folder / "translations.json").read_text())
    run = FinishedTraining({**found, "estimate": None}, valid, texts)
    pairs = {"test": load_records(load_recipe(data).data, "pair").splits["test"]}
    made = results.system_row("small", Entry((), 0.1, (run,)), [1], pairs)
    assert made.parameters == found["estimate"]["parameters"]


def test_every_training_spends_its_budget_and_no_more(whole):
    out, comparison = whole
    for row in comparison.rows:
        for seed in SEEDS:
            measured = facts(out / row.system / f"seed-{seed}")["measured"]
            assert 0.8 * 3e8 < measured["flops"] <= 3e8
        assert row.training_flops == statistics.fmean(
            facts(out / row.system / f"seed-{seed}")["measured"]["flops"] for seed in SEEDS
        )


def test_the_learning_rate_is_the_best_on_valid_and_its_search_is_counted(whole):
    """So few steps make one round of trials, of half the budget each."""
    out, comparison = whole
    for row in comparison.rows:
        losses, flops = {}, 0.0
        for trial in row.lr_grid:
            folder = out / row.system / f"lr-{trial['lr']:g}-0.5"
            lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
            losses[trial["lr"]] = min(line["loss"] for line in lines if line["kind"] == "valid")
            flops += facts(folder)["measured"]["flops"]
        assert list(losses)[:3] == [0.0025, 0.005, 0.01]  # half, once and twice the recipe's
        assert row.lr == min(losses, key=losses.get)
        assert row.lr_grid == [{"lr": lr, "loss": x, "share": 0.5} for lr, x in losses.items()]
        assert row.grid_flops == flops
        n = len(losses)
        assert 0.5 * n * 0.5 * 3e8 < flops <= n * 0.5 * 3e8
        inside = min(losses) < row.lr < max(losses)
        assert inside or row.lr in (0.08, 0.0003125)  # or the bound of the grid
        for seed in SEEDS:
            config = yaml.safe_load((out / row.system / f"seed-{seed}" / "config.yaml").read_text())
            assert config["train"]["lr"] == row.lr


def test_data_tokenizer_and_search_are_the_same_for_all(whole):
    out, _ = whole
    runs = sorted(path.parent for path in out.glob("*/*/config.yaml"))
    assert len(runs) == sum(len(row.lr_grid) + len(SEEDS) for row in whole[1].rows)
    configs = [yaml.safe_load((run / "config.yaml").read_text()) for run in runs]
    for section in ("data", "text", "decode"):
        assert all(config[section] == configs[0][section] for config in configs)
    assert len({(run / "tokenizer.json").read_bytes() for run in runs}) == 1


def test_a_recipes_own_settings_stay(whole):
    out, _ = whole
    small, dot = (
        yaml.safe_load((out / name / "seed-1" / "config.yaml").read_text())
        for name in ("small", "dot")
    )
    assert (small["train"]["batch_tokens"], dot["train"]["batch_tokens"]) == (200, 300)
    assert (small["model"]["d_ff"], dot["model"]["preset"]) == (24, "cs224n2019")


def test_scores_are_means_and_deviations_over_the_seeds(whole):
    out, comparison = whole
    for row in comparison.rows:
        scores = [facts(out / row.system / f"seed-{seed}")["scores"]["test"] for seed in SEEDS]
        for key in ("bleu", "chrf", "exact_match"):
            a, b = (one[key] for one in scores)
            assert getattr(row, key) == pytest.approx((a + b) / 2)
            assert getattr(row, f"{key}_deviation") == pytest.approx(abs(a - b) / 2**0.5)
            assert [one[key] for one in row.seeds] == [a, b]
        assert row.aer is None  # files carry no alignments


def test_scores_by_length_are_means_over_the_seeds(whole, data):
    out, comparison = whole
    pairs = load_records(load_recipe(data).data, "pair").splits["test"]
    sources, references = zip(*((pair.source, pair.target) for pair in pairs), strict=True)
    for row in comparison.rows:
        kept = [out / row.system / f"seed-{seed}" / "translations.json" for seed in SEEDS]
        texts = [json.loads(path.read_text())["test"] for path in kept]
        one, other = (by_length(sources, some, references) for some in texts)
        assert [bucket["bleu"] for bucket in row.by_length] == pytest.approx(
            [(a.bleu + b.bleu) / 2 for a, b in zip(one, other, strict=True)]
        )
        assert sum(bucket["n"] for bucket in row.by_length) == 40


def test_the_curve_ends_where_the_training_did(whole):
    for row in whole[1].rows:
        flops = [point["flops"] for point in row.curve]
        assert flops == sorted(flops)
        assert flops[-1] == row.training_flops


def test_significance_is_against_the_best(whole):
    _, comparison = whole
    best = max(comparison.rows, key=lambda row: row.bleu)
    assert comparison.best == best.system
    assert [row.p_value is None for row in comparison.rows] == [
        row is best for row in comparison.rows
    ]


def outputs(*texts):
    return [SimpleNamespace(translations={"test": some}) for some in texts]


def test_p_is_the_largest_of_all_seeds_and_one_where_the_better_is_behind():
    right = [f"word{i} and more of it" for i in range(30)]
    half = [text if i % 2 else "nothing" for i, text in enumerate(right)]
    most = [text if i % 10 else "nothing" for i, text in enumerate(right)]
    single = [paired_bootstrap(right, other, right).p_value for other in (half, most)]
    assert single[0] < single[1] < 1
    assert p_value(outputs(right, right), outputs(half, most), right) == single[1]
    assert p_value(outputs(right, half), outputs(half, right), right) == 1.0
    assert p_value(outputs(right, right), outputs(half, right), right) == 1.0


def test_files_say_what_python_says(whole):
    out, comparison = whole
    assert json.loads((out / "comparison.json").read_text()) == comparison.as_json()
    assert [row["system"] for row in comparison.as_json()["systems"]] == ["small", "dot"]
    header, *rows = (out / "comparison.csv").read_text().splitlines()
    assert len(rows) == 2
    first = dict(zip(header.split(","), rows[0].split(","), strict=True))
    assert float(first["bleu"]) == comparison.rows[0].bleu
    assert r"\begin{tabular}" in (out / "comparison.tex").read_text()
    page = (out / "comparison.html").read_text()
    assert "BLEU against training FLOPs" in page
    assert "BLEU against source length" in page
    assert comparison.bleu_signature in page


def test_what_else_differs_is_told_wherever_the_scores_are(whole):
    out, comparison = whole
    (told,) = [one for one in comparison.warnings if "also differ" in one]
    assert "train.batch_tokens (" in told
    assert comparison.as_json()["differences"]["train.batch_tokens"][1] == 300
    assert told in results.scores_table(comparison).caption  # of the terminal and a notebook
    assert told in (out / "comparison.html").read_text()
    assert r"train.batch\_tokens (" in (out / "comparison.tex").read_text()


def test_only_what_the_comparison_does_not_decide_can_differ(write, data):
    plain = write("plain")
    changed = write("changed", train={"lr": 0.1, "max_steps": 7, "seed": 9}, model={"score": "dot"})
    asked = contest([plain, changed], data, Budget(1e8, "flops"), [1])
    assert differences(asked.systems) == {}
    other = write("other", train={"label_smoothing": 0.3}, model={"dropout": 0.25, "d_ff": 48})
    asked = contest([plain, other], data, Budget(1e8, "flops"), [1])
    assert set(differences(asked.systems)) == {
        *("train.label_smoothing", "model.dropout", "model.d_ff"),
    }
    asked = contest(["transformer", "luong2015"], "copy", Budget(1e8, "flops"), [1])
    assert {x for x in differences(asked.systems) if x.startswith("model.")} <= {"model.dropout"}


# ------------------------------------------------------------------ interruptions and failures


@pytest.fixture
def begun(monkeypatch):
    """The folders of all trainings since, in order."""
    folders = []
    train = trainings.train

    def noted(recipe, path, **options):
        folders.append(path)
        return train(recipe, path, **options)

    monkeypatch.setattr(trainings, "train", noted)
    return folders


def test_an_interrupted_comparison_goes_on_and_trains_nothing_twice(
    whole, systems, data, begun, tmp_path
):
    class Impatient:
        """Presses Ctrl-C at the first validation of the first training of a seed."""

        def __call__(self, line):
            if begun[-1].name == "seed-1" and line["kind"] == "valid":
                os.kill(os.getpid(), signal.SIGINT)

        def say(self, text):
            pass

    @contextmanager
    def watching(_settings, _work):
        yield Impatient()

    asked = {"data": data, "budget": BUDGET, "seeds": SEEDS, "out": tmp_path}
    with pytest.raises(Stop) as stopped:
        compare(systems[1:], **asked, watching=watching)
    assert stopped.value.signal is signal.SIGINT
    assert begun[-1].name == "seed-1"
    wanted = timeless(whole[1])["systems"][1]
    for _ in range(2):
        (row,) = timeless(compare(systems[1:], **asked))["systems"]
        assert {**row, "p_value": wanted["p_value"]} == wanted
        n = len(wanted["lr_grid"]) + len(SEEDS)
        assert len(begun) == n + 1  # one of the trainings was in two parts
        assert len(set(begun)) == n
        (tmp_path / "dot" / "seed-2" / "translations.json").unlink()  # as if killed in between


def test_a_failing_system_is_reported_and_the_others_stay(
    whole, systems, data, write, begun, tmp_path
):
    """It is added to a comparison that was finished, which is not trained again."""
    out, before = whole
    shutil.copytree(out, tmp_path / "more")
    wild = write("wild", train={"lr": 1e30})
    said = []
    after = compare(
        [wild, *systems],
        data=data,
        budget=BUDGET,
        seeds=SEEDS,
        out=tmp_path / "more",
        say=said.append,
    )
    assert [folder.name for folder in begun[:3]] == ["lr-5e+29-0.5", "lr-1e+30-0.5", "lr-2e+30-0.5"]
    assert begun[-1].name == "lr-6.25e+28-0.5"  # lower and lower, down to the bound
    failed, *others = after.rows
    assert tuple(others) == before.rows
    assert "5e+29, 1e+30, 2e+30 led anywhere; lower train.lr" in failed.error
    assert failed.bleu is None
    assert any(text.startswith("wild failed: ") for text in said)
    assert "led anywhere" in (tmp_path / "more" / "comparison.html").read_text()
    assert "wild" in (tmp_path / "more" / "comparison.csv").read_text()


@pytest.mark.slow
def test_processes_side_by_side_come_to_the_same_numbers(whole, systems, data, tmp_path):
    """Their threads are as many as ours, one."""
    said, out = [], tmp_path / "beside"
    shutil.copytree(whole[0], out)
    for seed in SEEDS:  # the trials stay
        shutil.rmtree(out / "dot" / f"seed-{seed}")
    asked = {"data": data, "budget": BUDGET, "seeds": SEEDS, "out": out}
    again = compare(systems, **asked, crew=Crew(jobs=2), say=said.append)
    assert timeless(again) == timeless(whole[1])
    assert "dot, learning rate: done (1 of 3)" in said
    assert {one.split(":")[0] for one in said if "done (" in one} == {
        "dot, learning rate", "dot, seed-1", "dot, seed-2",
    }  # fmt: skip


def test_a_system_that_fails_beside_others_says_the_same(
    whole, systems, data, write, tmp_path, monkeypatch
):
    """Rates that led nowhere are not tried again when rows are read back."""

    def refused(_recipe, path, **_options):
        raise TrainingError(f"{path.name} led nowhere")

    monkeypatch.setattr(side_by_side, "Processes", Here)
    monkeypatch.setattr(trainings, "train", refused)
    shutil.copytree(whole[0], tmp_path / "more")
    wild, said = write("wild", train={"lr": 1e30}), []
    asked = {"data": data, "budget": BUDGET, "seeds": SEEDS, "out": tmp_path / "more"}
    after = compare([wild, *systems], **asked, crew=Crew(jobs=2), say=said.append)
    failed, *others = after.rows
    assert tuple(others) == whole[1].rows
    assert "5e+29, 1e+30, 2e+30 led anywhere; lower train.lr" in failed.error
    assert sum("trying learning rate 1e+30" in text for text in said) == 1
    assert "wild, seed-1 needs wild, learning rate, which has failed" in " ".join(said)


def test_where_nothing_can_be_trained_there_is_no_table(systems, data, tmp_path):
    with pytest.raises(TrainingError, match="no system could be trained: small: 4e0flops buys not"):
        compare(systems[:1], data=data, budget="4flops", seeds=[1], out=tmp_path)
    assert not (tmp_path / "comparison.json").exists()


# ------------------------------------------------------------------ what is asked for


def test_a_folder_begun_with_other_settings_is_refused(systems, data, tmp_path):
    asked = contest(systems[:1], data, Budget(1e8, "flops"), [1])
    claim(tmp_path, asked)
    claim(tmp_path, asked)
    claim(tmp_path, contest(systems, data, Budget(1e8, "flops"), [1, 2]))  # more of the same
    claim(tmp_path, asked)
    other = contest(systems, data, Budget(2e8, "flops"), [1])
    with pytest.raises(ConfigError, match="budget was '1e8flops' and is now '2e8flops'"):
        claim(tmp_path, other)
    other = contest(systems, "copy", Budget(1e8, "flops"), [1])
    with pytest.raises(ConfigError, match="data.world was None and is now 'copy'"):
        claim(tmp_path, other)
    narrow = {**systems_recipes(systems), "dot": load_recipe(systems[0])}
    with pytest.raises(ConfigError, match="systems.dot.model.preset was 'cs224n2019'"):
        claim(tmp_path, type(asked)("letters", narrow, asked.budget, (1,)))


def test_an_option_that_was_not_given_before_is_another_setting(systems, data, tmp_path):
    asked = contest(systems[:1], data, Budget(1e8, "flops"), [1])
    claim(tmp_path, asked)
    recipe = changed(asked.systems["small"], optimiser_options={"weight_decay": 0.5})
    with pytest.raises(ConfigError, match="systems.small.train.optimiser_options was "):
        claim(tmp_path, type(asked)(asked.data, {"small": recipe}, asked.budget, (1,)))


def systems_recipes(systems):
    return {"small": load_recipe(systems[0])}


def test_a_folder_that_is_something_else_is_refused(systems, data, run_path, tmp_path):
    asked = contest(systems, data, Budget(1e8, "flops"), [1])
    with pytest.raises(CheckpointError, match="holds a run, not a comparison"):
        claim(run_path, asked)
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="is a file"):
        claim(tmp_path / "file", asked)
    claim(tmp_path / "out", asked)
    settings = tmp_path / "out" / "settings.yaml"
    settings.write_text(settings.read_text().replace("rules: 2", "rules: 1"))
    with pytest.raises(ConfigError, match="begun by a version that counts FLOPs or chooses rates"):
        claim(tmp_path / "out", asked)
    (tmp_path / "settings.yaml").write_text("[")
    with pytest.raises(CheckpointError, match=r"settings.yaml is damaged"):
        claim(tmp_path, asked)


def test_worlds_are_shared_with_one_tokenizer_of_words():
    asked = contest(["transformer", "luong2015"], "reverse", Budget(1e8, "flops"), [1])
    for recipe in asked.systems.values():
        assert recipe.data.world == "reverse"
        assert (recipe.text.kind, recipe.text.shared, recipe.decode.beam) == ("word", True, 1)


def test_what_systems_share_can_be_set_on_a_world_too():
    asked = contest(
        ["transformer"], "reverse", Budget(1e8, "flops"), [1], ["n_train=30", "decode.beam=2"]
    )
    (recipe,) = asked.systems.values()
    assert (recipe.data.world, recipe.data.n_train, recipe.decode.beam) == ("reverse", 30, 2)
    assert recipe.text.kind == "word"
    with pytest.raises(ConfigError, match="unknown setting 'data.n_trian'"):
        contest(["transformer"], "reverse", Budget(1e8, "flops"), [1], ["data.n_trian=30"])
    with pytest.raises(ConfigError, match="names the world 'reverse': leave out --set data.world"):
        contest(["transformer"], "reverse", Budget(1e8, "flops"), [1], ["data.world=copy"])


def test_rates_are_tried_around_the_recipes_own():
    assert centre_rate(load_recipe("luong2015")) == 0.003
    paper = load_recipe("transformer", ["train.lr=null", "train.warmup_steps=400"])
    assert centre_rate(paper) == pytest.approx((128 * 400) ** -0.5)
    assert centre_rate(load_recipe("gpt")) == load_recipe("gpt").train.lr  # of any task


@pytest.mark.parametrize(
    ("names", "words", "message"),
    [
        (["transfomer"], "copy", r"no recipe 'transfomer' \(did you mean 'transformer'\?\)"),
        (["transformer", "transformer"], "copy", "two systems are called 'transformer'"),
        (["transformer"], "sentenses", r"no data 'sentenses' \(did you mean 'sentences'\?\)"),
        ([], "copy", "which systems"),
    ],
)
def test_what_is_not_there_is_refused(names, words, message):
    with pytest.raises(ConfigError, match=message):
        contest(names, words, Budget(1e8, "flops"), [1])


def test_what_would_be_unfair_is_refused(write, data):
    budget = Budget(1e8, "flops")
    begun = write("begun", train={"init": "runs/other"})
    with pytest.raises(ConfigError, match="begun starts from train.init='runs/other'"):
        contest([begun], data, budget, [1])
    untested = write("untested", data={"test": None})
    with pytest.raises(ConfigError, match=r"untested.yaml has no data.test, and on valid"):
        contest(["transformer"], untested, budget, [1])
    with pytest.raises(ConfigError, match="seeds must be given and differ"):
        contest(["transformer"], data, budget, [1, 1])
