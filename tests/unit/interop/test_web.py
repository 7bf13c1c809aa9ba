"""What a browser is given of a run, and which runs it cannot run."""

import base64
import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import regard
from regard.checkpoints.run_folder import RunFolder, model_tensors, save_model
from regard.core.errors import ConfigError
from regard.interop.web import web_run, web_weights
from regard.models.presets import build
from regard.models.settings import EncoderConfig
from regard.models.transformer import Transformer
from regard.server import static_page
from regard.server.pages import DRAWING, PAGE
from regard.server.static_page import engine_file, page_with


@pytest.fixture(scope="module")
def run(run_path):
    return regard.load(run_path, device="cpu")


def test_weights_come_back_as_they_were(run):
    told = web_weights(run.model)
    numbers = np.frombuffer(base64.b64decode(told["numbers"]), "<f4")
    for name, shape in told["tensors"]:
        size = int(np.prod(shape))
        kept, numbers = numbers[:size].reshape(shape), numbers[size:]
        np.testing.assert_array_equal(kept, model_tensors(run.model)[name].numpy())
    assert len(numbers) == 0


def test_a_vocabulary_is_told_in_the_order_of_its_ids(run):
    told = web_run(run)["tokenizers"]
    assert told["source"]["tokens"][:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert run.tokenizers.source.encode("b") == [told["source"]["tokens"].index("b")]
    assert told["target"] is None


def changed(run_path, folder, **settings):
    """A copy of the run whose model has other settings."""
    shutil.copytree(run_path, folder)
    config = regard.load(run_path, device="cpu").model.config
    config = type(config).model_validate({**config.model_dump(), **settings})
    save_model(RunFolder(folder), config, model_tensors(Transformer(config)))
    return regard.load(folder, device="cpu")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"score": "additive"}, "model.score=additive is not known there"),
        ({"normaliser": "hard"}, "model.normaliser=hard is not known there"),
        ({"window": "local_m"}, "model.window=local_m is not known there"),
        ({"experts": 2}, "model.experts=2 is not known there"),
    ],
)
def test_a_model_that_the_engine_does_not_know_is_refused(run_path, tmp_path, told, why):
    odd = changed(run_path, tmp_path / "run", **told)
    with pytest.raises(ConfigError, match=re.escape(why)) as error:
        odd.export("web", tmp_path / "page")
    assert "`regard serve`" in str(error.value)
    assert not (tmp_path / "page").exists()


def test_a_translator_that_draws_is_refused(run_path, tmp_path):
    folder = shutil.copytree(run_path, tmp_path / "run")
    told = (folder / "config.yaml").read_text()
    assert "temperature: null" in told
    (folder / "config.yaml").write_text(told.replace("temperature: null", "temperature: 1.0"))
    with pytest.raises(ConfigError, match=re.escape("decode.temperature")):
        web_run(regard.load(folder, device="cpu"))


def test_a_run_of_a_task_that_the_engine_does_not_know_is_refused():
    why = "the tasks translation, summarization, classification, language can be, and this is one"
    with pytest.raises(ConfigError, match=f"{why} of the task masked"):
        web_run(SimpleNamespace(task="masked"))


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"cell": "lstm", "pooling": "attention"}, "model.cell=lstm is not known there"),
        ({"pooling": "attention"}, "model.pooling=attention is not known there"),
        ({"score": "additive"}, "model.score=additive is not known there"),
    ],
)
def test_a_classifier_that_the_engine_does_not_know_is_refused(run, told, why):
    sizes = {"n_vocab": 9, "d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1}
    config = EncoderConfig(**sizes, head="classify", n_labels=2, **told)
    reader = run.tokenizers.source
    odd = SimpleNamespace(task="classification", model=build(config), tokenizer=reader)
    with pytest.raises(ConfigError, match=why):
        web_run(odd)


def test_a_large_model_is_refused(run, monkeypatch):
    monkeypatch.setattr("regard.interop.web.MOST_PARAMETERS", 100)
    with pytest.raises(ConfigError, match="may have 100 parameters"):
        web_run(run)


def test_the_page_links_to_nothing_but_its_own_files():
    html, assets = page_with({"a": "</script>"}, {"numbers": ""})
    linked = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert {one for one in linked if not one.startswith("data:")} == {one.name for one in assets}
    assert "/static/" not in html
    assert 'type="module"' not in html
    model, script, _ = assets
    assert json.loads(re.search(r"REGARD_RUN = (.*);", model.text)[1]) == {"a": "</script>"}
    assert not re.search(r"^(?:import|export) ", script.text, re.MULTILINE)


def test_a_module_of_the_engine_may_not_hide_one_of_the_page(tmp_path, monkeypatch):
    for file in static_page.ENGINE.iterdir():
        assert engine_file(file.name) == file.read_text(encoding="utf-8")
    (tmp_path / "draw.js").write_text("export const one = 1;\n")
    monkeypatch.setattr("regard.server.static_page.ENGINE", tmp_path)
    with pytest.raises(ValueError, match=r"draw\.js is a file of the engine and of the page"):
        engine_file("draw.js")


def test_the_page_reaches_the_network_through_one_module_alone():
    reaching = re.compile(r"\bfetch\(|new EventSource|XMLHttpRequest|sendBeacon|WebSocket\(")
    files = [one for folder in (PAGE, DRAWING) for one in folder.glob("*.js")]
    assert [one.name for one in files if reaching.search(one.read_text())] == ["send.js"]
    assert not any(reaching.search(one.read_text()) for one in static_page.ENGINE.iterdir())
