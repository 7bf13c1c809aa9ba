"""Where new users stumble: names of files as texts, runs that are not ready, and what to type."""

import shutil
import subprocess
import sys
import threading

import pytest
import yaml

import regard
from regard.checkpoints.lock import locked
from regard.cli.completion import claim_names
from regard.core.errors import CheckpointError
from regard.recipes.recipe import builtin_recipes
from regard.runs.prepare import prepare
from regard.runs.progress import Lines

# ------------------------------------------------------------------ texts


def test_the_name_of_a_file_is_not_translated(refused, run, run_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.en").write_text("a b\n")
    remedy = "its lines are read by < test.en, or --in test.en --out DIR"
    assert refused("translate", run_path, "test.en") == f"regard: test.en is a file; {remedy}\n"
    assert "in quotes" in refused("explain", run_path, "test.en")
    assert refused("translate", run_path, "./test.en").startswith("regard: ./test.en is a file")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").write_text("a word is a text, whatever lies here")
    assert run("translate", run_path, "a", "b")[0] == 0


def test_several_words_without_quotes_are_told(run, run_path):
    told = "regard: 3 texts; quote a sentence to translate it as one\n"
    assert run("translate", run_path, "a", "b", "c")[2] == told
    assert run("translate", run_path, "a b", "c")[2] == ""
    assert run("translate", run_path, "a")[2] == ""


# ------------------------------------------------------------------ runs


def test_a_run_that_is_still_being_trained_is_told_as_that(refused, run_path, tmp_path):
    young = tmp_path / "young"
    shutil.copytree(run_path, young)
    for name in ("model.safetensors", "scores.json"):
        (young / name).unlink()
    told = f"{young} is still being trained by process "
    with locked(young):
        for words in (["translate", young], ["info", young], ["serve", young, "--port", 0]):
            assert told in refused(*words)
        with pytest.raises(CheckpointError, match="no weights yet; wait for its first validation"):
            regard.load(young)
        (young / "config.yaml").unlink()
        for words in (["translate", young], ["serve", young, "--port", 0]):
            assert told in refused(*words)
    assert "is not a run folder" in refused("translate", young)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with two runs, which are only looked at."""
    monkeypatch.chdir(tmp_path)
    for name in ("demo", "mine"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").touch()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["translate", "demo"], "there is no run folder demo (did you mean 'runs/demo'?)"),
        (["info", "runs/min"], "there is no run folder runs/min (did you mean 'runs/mine'?)"),
        (["serve", "dem"], "there is no run folder dem (did you mean 'runs/demo'?)"),
        (["heads", "xyz"], "there is no run folder xyz; runs here: runs/demo, runs/mine"),
        (["translate", "john loves mary"], "expected RUN first: regard translate RUN TEXT"),
        (["explain", "john loves mary", "x"], "expected RUN first: regard explain RUN TEXT"),
        (["info", "x " * 300], "expected RUN first: regard info RUN"),
        (["heads", "x" * 300], f"there is no run folder {'x' * 300}; runs here: runs/demo, runs/m"),
    ],
)
def test_a_wrong_run_is_answered_with_the_runs_there_are(refused, words, told):
    assert refused(*words).startswith(f"regard: {told}")


def test_a_missing_run_is_answered_with_the_runs_beside_it(refused, tmp_path, monkeypatch):
    (tmp_path / "kept" / "mine").mkdir(parents=True)
    (tmp_path / "kept" / "mine" / "config.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert refused("serve", "kept/xyz").endswith(
        "there is no run folder kept/xyz; runs here: kept/mine\n"
    )


def test_a_mistyped_run_is_no_text(refused, run, run_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "begun").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    told = refused("translate", run_path, "runs/mine", "a b")
    assert told == "regard: there is no run folder runs/mine\n"
    told = refused("evaluate", run_path, "runs/mine")
    assert told == "regard: there is neither a run folder nor a file runs/mine\n"
    assert "runs/begun is not a run folder" in refused("translate", run_path, "runs/begun", "a b")
    for texts in (["a/b", "runs/mine a"], ["/a", "b"], ["../a", "b"], ["src/a"]):
        assert run("translate", run_path, *texts)[0] == 0


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("verb", ["translate", "serve", "info"])
def test_a_missing_run_is_answered_with_the_runs_there_are(refused, verb):
    assert refused(verb).endswith("; runs here: runs/demo, runs/mine\n")


# ------------------------------------------------------------------ the demo


@pytest.fixture
def small_demo(settings, tmp_path, monkeypatch):
    """The demo with a recipe of a few steps."""
    small = {**settings, "train": {**settings["train"], "max_steps": 3}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(small))
    monkeypatch.setattr("regard.cli.demo.RECIPE", str(tmp_path / "small.yaml"))


@pytest.mark.usefixtures("small_demo")
def test_a_finished_demo_is_shown_again_and_not_trained_again(run, tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr(
        "regard.cli.demo.run_server", lambda run, _listening, then: served.append(run.folder.path)
    )
    words = ["demo", "--out", tmp_path / "demo"]
    code, first, _ = run(*words, "--no-serve")
    weights = (tmp_path / "demo" / "model.safetensors").stat().st_mtime_ns
    assert code == 0
    assert f'use it: regard translate {tmp_path / "demo"} "my sister lives in paris"' in first
    code, again, told = run(*words, "--no-serve")
    assert code == 0
    assert "is finished and is not trained again; --overwrite trains anew" in told
    assert again.splitlines() == first.splitlines()[1:]  # all but how the training went
    code, _, told = run(*words, "--port", 0)
    assert (code, served) == (0, [tmp_path / "demo"])
    assert "watch it learn" not in told
    assert (tmp_path / "demo" / "model.safetensors").stat().st_mtime_ns == weights
    run(*words, "--no-serve", "--overwrite")
    assert (tmp_path / "demo" / "model.safetensors").stat().st_mtime_ns != weights


@pytest.mark.usefixtures("small_demo")
def test_a_demo_that_was_stopped_goes_on(run, refused, tmp_path):
    words = ["demo", "--out", tmp_path / "demo", "--no-serve"]
    run(*words)
    (tmp_path / "demo" / "scores.json").unlink()
    code, out, told = run(*words)
    assert code == 0
    assert "holds a training that goes on; --overwrite trains anew" in told
    assert "resuming at step 3" in told
    assert "mary loves john" in out
    with locked(tmp_path / "demo"):
        assert "is being trained by process" in refused(*words)


def test_the_demo_leaves_another_run_alone(refused, run_path):
    told = refused("demo", "--out", run_path, "--no-serve")
    assert "holds another run than the demo's; choose another --out" in told


# ------------------------------------------------------------------ what there is


def test_a_run_of_another_task_is_told_with_a_recipe_that_makes_one(refused, run_path):
    asked = refused("summarize", run_path)
    assert "this needs a summarizer; use `regard translate` with it" in asked
    assert asked.endswith("; `regard train documents-500` trains one that can\n")


def test_recipes_are_grouped_by_task_and_say_what_they_need(run):
    _, listed, _ = run("recipes")
    groups = [group.splitlines() for group in listed.split("\n\n")[1:]]
    assert groups[0][0] == "translation, for `regard translate`"
    assert groups[0][1].split()[:5] == ["transformer", "built", "in", "1,400", "steps"]
    lines = {line.split()[0]: line for group in groups for line in group[1:]}
    assert {*lines} == {*builtin_recipes()}
    assert " your files " in lines["tatoeba-en-fr"]
    assert "15,000 steps, GPU" in lines["cifar10"]


def test_a_run_is_told_in_words_and_not_in_json(run, run_path):
    _, out, _ = run("info", run_path)
    assert "{" not in out
    assert max(map(len, out.splitlines())) <= 120
    assert "special ids     <pad> 0, <s> 1, </s> 2, <unk> 3" in out
    flops = next(line for line in out.splitlines() if line.startswith("training flops"))
    assert "e+0" in flops


# ------------------------------------------------------------------ help and completion


def test_help_names_no_type_beside_flags_and_shows_plugins(run):
    for words in (["--help"], ["train", "--help"], ["bench", "--help"], ["translate", "-h"]):
        _, out, _ = run(*words)
        assert "<bool>" not in out
        assert "--plugin" in out


def test_the_version_has_a_short_name(run):
    assert run("-V") == run("--version")
    assert run("-V")[:2] == (0, f"{regard.__version__}\n")


def test_claims_of_the_lab_are_completed():
    assert claim_names("per") == ["permutation"]
    assert claim_names("al")[0] == "all"


def test_inputs_are_named_as_what_they_are(run):
    _, out, _ = run("summarize", "--help")
    words = " ".join(out.replace("│", "").split())
    assert "Files that hold one document each; else the lines of standard input." in words
    assert "pictures" not in out
    _, out, _ = run("translate", "--help")
    assert "[TEXT]..." in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "gtp"], "no recipe 'gtp' (did you mean 'gpt'?); `regard recipes` lists all\n"),
        (["train", "mine.yml"], "there is no file mine.yml (did you mean 'mine.yaml'?); `regard"),
    ],
)
def test_a_near_recipe_is_named_alone(refused, words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    said = refused(*words)
    assert told in said
    assert len(said) < 150


def test_a_model_that_is_not_here_is_told_with_the_way_to_get_it():
    asked = (
        "import sys; from regard.cli.main import main\n"
        "print(main(['import', 'some/gpt2', '--out', 'x']), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.stdout == "2 False\n"
    assert "`hf download some/gpt2 --local-dir gpt2`" in done.stderr


# ------------------------------------------------------------------ while one waits


def test_what_is_prepared_is_told_before_it_is(run, tmp_path, monkeypatch):
    said = threading.Event()
    plain_say = Lines.say
    monkeypatch.setattr(Lines, "say", lambda self, text: (plain_say(self, text), said.set()))
    monkeypatch.setattr("regard.runs.progress.SLOW", 0.0)
    monkeypatch.setattr(
        "regard.runs.train.prepare",
        lambda *given, **how: (said.wait(20), prepare(*given, **how))[1],
    )
    small = ["n_layers=1", "d_model=16", "d_ff=32", "n_heads=2", "max_steps=1", "warmup_steps=1"]
    sets = [word for one in small for word in ("--set", one)]
    _, _, err = run("train", "copy", "--out", tmp_path / "run", *sets)
    assert err.startswith("preparing all data of the built-in world copy; ")


def test_files_that_are_written_are_named(run, run_path, tmp_path):
    look, model = tmp_path / "look.svg", tmp_path / "model.svg"
    assert f"regard: wrote {look}\n" in run("explain", run_path, "a b", "--out", look)[2]
    assert run("draw", run_path, "--out", model)[2] == f"regard: wrote {model}\n"


def test_many_lines_are_told_to_be_answered_in_turn(run, run_path, monkeypatch):
    monkeypatch.setattr("regard.tasks.verb.Verb.chunk", 4)
    monkeypatch.setattr("regard.cli.verbs._MANY", 4)
    monkeypatch.setattr("regard.cli.verbs._APART", 0.0)
    _, out, err = run("translate", run_path, stdin="a b\n" * 9)
    assert len(out.splitlines()) == 9
    assert err.splitlines() == [
        "regard: many lines: answers come 4 at a time",
        "regard: 4 lines are answered",
        "regard: 8 lines are answered",
    ]
    assert run("translate", run_path, stdin="a b\n" * 3)[2] == ""


def test_digits_of_a_matrix_are_told_exactly(run, run_path):
    _, out, _ = run("explain", run_path, "a b")
    assert "\ndigits are tenths, cut off: 9 is 0.9 to 1, · is below 0.1\n" in out


def test_an_exercise_is_told_with_its_check(run):
    _, out, _ = run("practice", "attention")
    assert out.endswith("\nThen:  regard practice --check attention.py\n")
