"""The page without a server: opened from a disk and over HTTP, it says what the server says."""

import json
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from letters import pairs
from page_parts import ABLATE, SOURCE, control, drawn, link
from playwright.sync_api import expect
from web_engine import Engine, told

import regard
from regard.checkpoints.run_folder import RunFolder, model_tensors, save_model
from regard.core.errors import ConfigError
from regard.data.splits import load_records
from regard.interop.web import web_tokenizer
from regard.models.transformer import Transformer
from regard.runs.train import train
from regard.tasks.recipe import recipe_from
from regard.text.settings import TextSettings
from regard.text.specials import UNKNOWN_ID
from regard.text.tokenizer import Tokenizer

pytestmark = pytest.mark.browser

WORLD_RUN = Path(__file__).parent.parent / "fixtures" / "runs-0.1.0" / "transformer"
TIRED = "the animal did not cross the street because it was too tired"
CROSS = {"name": "decoder.cross", "layer": 0}
NO_POSITIONS, HOT = {"kind": "no_positions"}, {"kind": "temperature", "value": 2.5, "name": None}
EDITS = [
    [],
    [{"kind": "ablate", **CROSS, "head": 1}],
    [{"kind": "ablate", "name": "encoder.self", "layer": 0, "head": 0}],
    [{"kind": "force", **CROSS, "head": 0, "key": 1}],
    [{"kind": "force", "name": "decoder.self", "layer": 0, "head": 1, "key": 1}],
    [HOT],
    [{"kind": "temperature", "value": 0.3, "name": "encoder.self"}],
    [NO_POSITIONS],
    [{"kind": "swap", "first": 0, "second": 2}],
    [{"kind": "force_token", "position": 1, "token": "</s>"}],
    [
        NO_POSITIONS,
        {"kind": "ablate", **CROSS, "head": 0},
        {"kind": "temperature", "value": 0.5, "name": "decoder.cross"},
        {"kind": "force_token", "position": 0, "token": "a"},
    ],
]
TYPED = ["I am a Student.", "“L’animal”, zzz the!", "a.b  well-known l'a 3.5 ,x d'", "𝒳yz 👍🏽 THE"]
SETTINGS = {
    "pre-norm": {"norm_first": True, "norm": "rms", "activation": "swiglu", "bias": False},
    "rotary": {"positions": "rotary", "n_kv_heads": 1, "activation": "gelu", "memory": "each"},
    "alibi": {"positions": "alibi", "cross_after": "feed_forward", "activation": "silu"},
    "learned": {"positions": "learned", "max_len": 16, "tied_output": False, "output_bias": True},
    "index": {"positions": "index", "embedding_scale": False, "score": "dot"},
    "beside": {"join": "concat", "d_positions": 8, "d_head": 6, "hidden_source_id": 2},
}


# ------------------------------------------------------------------ the engine beside the server


@pytest.fixture(scope="session")
def exported(run_path, tmp_path_factory):
    """The short run's page in a folder."""
    out = tmp_path_factory.mktemp("web") / "page"
    regard.load(run_path, device="cpu").export("web", out)
    return out


@pytest.fixture(scope="session")
def world_page(tmp_path_factory):
    """The page of a run that reads plain sentences of the world; its heads are not measured."""
    out = tmp_path_factory.mktemp("web") / "world"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.server.static_page.head_measures", _unmeasured)
        regard.load(WORLD_RUN, device="cpu").export("web", out)
    return out


def _unmeasured(_run):
    raise ConfigError("that would take a minute")


def test_fifty_sentences_are_translated_as_the_server_does(both, world_page, exported, run_path):
    data = regard.load(WORLD_RUN, device="cpu").recipe.data.model_copy(update={"n_train": 100})
    sentences = [pair.source for pair in load_records(data, "pair").splits["test"][:25]]
    letters = [source for source, _ in pairs(25, 9)]
    runs = ((world_page, WORLD_RUN, sentences), (exported, run_path, letters))
    for folder, path, texts in runs:  # several lines of a text are translated one by one
        (status, ours), (_, theirs) = both(folder, path)(
            f"/api/stream?source={quote(chr(10).join(texts))}"
        )
        assert status == 200
        assert told(ours) == told(theirs)
        assert len(told(ours)["translation"].split("\n")) == 25


