"""Engines write what the model would have written."""

import dataclasses
import random
import shutil
import sys

import pytest
import torch
from letters import pairs
from processors import adds_eight_bits_exactly
from systems import system, untrained
from tiny import tiny_config

from regard.core import state
from regard.core.errors import ConfigError
from regard.interop import ctranslate2_engine, exporting
from regard.interop.ctranslate2_engine import CTranslate2Engine, engine_for
from regard.models.transformer import Transformer
from regard.runs.train import train
from regard.tasks.opening import Tokenizers
from regard.tasks.recipe import recipe_from
from regard.tasks.translator import load_translator
from regard.text.settings import TextSettings
from regard.text.specials import BEGIN_ID, PAD_ID, UNKNOWN_ID
from regard.text.tokenizer import Tokenizer

pytest.importorskip("ctranslate2")

VARIANTS = [
    {},
    {"norm_first": True, "d_model": 15},
    {"bias": False, "score": "dot"},
    {"positions": "learned", "n_layers": 1},
]


def shaken(seed=0, *, decode=None, **changes):
    """A run with random weights whose translations differ from sentence to sentence."""
    run = untrained("transformer", decode=decode, **changes)
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return run


def quiet(run):
    """The same, but padding and the begin token have next to no probability, as after training."""
    decoder = run.model.decoder
    norm = decoder.norm if run.model.config.norm_first else decoder.layers[-1].around_feed_forward
    norm = getattr(norm, "norm", norm)
    with torch.no_grad():
        norm.weight[0], norm.bias[0] = 0.0, 5.0
        words = decoder.embedding.tokens.weight
        words[[PAD_ID, BEGIN_ID]] = 0.0
        words[[PAD_ID, BEGIN_ID], 0] = -6.0
    return run


def sources(n=30, seed=0):
    rng = random.Random(seed)
    return [[rng.randrange(3, 12) for _ in range(rng.randint(1, 8))] for _ in range(n)]


def written(run, name, texts=None, *, beam=1, n_best=1, batch_tokens=4096, **decode):
    settings = run.recipe.decode.model_copy(update={"beam": beam, **decode})
    engine = engine_for(run, name)
    return engine(texts or sources(), settings, n_best=n_best, batch_tokens=batch_tokens)


def both(run, *args, **options):
    return (written(run, name, *args, **options) for name in ("native", "ctranslate2"))


