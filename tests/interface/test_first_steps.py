"""Where new users stumble: names of files as texts, runs that are not ready, and what to type."""

import shutil

import pytest

import regard
from regard.checkpoints.lock import locked
from regard.core.errors import CheckpointError

# ------------------------------------------------------------------ texts


def test_the_name_of_a_file_is_not_translated(refused, run, run_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.en").write_text("a b\n")
    remedy = "its lines are read by < test.en, or --in test.en --out DIR"
    assert refused("translate", run_path, "test.en") == f"regard: test.en is a file; {remedy}\n"
    assert "in quotes" in refused("explain", run_path, "test.en")
    (tmp_path / "a").mkdir()
    assert run("translate", run_path, "a")[0] == 0


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


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("verb", ["translate", "serve", "info"])
def test_a_missing_run_is_answered_with_the_runs_there_are(refused, verb):
    assert refused(verb).endswith("; runs here: runs/demo, runs/mine\n")


# ------------------------------------------------------------------ the demo


@pytest.fixture
def small_demo(settings, monkeypatch):
    """The demo with a recipe of a few steps."""
    import regard.recipes.recipe as recipes

    small = recipes.recipe_from({**settings, "train": {**settings["train"], "max_steps": 3}})
    monkeypatch.setattr(recipes, "load_recipe", lambda _name, _sets: small)
    return small


@pytest.mark.usefixtures("small_demo")
def test_a_finished_demo_is_shown_again_and_not_trained_again(run, tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr(
        "regard.cli.demo.run_server", lambda run, _listening: served.append(run.folder.path)
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