def test_weights_probabilities_and_steps_are_the_servers_under_every_what_if(
    both, exported, run_path
):
    ask = both(exported, run_path)
    for edits in EDITS:
        asked = {"source": SOURCE, "edits": edits}
        for name in ("encoder.self", "decoder.self", "decoder.cross"):
            steps = {"name": name, "layer": 0, "head": 1, "token": 1}
            ask.agree("/api/explain", {**asked, "steps": steps, "rollout": "encoder.self"})
            ask.agree("/api/story", {**asked, "steps": steps})
        ask.agree("/api/importance", {**asked, "step": 1})
        ask.agree("/api/beam", {**asked, "n_beams": 3})


def test_a_whole_model_of_two_layers_is_the_servers(both, world_page):
    ask = both(world_page, WORLD_RUN)
    edits = [{"kind": "ablate", "name": "decoder.cross", "layer": 1, "head": 0}]
    for change in ([], edits):
        asked = {"source": TIRED, "edits": change}
        ask.agree("/api/explain", {**asked, "rollout": "decoder.self"})
        ask.agree("/api/importance", {**asked, "step": 2})
    ask.agree("/api/explain", {"source": TIRED, "target": "l'animal est trop fatigué"})
    ask.agree("/api/beam", {"source": TIRED, "n_beams": 4, "prefix": ["l'", "animal"]})
    ask.agree("/api/beam", {"source": TIRED, "n_beams": 1})
    ask.agree("/api/words?begins=an")


def test_what_people_type_is_read_as_the_server_reads_it(both, world_page):
    ask = both(world_page, WORLD_RUN)
    for text in TYPED:
        ask.agree("/api/read", {"text": text})
        ask.agree("/api/explain", {"source": text})
    (_, ours), (_, theirs) = ask(f"/api/stream?source={quote(TIRED + chr(10) * 2 + TYPED[1])}")
    assert told(ours) == told(theirs)


REFUSED = {
    "empty": {"source": ""},
    "only signs": {"source": "..."},
    "nothing known": {"source": "zzz it's"},
    "too many tokens": {"source": "the " * 200},
    "too many letters": {"source": "a" * 5001},
    "a key that is not there": {"edits": [{"kind": "force", **CROSS, "head": 0, "key": 99}]},
    "a head that is not there": {"edits": [{"kind": "ablate", **CROSS, "head": 9}]},
    "a word that is not there": {"edits": [{"kind": "swap", "first": 1, "second": 99}]},
    "one word": {"edits": [{"kind": "swap", "first": 1, "second": 1}]},
    "behind the end": {"edits": [{"kind": "force_token", "position": 60, "token": "a"}]},
    "no temperature": {"edits": [{"kind": "temperature", "value": 0, "name": None}]},
    "a row that is not there": {"steps": {**CROSS, "head": 0, "token": 500}},
    "a layer that is not there": {"steps": {**CROSS, "layer": 9, "head": 0, "token": 0}},
    "no self-attention": {"rollout": "decoder.cross"},
}


def test_what_the_server_refuses_is_refused_in_the_same_words(both, world_page):
    ask = both(world_page, WORLD_RUN)
    for asked in REFUSED.values():
        (status, ours), (expected, theirs) = ask("/api/explain", {"source": TIRED, **asked})
        assert (status, json.loads(ours)) == (expected, json.loads(theirs))
        assert expected == 422


def test_what_only_a_server_can_do_is_told_in_plain_words(engine):
    status, text = engine("/api/what-comes-later", {"source": SOURCE})
    assert status == 404
    assert "`regard serve`" in json.loads(text)["error"]
    assert engine("/api/explain", {"source": SOURCE, "edits": [{"kind": "?"}]})[0] == 422