def assert_same(ours, theirs):
    """The same targets with the same scores."""
    for one, other in zip(ours, theirs, strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        assert [h.finished for h in one] == [h.finished for h in other]
        numbers = [[(h.log_prob, h.score) for h in each] for each in (one, other)]
        torch.testing.assert_close(*map(torch.tensor, numbers), atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def trained(settings, tmp_path_factory):
    """A run that has learned to reverse letters."""
    raw = {**settings, "train": {**settings["train"], "max_steps": 150}}
    return train(recipe_from(raw), tmp_path_factory.mktemp("engines") / "run").run


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_greedy_search_writes_the_same(changes):
    run = shaken(**changes)
    ours, theirs = both(run)
    assert len({best.ids for (best,) in ours}) > 3
    assert_same(ours, theirs)


def test_source_and_target_may_have_vocabularies_of_their_own():
    run = shaken()
    other = Tokenizer.train(["tic tac toe one two three four"], TextSettings(kind="word"))
    sizes = {"n_source_vocab": run.tokenizers.source.n_vocab, "n_target_vocab": other.n_vocab}
    model = Transformer(tiny_config(**sizes, shared_vocab=False)).eval()
    tokenizers = Tokenizers(run.tokenizers.source, other)
    run = dataclasses.replace(run, model=model, tokenizers=tokenizers)
    assert_same(*both(run))
    said = run.translate(["a b c", "h"])
    assert run.translate(["a b c", "h"], engine=engine_for(run, "ctranslate2")) == said


def test_the_order_of_the_sources_is_kept_whatever_shares_a_batch():
    run = shaken()
    assert_same(written(run, "native"), written(run, "ctranslate2", batch_tokens=9))


@pytest.mark.parametrize(("beam", "max_len"), [(1, 1), (1, 3), (1, 110), (3, 1), (3, 110)])
def test_a_target_has_the_limit_of_its_own_source(beam, max_len):
    run = quiet(shaken())
    long = [4 + i % 8 for i in range(40)]  # may become 110 tokens, the others 16 to 37
    ours, theirs = both(run, [[4, 5], long, *sources(8)], beam=beam, max_len=max_len)
    assert any(not best.finished for best, *_ in ours)
    assert_same(ours, theirs)


def test_what_has_ended_comes_before_what_was_cut_off():
    run = quiet(shaken(seed=6))
    ours, theirs = both(run, sources(12), beam=3, n_best=3, max_len=3)
    assert any({one.finished for one in found} == {True, False} for found in ours)
    assert_same(ours, theirs)


def test_padding_and_begin_are_never_said_and_keep_their_probability():
    run = shaken(seed=5)
    with torch.no_grad():
        words = run.model.decoder.embedding.tokens.weight
        words[PAD_ID] = words[7] * 1.05  # wherever 7 is meant, padding is more probable
        words[BEGIN_ID] = words[9] * 1.05
    free = CTranslate2Engine.of(run).translator.search(
        sources(), run.recipe.decode, limit=12, n_best=1, batch_tokens=4096
    )
    assert any({PAD_ID, BEGIN_ID} & set(best.ids) for (best,) in free)
    assert_same(*both(run))


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_without_a_penalty_the_best_of_a_beam_is_the_same(changes):
    run = quiet(shaken(seed=2, **changes))
    assert_same(*both(run, beam=4, length_penalty=0.0))


@pytest.mark.parametrize("alpha", [0.6, 1.5])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_beam_follows_the_same_hypotheses_and_only_its_end_differs(changes, alpha):
    run = quiet(shaken(seed=2, **changes))
    settings = run.recipe.decode.model_copy(update={"beam": 4, "length_penalty": alpha})
    texts = [[4, 7, 5, 6, 9, 8, 3]] + [source[:7] for source in sources() if len(source) >= 7]
    patient = CTranslate2Engine.of(run).translator.search(
        texts, settings, limit=12, n_best=400, patience=100, batch_tokens=4096
    )
    theirs = [ctranslate2_engine._ranked(found)[:3] for found in patient]
    assert_same(written(run, "native", texts, beam=4, n_best=3, length_penalty=alpha), theirs)


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_never_scores_better_than_ours(seed):
    run = quiet(shaken(seed=seed, decode={"max_len": 40}))
    ours, theirs = both(run, beam=3)
    n_same = 0
    for (best,), (other,) in zip(ours, theirs, strict=True):
        assert (other.finished, other.score) <= (best.finished, best.score + 1e-4)
        n_same += best.ids == other.ids
    assert n_same >= 0.8 * len(ours)


def test_a_trained_run_writes_the_same(trained):
    texts = [source for source, _ in pairs(60, 7)]
    engine = engine_for(trained, "ctranslate2")
    ours = trained.translate(texts, with_scores=True)
    theirs = trained.translate(texts, with_scores=True, engine=engine)
    assert [one.text for one in ours] == [one.text for one in theirs]
    assert [one.score for one in theirs] == pytest.approx([one.score for one in ours], abs=1e-4)


@pytest.mark.parametrize("beam", [2, 5])
def test_a_trained_run_writes_nearly_the_same_with_beams(trained, beam):
    texts = [source for source, _ in pairs(60, 7)]
    engine = engine_for(trained, "ctranslate2")
    ours = trained.translate(texts, beam=beam, with_scores=True)
    theirs = trained.translate(texts, beam=beam, with_scores=True, engine=engine)
    assert all(b.score <= a.score + 1e-4 for a, b in zip(ours, theirs, strict=True))
    assert sum(a.text == b.text for a, b in zip(ours, theirs, strict=True)) >= 54


@pytest.mark.parametrize("length", [1500, 2100])
def test_long_texts_are_read_whole_even_beyond_the_table(length):
    run = shaken()
    long = [4 + i % 8 for i in range(length)]
    assert_same(*both(run, [[4, 5], long, [6]]))


def test_unknown_words_are_replaced_as_ever():
    run = shaken(decode={"replace_unknown": True})
    texts = ["a zebra b", "gnu c", "d"] * 5
    said = run.hypotheses(texts)[0][0].ids[0]
    with torch.no_grad():
        words = run.model.decoder.embedding.tokens.weight
        words[UNKNOWN_ID] = words[said] * 1.05  # is said in its place
    said = run.translate(texts)
    assert UNKNOWN_ID in run.hypotheses(texts)[0][0].ids
    assert "<unk>" not in said[0]
    assert run.translate(texts, engine=engine_for(run, "ctranslate2")) == said


def test_an_empty_text_gives_an_empty_text():
    run = shaken()
    engine = engine_for(run, "ctranslate2")
    assert run.translate(["", "a b", " "], engine=engine) == run.translate(["", "a b", " "])
    assert run.translate([], engine=engine) == []


def test_more_hypotheses_than_beams_are_refused():
    with pytest.raises(ConfigError, match="n_best=3 is more than the beam=2"):
        written(shaken(), "ctranslate2", beam=2, n_best=3)


# ------------------------------------------------------------------ the export that is kept


@pytest.fixture
def kept(run_path, tmp_path):
    return shutil.copytree(run_path, tmp_path / "run")


def exports(path):
    return sorted(folder.name for folder in (path / "engines").iterdir())


def test_a_run_is_exported_once_for_the_same_weights(kept, monkeypatch):
    CTranslate2Engine.of(load_translator(kept))
    (name,) = exports(kept)
    monkeypatch.setitem(exporting.FORMATS._things, "ctranslate2", None)  # would fail if called
    CTranslate2Engine.of(load_translator(kept))
    assert exports(kept) == [name]


def test_other_weights_are_exported_anew_and_the_old_ones_forgotten(kept):
    run = load_translator(kept)
    CTranslate2Engine.of(run)
    before = exports(kept)
    with torch.no_grad():
        run.model.decoder.embedding.tokens.weight[5, 0] += 1.0
    assert_same(*both(run))
    assert len(exports(kept)) == 1
    assert exports(kept) != before


@pytest.mark.parametrize("name", ["model.bin", "config.json", "shared_vocabulary.json"])
@pytest.mark.parametrize("damage", [lambda raw: bytes(len(raw)), lambda raw: raw[:-9] + bytes(9)])
def test_an_export_that_was_changed_is_made_again(kept, name, damage):
    run = load_translator(kept)
    CTranslate2Engine.of(run)
    (folder,) = (kept / "engines").iterdir()
    path = folder / name if (folder / name).exists() else folder / "source_vocabulary.json"
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert_same(*both(run))
    assert path.read_bytes() == whole


def test_an_export_that_somebody_else_made_is_not_trusted(kept, tmp_path, monkeypatch):
    run = load_translator(kept)
    CTranslate2Engine.of(run)
    (folder,) = (kept / "engines").iterdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    monkeypatch.setattr(state, "_noted", set())
    (folder / "left.txt").write_text("by somebody")
    CTranslate2Engine.of(run)
    assert not (folder / "left.txt").exists()


def test_an_export_is_never_written_or_deleted_through_a_link(kept, tmp_path):
    (tmp_path / "elsewhere" / "ctranslate2-old").mkdir(parents=True)
    (kept / "engines").symlink_to(tmp_path / "elsewhere")
    assert_same(*both(load_translator(kept)))
    assert [one.name for one in (tmp_path / "elsewhere").iterdir()] == ["ctranslate2-old"]


def test_a_run_folder_that_cannot_be_written_is_no_hindrance(kept):
    (kept / "engines").write_text("in the way")
    assert_same(*both(load_translator(kept)))
    assert (kept / "engines").read_text() == "in the way"


# ------------------------------------------------------------------ which engine


def kind(engine):
    return "ctranslate2" if isinstance(engine, CTranslate2Engine) else "native"


def test_auto_takes_ctranslate2_where_it_can(monkeypatch):
    run = shaken()
    assert kind(engine_for(run, "auto")) == "ctranslate2"
    other = dataclasses.replace(run, model=system("luong2015", n_vocab=12))
    assert kind(engine_for(other, "auto")) == "native"
    assert (
        kind(engine_for(dataclasses.replace(run, device=torch.device("cuda")), "auto")) == "native"
    )
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert kind(engine_for(run, "auto")) == "native"


def test_a_missing_package_is_one_line_that_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ConfigError) as error:
        engine_for(shaken(), "ctranslate2")
    assert str(error.value) == (
        "CTranslate2 cannot be imported; install it with: pip install 'regard[ctranslate2]'"
    )


@pytest.mark.parametrize(
    ("name", "compute_type", "words"),
    [
        ("ctranslate", None, "did you mean 'ctranslate2'"),
        ("native", "int8", "compute type 'int8' is for the engine ctranslate2"),
        ("ctranslate2", "int3", "cannot compute in int3 on cpu"),
    ],
)
def test_wrong_words_are_refused(name, compute_type, words):
    with pytest.raises(ConfigError, match=words):
        engine_for(shaken(), name, compute_type=compute_type)


@pytest.mark.parametrize(
    "how", [{"prefix": "a"}, {"temperature": 1.0}, {"prefix": ["", "b"], "beam": 2}], ids=str
)
def test_what_only_the_native_engine_can_do_is_refused_by_others(how):
    run = shaken()
    with pytest.raises(ConfigError, match="prefixes are for the native one$"):
        run.translate(["a b", "c"], engine=engine_for(run, "ctranslate2"), **how)
    native = run.translate(["a b", "c"], engine=engine_for(run, "native"), **how, seed=1)
    assert native == run.translate(["a b", "c"], **how, seed=1)


@pytest.mark.skipif(not adds_eight_bits_exactly(), reason="sums of bytes overflow here")
def test_eight_bits_write_nearly_the_same(trained):
    texts = [source for source, _ in pairs(40, 8)]
    engine = engine_for(trained, "ctranslate2", compute_type="int8")
    ours, theirs = trained.translate(texts), trained.translate(texts, engine=engine)
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) >= 36
