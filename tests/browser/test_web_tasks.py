"""Pages without a server of classifiers, language models and summarizers: the server's numbers."""

import json
import random
import shutil

import pytest
import torch
from encoders import settings as encoder_settings
from language_models import LLAMA, stirred
from page_parts import control, link
from playwright.sync_api import expect
from summaries import settings as summary_settings
from text_runs import WRITE, language
from web_engine import Engine, told

import regard
from regard.checkpoints.run_folder import RunFolder, model_tensors, save_model
from regard.core.errors import ConfigError
from regard.decoding.sampling import distribution
from regard.models.presets import build
from regard.runs.train import train
from regard.tasks.recipe import recipe_from

pytestmark = pytest.mark.browser

NO_POSITIONS, HOT = {"kind": "no_positions"}, {"kind": "temperature", "value": 2.5, "name": None}
SWAP = {"kind": "swap", "first": 0, "second": 2}


def of_self(name):
    """What-ifs of a self-attention."""
    head = {"name": name, "layer": 1, "head": 1}
    return [
        [{"kind": "ablate", **head}],
        [{"kind": "force", **head, "key": 1}],
        [{"kind": "ablate", **head, "layer": 0}, HOT],
        [NO_POSITIONS],
        [SWAP],
    ]


RECIPES = {
    "classification": lambda folder: encoder_settings(
        "classification", folder, WRITE["classification"]
    ),
    "pairs": lambda folder: encoder_settings("classification", folder, WRITE["pairs"]),
    "language": language,
    "summarization": lambda folder: summary_settings(folder, model={"n_layers": 2}),
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """By its kind: a run that learned for some steps, and whose weights were stirred."""
    known = {}

    def made(kind):
        if kind not in known:
            folder = tmp_path_factory.mktemp(kind)
            raw = RECIPES[kind](folder)
            train(recipe_from({**raw, "train": {**raw["train"], "max_steps": 2}}), folder / "run")
            known[kind] = stirred_run(folder / "run")
        return known[kind]

    return made


def stirred_run(folder, **changes):
    """A run whose model is fresh, with other settings, and has no small parameter."""
    config = regard.load(folder, device="cpu").model.config
    config = type(config).model_validate({**config.model_dump(), **changes})
    torch.manual_seed(3)
    model = build(config)
    stirred(model)
    save_model(RunFolder(folder), config, model_tensors(model))
    return folder


@pytest.fixture(scope="session")
def pages(trained, tmp_path_factory):
    """By the kind of a run: the run, and its page in a folder."""
    known = {}

    def made(kind):
        if kind not in known:
            out = tmp_path_factory.mktemp("web") / "page"
            exported(trained(kind), out, measured=kind == "classification")
            known[kind] = out, trained(kind)
        return known[kind]

    return made


def exported(run, out, *, measured=False):
    """Write the page of a run; to measure its heads would take longer than all else."""
    with pytest.MonkeyPatch.context() as patch:
        if not measured:
            patch.setattr("regard.server.static_page.head_measures", _unmeasured)
        regard.load(run, device="cpu").export("web", out)


def _unmeasured(_run):
    raise ConfigError("that would take a second")


@pytest.fixture
def engine_of(visit):
    """The engine of a folder alone."""
    return lambda folder: Engine(visit(at=f"{folder.as_uri()}/index.html"))


def agree_inside(ask, asked, name, *, step, token=1):
    """All that is asked of a look: weights, steps, rollout, story and importances."""
    steps = {"name": name, "layer": 1, "head": 0, "token": token}
    ask.agree("/api/explain", {**asked, "steps": steps, "rollout": name})
    ask.agree("/api/story", {**asked, "steps": steps})
    ask.agree("/api/importance", {**asked, "step": step})


# ------------------------------------------------------------------ classifiers


def test_labels_and_all_that_leads_to_them_are_the_servers(both, pages):
    ask = both(*pages("classification"))
    for text in ("a b c d", "b B zebra", "h"):
        ask.agree("/api/classify", {"text": text})
        ask.agree("/api/read", {"text": text})
        agree_inside(ask, {"source": text}, "encoder.self", step=0)
    for edits in of_self("encoder.self"):
        agree_inside(ask, {"source": "a b c d", "edits": edits}, "encoder.self", step=0)


def test_pairs_of_texts_are_read_as_the_server_reads_them(both, pages):
    ask = both(*pages("pairs"))
    ask.agree("/api/classify", {"text": "a b", "other": "c d e"})
    asked = {"source": "a b", "other": "c d e"}
    agree_inside(ask, asked, "encoder.self", step=0, token="</s>")
    ask.agree("/api/explain", {**asked, "edits": [SWAP]})
    ask.agree("/api/explain", {"source": "a b\t" + "c " * 12})  # one more than fits is cut


CLASSIFIERS = {
    "mean of all tokens": {"pooling": "mean", "positions": "sinusoidal", "n_segments": 0},
    "pre-norm": {"norm_first": True, "norm": "rms", "embedding_norm": False, "bias": False},
    "approximate": {"activation": "gelu_tanh", "positions": "rotary", "n_kv_heads": 1},
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_every_kind_of_encoder_that_is_exported_computes_as_ours(both, trained, tmp_path, kind):
    out = _with_settings(trained("classification"), tmp_path, CLASSIFIERS[kind])
    ask = both(*out)
    for edits in ([], [NO_POSITIONS], [HOT]):
        agree_inside(ask, {"source": "a b c d", "edits": edits}, "encoder.self", step=0)


def _with_settings(run, folder, changes):
    """A copy of a run with another model -> its page, and itself."""
    shutil.copytree(run, folder / "run")
    stirred_run(folder / "run", **changes)
    exported(folder / "run", folder / "page")
    return folder / "page", folder / "run"


# ------------------------------------------------------------------ language models


def test_what_follows_a_prompt_and_all_that_leads_to_it_is_the_servers(both, pages):
    ask = both(*pages("language"))
    for text in ("a b c", "zebra a", ""):
        asked = {"source": text, "max_tokens": 6}
        agree_inside(ask, asked, "decoder.self", step=2)
        ask.agree("/api/explain", {"source": text, "target": "c e"})
    for edits in of_self("decoder.self"):
        agree_inside(ask, {"source": "a b c", "edits": edits}, "decoder.self", step=0, token=4)
    for token, position in (("d", 1), ("</s>", 2)):
        forced = {"kind": "force_token", "position": position, "token": token}
        ask.agree("/api/explain", {"source": "a b c", "edits": [forced]})
    ask.agree("/api/explain", {"source": "a b c", "max_tokens": 24})  # the context is full
    ask.agree("/api/words?begins=a")


def test_greedy_texts_are_the_servers_piece_by_piece_up_to_stops_and_ends(both, pages):
    ask = both(*pages("language"))
    greedy = {"temperature": 0, "seed": 7}
    whole = regard.load(pages("language")[1], device="cpu").generate("b", temperature=0.0)
    first, second, third, *_ = whole.split()
    wanted = [
        {"prompt": "a b c", "max_tokens": 9},
        {"prompt": "", "max_tokens": 30},
        {"prompt": "b", "max_tokens": 12, "stop": [f"{second} {third}"]},
        {"prompt": "b", "max_tokens": 12, "stop": [f"{first} zzz"]},  # begun, and never whole
        {"prompt": "b", "max_tokens": 12, "top_k": 2},
    ]
    for asked in wanted:
        (status, ours), (_, theirs) = ask("/api/generate", {**asked, **greedy})
        assert status == 200
        assert events(ours) == events(theirs)


def events(text):
    return [json.loads(line.removeprefix("data: ")) for line in text.split("\n") if "data:" in line]


def test_lines_that_go_on_and_letters_are_written_as_the_server_does(both, tmp_path):
    rng = random.Random(0)
    lines = ["".join(rng.choices("ab é", k=6)) for _ in range(80)]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    raw = language(tmp_path)
    raw["data"]["train"], raw["text"] = "train.txt", {"kind": "bpe", "vocab_size": 270}
    train(recipe_from({**raw, "train": {**raw["train"], "max_steps": 2}}), tmp_path / "run")
    stirred_run(tmp_path / "run", **LLAMA)
    exported(tmp_path / "run", tmp_path / "page")
    ask = both(tmp_path / "page", tmp_path / "run")
    broken = {"kind": "force_token", "position": 1, "token": "</s>"}  # the text goes on behind it
    ask.agree("/api/explain", {"source": "ab é\nb", "max_tokens": 8, "edits": [broken]})
    ask.agree(
        "/api/story",
        {"source": "ab é", "steps": {"name": "decoder.self", "layer": 0, "head": 0, "token": 2}},
    )
    (_, ours), (_, theirs) = ask("/api/generate", {"prompt": "é", "temperature": 0, "seed": 1})
    assert events(ours) == events(theirs)


def test_drawn_tokens_follow_the_distribution_that_the_server_draws_from(engine_of, pages):
    engine = engine_of(pages("language")[0])
    logits = torch.tensor([0.3, 1.2, -0.4, 2.0, 0.9])
    for temperature, top_k, top_p in ((1.0, None, None), (0.5, 3, None), (1.7, 4, 0.6)):
        how = {"temperature": temperature, "topK": top_k, "topP": top_p}
        ours = engine.distribution(logits.log_softmax(-1).tolist(), how)
        theirs = distribution(
            logits.log_softmax(-1)[None], temperature=temperature, top_k=top_k, top_p=top_p
        )
        assert ours == pytest.approx(theirs[0].tolist(), abs=1e-6)


def test_the_same_seed_draws_the_same_text_and_another_one_another(engine_of, pages):
    engine = engine_of(pages("language")[0])
    asked = {"prompt": "a b", "max_tokens": 18, "temperature": 2.0}
    texts = [told(engine("/api/generate", {**asked, "seed": seed})[1]) for seed in (1, 1, 2)]
    assert texts[0] == texts[1]
    assert texts[0]["text"] != texts[2]["text"]


WRITERS = {
    "llama": {**LLAMA, "n_kv_heads": 1},
    "post-norm": {"norm_first": False, "tied": False, "positions": "sinusoidal"},
    "beside": {"activation": "gelu_tanh", "join": "concat", "d_positions": 4},
    "alibi": {"activation": "silu", "positions": "alibi"},
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_decoder_that_is_exported_computes_as_ours(both, trained, tmp_path, kind):
    ask = both(*_with_settings(trained("language"), tmp_path, WRITERS[kind]))
    for edits in ([], [NO_POSITIONS], [HOT]):
        agree_inside(ask, {"source": "a b", "edits": edits}, "decoder.self", step=0)


# ------------------------------------------------------------------ summaries


def test_summaries_and_all_that_leads_to_them_are_the_servers(both, pages):
    ask = both(*pages("summarization"))
    for document in ("a b c d e f g h", "b zebra"):
        ask.agree("/api/summarize", {"document": document})
        agree_inside(ask, {"source": document}, "decoder.self", step=0, token=0)
    ask.agree("/api/summarize", {"document": "a b c d " * 9, "truncate": True})
    ask.agree("/api/beam", {"source": "a b c", "n_beams": 2})


# ------------------------------------------------------------------ what is refused


FORCED = {"kind": "force_token", "position": 60, "token": "a"}
FAR = {"kind": "force", "name": "decoder.self", "layer": 0, "head": 0, "key": 90}
REFUSED = {
    "classification": [
        ("/api/classify", {"text": "zzz"}),
        ("/api/classify", {"text": "a " * 20}),
        ("/api/explain", {"source": "a " * 20}),
        ("/api/explain", {"source": "a", "edits": [FORCED]}),
        ("/api/importance", {"source": "a b", "step": 4}),
    ],
    "pairs": [
        ("/api/explain", {"source": "a b"}),
        ("/api/explain", {"source": "a " * 9, "other": "b " * 9}),
    ],
    "language": [
        ("/api/generate", {"prompt": "a " * 30}),
        ("/api/generate", {"prompt": "zzz"}),
        ("/api/explain", {"source": "a " * 30}),
        ("/api/explain", {"source": "zzz"}),
        ("/api/explain", {"source": "a", "edits": [FORCED]}),
        ("/api/explain", {"source": "a", "edits": [FAR]}),
    ],
    "summarization": [
        ("/api/summarize", {"document": "a b c d " * 9}),
        ("/api/summarize", {"document": "zzz"}),
    ],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_the_server_refuses_is_refused_in_the_same_words(both, pages, kind):
    ask = both(*pages(kind))
    for path, asked in REFUSED[kind]:
        (status, ours), (expected, theirs) = ask(path, asked)
        assert (status, json.loads(ours)) == (expected, json.loads(theirs))
        assert expected == 422


# ------------------------------------------------------------------ the pages


def test_the_page_of_a_classifier_shows_labels_what_ifs_and_the_story(visit, pages):
    folder, path = pages("classification")
    run, at = regard.load(path, device="cpu"), f"{folder.as_uri()}/index.html"
    page = visit(link(source="a b c d", view="matrix"), at=at)
    expect(page.locator("#said")).to_have_text(run.classify("a b c d"))
    shares = page.locator("#against [data-share]")
    best = run.classify("a b c d", with_scores=True).probability
    assert float(shares.first.get_attribute("data-share")) == pytest.approx(best, abs=1e-4)
    control(page, "Without positions").check()
    changed = run.explain("a b c d", edit=NO_POSITIONS)
    expect(page.locator("#said")).to_have_text(changed.answer)
    page.get_by_role("tab", name="Story").click()
    expect(page.locator("#view .station").first).to_be_visible()
    page.get_by_role("tab", name="Head map").click()
    expect(page.locator("#view table")).to_contain_text("encoder.self 0.1")


def test_the_page_of_a_language_model_writes_on_and_tells_what_may_come(visit, pages):
    folder, path = pages("language")
    run, at = regard.load(path, device="cpu"), f"{folder.as_uri()}/index.html"
    page = visit(link(source="a b c", view="matrix"), at=at)
    look = run.explain("a b c")
    expect(page.locator("#said")).to_have_text("a b c" + look.answer)
    first = look.outcome.places[3].choices[0]
    bar = page.locator("#next [data-choice]").first
    expect(bar).to_have_attribute("data-choice", first.text)
    assert float(bar.get_attribute("data-share")) == pytest.approx(first.probability, abs=1e-4)
    page.get_by_role("tab", name="Story").click()
    expect(page.locator("#view .station").first).to_be_visible()
    page.locator('#manner [name="temperature"]').fill("2")
    page.keyboard.press("Enter")
    expect(page.locator("#said")).not_to_have_text("a b c" + look.answer)
    expect(page.locator("#trouble")).to_be_hidden()


def test_the_page_of_a_summarizer_shows_the_summary(visit, pages):
    folder, path = pages("summarization")
    page = visit(link(source="a b c d", view="matrix"), at=f"{folder.as_uri()}/index.html")
    look = regard.load(path, device="cpu").explain("a b c d")
    expect(page.locator("#said")).to_have_text(look.answer)
    expect(page.get_by_role("tab", name="Beam")).to_be_visible()
