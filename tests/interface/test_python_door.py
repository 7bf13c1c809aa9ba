"""Python as a door: ``regard.train``, what runs do by themselves, ``regard.compare``."""

import json
import logging
import signal
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from picture_runs import counting_run
from text_runs import short_run

import regard
from regard.checkpoints.run_folder import model_tensors
from regard.checkpoints.snapshots import SnapshotStore
from regard.core import plugins
from regard.core.errors import ConfigError
from regard.core.signals import ENDING
from regard.runs import progress
from regard.server.log import LOGGERS
from regard.tasks.deeds import HOMES
from regard.visual.heads import conditions

# ------------------------------------------------------------------ training


def test_a_mapping_is_trained_into_a_run_that_is_ready(settings, tmp_path, capsys):
    run = regard.train(settings, tmp_path / "run", max_steps=6, **{"train.eval_every": 3})
    assert isinstance(run, regard.Run)
    assert (run.recipe.train.max_steps, run.recipe.train.eval_every) == (6, 3)
    assert settings["train"]["max_steps"] == 30  # what was given stays as it was
    assert isinstance(run.translate("a b"), str)
    out, told = capsys.readouterr()
    assert out == ""
    assert "step 3  validation loss" in told


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_is_trained_into_the_folder_of_its_name(settings, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(yaml.safe_dump(settings))
    assert regard.train(kind("mine.yaml"), max_steps=1).folder.path == Path("runs/mine")


def test_settings_are_refused_as_the_command_line_refuses_them(refused, settings, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(yaml.safe_dump(settings))
    words = ["--set", "max_step=3", "--set", "n_heads=true", "--set", 'modle.size="small"']
    line = refused("train", recipe, *words, "--out", tmp_path / "run")
    wrong = {"max_step": 3, "n_heads": True, "modle.size": "small"}
    with pytest.raises(ConfigError) as told:
        regard.train(recipe, tmp_path / "run", **wrong)
    assert line == f"regard: {told.value}\n"
    assert "unknown setting 'max_step' (did you mean 'max_steps'?)" in line
    assert not (tmp_path / "run").exists()


def test_what_is_no_setting_and_no_name_is_told(settings, tmp_path):
    with pytest.raises(ConfigError, match="a setting is a number, .* found Generator"):
        regard.train(settings, tmp_path / "run", lr=torch.Generator())
    with pytest.raises(ConfigError, match="has no name: say where its run goes, out=…"):
        regard.train(settings)
    with pytest.raises(ConfigError, match=r"no recipe 'cpoy' \(did you mean 'copy'\?\)"):
        regard.train("cpoy")
    with pytest.raises(ConfigError, match="--resume keeps a run and --overwrite replaces it"):
        regard.train(settings, tmp_path / "run", resume=True, overwrite=True)


@pytest.fixture
def pressed(monkeypatch):
    """Ctrl-C, or another signal, comes with the second report."""

    def press(number=signal.SIGINT):
        reports = []

        def hear(line, *_more):
            reports.append(line)
            if len(reports) == 2:
                signal.raise_signal(number)
            return ""

        monkeypatch.setattr(progress, "described", hear)
        monkeypatch.setattr(progress, "EVERY", 0.0)

    return press


def test_ctrl_c_keeps_what_was_learned_and_resuming_ends_as_if_it_had_not_come(
    settings, run_path, tmp_path, pressed, monkeypatch, capsys
):
    pressed()
    run = regard.train(settings, tmp_path / "run")  # nothing is validated before step 15
    assert "regard: stopped after step 10; all is saved in" in capsys.readouterr().err
    assert isinstance(run.translate("a b"), str)
    saved = SnapshotStore(tmp_path / "run" / "checkpoints").latest(print)
    learned = {f"model/{name}": one for name, one in model_tensors(run.model).items()}
    assert saved.step == 10
    assert all(torch.equal(one, saved.tensors[name]) for name, one in learned.items())
    monkeypatch.undo()
    done = regard.train(settings, tmp_path / "run", resume=True)
    wanted = regard.load(run_path).model.state_dict()
    assert all(torch.equal(one, wanted[name]) for name, one in done.model.state_dict().items())
    again = regard.train(settings, tmp_path / "run", resume=True)  # finished, and opened
    assert again.folder.path == done.folder.path


def test_another_signal_is_passed_on_once_all_is_saved(settings, tmp_path, pressed, monkeypatch):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: heard.append(number))
    try:
        pressed(signal.SIGTERM)
        regard.train(settings, tmp_path / "run")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_notebook_shows_a_bar_and_the_latest_validations(settings, tmp_path, monkeypatch, capsys):
    shown = []

    def display(one, *, display_id):
        assert display_id
        shown.append(one._repr_html_())
        return SimpleNamespace(update=lambda one: shown.append(one._repr_html_()))

    shell = SimpleNamespace(kernel=object())
    notebook = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr(progress, "APART", 0.0)
    regard.train(settings, tmp_path / "run")
    assert capsys.readouterr().err == ""
    assert any('value="10" max="30"' in one and "step 10  loss" in one for one in shown)
    assert "step 30  validation loss" in shown[-1]
    shell.kernel = None  # a terminal's IPython
    assert not progress.in_notebook()


# ------------------------------------------------------------------ runs of every kind

KINDS = ("translator", "classification", "language", "pictures")


@pytest.fixture(scope="module")
def paths(run_path, tmp_path_factory):
    made = {name: tmp_path_factory.mktemp(name) for name in KINDS[1:]}
    texts = {name: short_run(name, made[name]) for name in ("classification", "language")}
    return {"translator": run_path, **texts, "pictures": counting_run(made["pictures"])}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_any_kind_does_what_the_command_line_does(paths, kind, run):
    opened = regard.load(paths[kind])
    assert "<table>" in opened._repr_html_()

    found = opened.evaluate("valid")
    told = json.loads(run("evaluate", paths[kind], "--split", "valid", "--json")[1])
    assert found.scores == told
    assert repr(found).startswith(f"<Evaluation of {opened.task} on valid, n = {told['n']}: ")
    assert len(repr(found)) < 300
    assert "<table>" in found._repr_html_()

    heads = opened.heads(n=5)
    assert heads.as_json() == json.loads(run("heads", paths[kind], "--sentences", 5, "--json")[1])
    assert repr(heads).startswith("<HeadMeasures of ")
    assert "<table>" in heads._repr_html_()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_any_kind_is_served_in_the_background(paths, kind):
    opened = regard.load(paths[kind])
    with opened.serve(port=0, background=True) as server:
        assert repr(server) == f"<Server of {paths[kind]} at {server.url}>"
        assert f'href="{server.url}"' in server._repr_html_()
        with urllib.request.urlopen(f"{server.url}/api/info", timeout=20) as answer:
            assert json.loads(answer.read())["task"] == opened.task
    assert not server.running
    assert "closed" in repr(server)
    assert "closed" in server._repr_html_()
    server.close()  # which changes nothing


def test_what_ifs_of_the_holder_do_not_reach_who_is_served(run_path):
    opened = regard.load(run_path)
    ask = urllib.request.Request
    with opened.serve(port=0, background=True) as server:

        def translated():
            body = json.dumps({"q": "a b c", "source": "ab", "target": "ba"}).encode()
            request = ask(f"{server.url}/translate", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.loads(answer.read())["translatedText"]

        before = translated()
        assert before == opened.translate("a b c")
        with torch.no_grad():
            for parameter in opened.model.parameters():
                parameter.zero_()
        assert translated() == before


def test_a_server_in_the_way_of_another_is_refused(run_path):
    opened = regard.load(run_path)
    with (
        opened.serve(port=0, background=True) as server,
        pytest.raises(ConfigError, match="cannot listen at"),
    ):
        opened.serve(port=int(server.url.rpartition(":")[2]), background=True)
    with pytest.raises(ConfigError, match="give a key as well"):
        opened.serve(host="0.0.0.0", background=True)


def test_it_serves_until_ctrl_c_where_nothing_else_runs(run_path, monkeypatch, capsys):
    from regard.server import background

    def pressed(_run, _listening, *, on_start, **_how):
        on_start("http://here")
        raise KeyboardInterrupt

    monkeypatch.setattr(background.blocking, "serve", pressed)
    assert regard.load(run_path).serve(port=0) is None
    assert capsys.readouterr().out == "serving at http://here (Ctrl-C ends)\nstopped\n"


def test_serving_leaves_the_loggers_and_signals_of_the_program_as_they_were(run_path, monkeypatch):
    from regard.server import background

    def found():
        loggers = [logging.getLogger(name) for name in ("regard", *LOGGERS)]
        handlers = [signal.getsignal(number) for number in ENDING]
        return [(one.level, one.handlers, one.propagate) for one in loggers], handlers

    def press(_address):
        during.append(found())
        signal.raise_signal(signal.SIGINT)

    during, before = [], found()
    monkeypatch.setattr(background, "_tell", press)
    assert regard.load(run_path).serve(port=0) is None
    assert during[0][0] != before[0]
    assert during[0][1] != before[1]
    assert found() == before


def test_beside_a_loop_that_runs_it_is_the_background(run_path):
    import asyncio

    async def cell():
        opened = regard.load(run_path)
        with pytest.raises(ConfigError, match="leave out background=False"):
            opened.serve(port=0, background=False)
        return opened.serve(port=0)

    server = asyncio.run(cell())
    assert server.running
    server.close()


def test_a_run_is_exported_as_the_command_line_does_it(run, run_path, tmp_path):
    written = regard.load(run_path).export("hf", tmp_path / "mine")
    code, out, _ = run("export", run_path, "--to", "hf", tmp_path / "theirs")
    assert code == 0
    assert str(written).partition(": ")[2] == out.strip().partition(": ")[2]
    assert written.files.keys() == {one.name for one in (tmp_path / "theirs").iterdir()}
    assert repr(written).startswith(f"<Export {tmp_path / 'mine'}: hf, ")
    assert "model.safetensors" in written._repr_html_()
    with pytest.raises(ConfigError, match="did you mean 'onnx'"):
        regard.load(run_path).export("onx", tmp_path / "other")


def test_a_run_is_given_its_plugins_and_tells_of_one_that_has_changed(
    settings, tmp_path, monkeypatch, capsys
):
    plugin, out = tmp_path / "my_door_plugin.py", tmp_path / "run"

    def forget():
        monkeypatch.setattr(plugins, "_loaded", {})
        monkeypatch.delitem(sys.modules, plugin.stem, raising=False)

    plugin.write_text("x = 1\n")
    forget()
    regard.train(settings, out, max_steps=2, plugins=[plugin])
    (start,) = json.loads((out / "environment.json").read_text())["starts"]
    assert (start["regard"], start["torch"]) == (regard.__version__, torch.__version__)
    assert (start["step"], start["threads"]) == (0, torch.get_num_threads())
    forget()
    with pytest.raises(regard.ConfigError, match=r"my_door_plugin.py, or plugins=\["):
        regard.load(out)
    capsys.readouterr()
    regard.load(out, plugins=plugin)  # one alone needs no list
    regard.load(out, plugins=[plugin])
    assert capsys.readouterr().err == ""
    plugin.write_text("x = 2\n")
    forget()
    regard.load(out, plugins=[plugin])
    told = capsys.readouterr().err
    assert "my_door_plugin.py has changed since this run was trained" in told
    assert told.count("\n") == 1
    (out / "environment.json").write_text("{}")
    assert regard.load(out, plugins=[plugin]).translate("a")  # a note, nothing more
    assert "whether plug-ins have changed since is not known" in capsys.readouterr().err
    regard.train(settings, out, max_steps=3, resume=True, plugins=[plugin])
    (start,) = json.loads((out / "environment.json").read_text())["starts"]
    assert start["step"] == 2
    forget()


def test_evaluations_are_told_where_else_to_look(run_path, tmp_path, settings, corpus):
    opened = regard.load(run_path)
    source, reference = corpus["test"]
    pair = opened.evaluate(source=source, reference=reference)
    assert pair.scores["bleu"] == opened.evaluate().scores["bleu"]
    assert opened.evaluate("valid", data=settings).scores == opened.evaluate("valid").scores
    assert opened.evaluate("valid", beam=2).scores["n"] == 40
    with pytest.raises(ConfigError, match="--source and --reference go together"):
        opened.evaluate(source=source)
    with pytest.raises(ConfigError, match="at least 1 sentence"):
        opened.heads(n=0)


def test_heads_are_measured_on_texts_of_a_list_too(paths, tmp_path):
    opened, texts = regard.load(paths["classification"]), ["a b c", "d e", "c a"]
    (tmp_path / "texts").write_text("\n".join(texts))
    listed, read = opened.heads(texts=texts).as_json(), opened.heads(texts=tmp_path / "texts")
    assert listed == {**read.as_json(), "split": "a list"}
    assert "3 texts of a list" in conditions(listed)


def test_every_deed_has_a_home():
    for deed, home in HOMES.items():
        __import__(home)
        assert callable(getattr(sys.modules[home], deed))
        assert callable(getattr(regard.Run, deed))


# ------------------------------------------------------------------ comparing


def test_systems_are_compared_and_shown(settings, tmp_path, capsys):
    recipe = tmp_path / "small.yaml"
    recipe.write_text(yaml.safe_dump(settings))
    how = {"data": recipe, "budget": "2e8flops", "seeds": 1, "out": tmp_path / "out"}
    found = regard.compare([recipe], **how, d_model=16, d_ff=24)
    assert "trying learning rate" in capsys.readouterr().err
    assert found.as_json() == json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert repr(found).startswith("<Comparison on small, 2e8flops, 1 seed: BLEU small ")
    assert found._repr_html_().count("<table>") == 3
    with pytest.raises(ConfigError, match=r"unknown setting 'd_modle' \(did you mean 'd_model'"):
        regard.compare([recipe], **how, d_modle=16)