@pytest.mark.parametrize("kind", SETTINGS)
def test_every_kind_of_transformer_that_is_exported_computes_as_ours(
    both, run_path, tmp_path, kind
):
    run = _with_settings(run_path, tmp_path / "run", SETTINGS[kind])
    regard.load(run, device="cpu").export("web", tmp_path / "page")
    ask = both(tmp_path / "page", run)
    for edits in ([], [NO_POSITIONS], [HOT]):
        ask.agree("/api/explain", {"source": SOURCE, "edits": edits})
    steps = {"name": "decoder.self", "layer": 1, "head": 1, "token": 2}
    ask.agree("/api/story", {"source": SOURCE, "steps": steps})
    ask.agree("/api/importance", {"source": SOURCE, "step": 0})


def _with_settings(run_path, folder, changes, says=None):
    """A copy of a run with another, fresh model of two layers, which may say one id alone."""
    shutil.copytree(run_path, folder)
    config = regard.load(run_path, device="cpu").model.config
    config = type(config).model_validate({**config.model_dump(), "n_layers": 2, **changes})
    torch.manual_seed(5)
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        if says is not None:
            model.decoder.output_bias[says] += 100
    save_model(RunFolder(folder), config, model_tensors(model))
    return folder


def test_pieces_two_vocabularies_and_a_beam_are_the_servers(both, settings, tmp_path):
    text = {"kind": "bpe", "shared": False, "vocab_size": 270}
    decode = {"max_len": 12, "beam": 3, "stop": "first"}
    train(recipe_from({**settings, "text": text, "decode": decode}), tmp_path / "run")
    regard.load(tmp_path / "run", device="cpu").export("web", tmp_path / "page")
    ask = both(tmp_path / "page", tmp_path / "run")
    for source in ("a b c d", "été b"):
        ask.agree("/api/explain", {"source": source})
        steps = {"name": "encoder.self", "layer": 0, "head": 0, "token": 1}
        ask.agree("/api/story", {"source": source, "steps": steps})
    ask.agree("/api/words?begins=a")


def test_unknown_words_are_carried_over_as_the_server_does(both, run_path, tmp_path):
    run = _with_settings(run_path, tmp_path / "run", {"output_bias": True}, says=UNKNOWN_ID)
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(
        config.replace("replace_unknown: false", "replace_unknown: true")
    )
    regard.load(run, device="cpu").export("web", tmp_path / "page")
    ask = both(tmp_path / "page", run)
    (_, ours), (_, theirs) = ask("/api/stream?source=a%20zebra%20yak%20b")
    assert told(ours) == told(theirs)
    assert set(told(ours)["translation"].split()) <= {"a", "zebra", "yak", "b"}  # no <unk>


SAMPLES = [
    *TYPED,
    "l'été n’a 3.5% d'eau, (well-known) L'ÉTÉ... 1,000.5x",
    "  two  spaces\tand\n\na tab ",
    "İstanbul STRASSE ΣΑΣ ﬁn ǅ",
    "देवनागरी नमस्ते می‌خواهم e\u0301te\u0301 a\u200db",
    "👩‍👩‍👧 \ufeffx \x1cy _a-b_ 'quoted' dogs' —",
]


@pytest.mark.parametrize("kind", ["word", "char", "bpe"])
def test_texts_are_cut_into_tokens_as_ours_are(engine, kind):
    texts = 2 * [*SAMPLES[:6], "the state of the art, l'état de l'art", "banana bandana ananas"]
    for lowercase, plain in product([False, True], repeat=2):
        settings = TextSettings(kind=kind, vocab_size=400, lowercase=lowercase)
        ours = Tokenizer.train(texts, settings)
        ours = ours.reading_plain() if plain else ours
        shown, read = engine.tokenized(web_tokenizer(ours), SAMPLES)
        assert shown == ours.tokens(range(ours.n_vocab))
        for text, (ids, offsets, said) in zip(SAMPLES, read, strict=True):
            assert ids == ours.encode(text)
            assert list(map(tuple, offsets)) == ours.offsets(text)
            assert said == ours.decode(ids)


@pytest.fixture
def engine(visit, exported):
    return Engine(visit(at=f"{exported.as_uri()}/index.html"))


# ------------------------------------------------------------------ the page


@contextmanager
def web_space(folder):
    """A folder over HTTP, by nothing but a file server -> its address."""
    handler = partial(_Silent, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(params=["disk", "web space"])
def address(request, exported):
    """Where the short run's page is: ``file://`` and ``http://``."""
    if request.param == "disk":
        yield f"{exported.as_uri()}/index.html"
        return
    with web_space(exported) as at:
        yield at


def test_the_page_draws_what_the_run_does_and_asks_for_its_own_files_alone(
    visit, run, exported, address
):
    page = visit(link(source=SOURCE, view="matrix", layer=0, head=1), at=address)
    look = run.explain(SOURCE)
    expect(page.locator("#said")).to_have_text(look.translation)
    np.testing.assert_allclose(drawn(page), look.weights("decoder.cross")[1], atol=1e-4, rtol=0)
    files = {url.rpartition("/")[2] for url in page.asked if not url.startswith("data:")}
    known = {file.name for file in exported.iterdir()} - {"README.txt"}
    assert {name.partition("#")[0] for name in files} - {""} <= known


def test_what_ifs_steps_beam_story_and_heads_work_on_the_page(visit, run, exported):
    at = f"{exported.as_uri()}/index.html"
    page = visit(link(source=SOURCE, edits=[ABLATE], view="matrix", layer=0, head=1), at=at)
    muted = run.explain(SOURCE, edit=ABLATE)
    expect(page.locator("#said")).to_have_text(muted.translation)
    assert not drawn(page).any()  # the head that is shown is the muted one
    control(page, "Without positions").check()
    both_ways = run.explain(SOURCE, edit=[ABLATE, {"kind": "no_positions"}])
    expect(page.locator("#said")).to_have_text(both_ways.translation)
    page.get_by_role("tab", name="Beam").click()
    expect(page.locator("#view [data-node]").first).to_be_visible()
    page.get_by_role("tab", name="Story").click()
    expect(page.locator("#view .station").first).to_be_visible()
    page.get_by_role("tab", name="Head map").click()
    expect(page.locator("#view table")).to_contain_text("decoder.cross 0.1")
    page.locator("#drawing summary").click()
    expect(page.locator("#drawing svg")).to_be_visible()
    expect(page.locator("#minimap .thumb[data-lost]").first).to_be_visible()


def test_the_page_says_where_the_model_is_and_offers_no_api(visit, exported):
    page = visit(at=f"{exported.as_uri()}/index.html")
    expect(page.locator("#knows")).to_contain_text("nothing you type leaves it")
    expect(page.locator("#calls")).to_be_hidden()


def test_texts_that_cannot_be_read_are_told_on_the_page(visit, world_page):
    page = visit(link(source="john loves mary"), at=f"{world_page.as_uri()}/index.html")
    page.fill("#source", "John zzz Mary!")
    expect(page.locator(".under mark")).to_have_text("zzz")
    expect(page.locator(".read-as")).to_contain_text("john zzz mary")
    page.fill("#source", "zzz")
    page.keyboard.press("Enter")
    expect(page.locator("#trouble")).to_contain_text("the model knows no word of 'zzz'")
    page.fill("#source", "the " * 200)
    page.keyboard.press("Enter")
    expect(page.locator("#trouble")).to_contain_text("at most 128 can be looked at")
    page.fill("#source", "")
    expect(page.locator("#desk")).to_be_hidden()
    page.fill("#source", "john loves mary")
    expect(page.locator("#view svg").first).to_be_visible()


def test_without_the_data_there_is_no_map_of_heads_and_the_page_says_so(visit, run_path, tmp_path):
    run = shutil.copytree(run_path, tmp_path / "run")
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("valid.src", "gone.src"))
    notes = regard.load(run, device="cpu").export("web", tmp_path / "page").notes
    assert "no map of the heads" in notes[0]
    page = visit(at=f"{(tmp_path / 'page').as_uri()}/index.html")
    expect(page.locator("#knows")).to_contain_text("Its heads were not measured")
    expect(page.get_by_role("tab", name="Matrix")).to_be_visible()
    expect(page.get_by_role("tab", name="Head map")).to_have_count(0)
