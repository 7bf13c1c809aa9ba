"""Ours and CTranslate2, given the same folder, say the same of every target."""

import copy
from pathlib import Path

import pytest
import torch
from processors import adds_eight_bits_exactly
from tiny import tiny_config
from translators import loaded, shaken

from regard.decoding.settings import DecodeSettings
from regard.interop.ctranslate2 import write_ctranslate2
from regard.interop.ctranslate2_reading import read_ctranslate2
from regard.interop.importing import import_model
from regard.models.transformer import Transformer
from regard.tasks.translating import decode
from regard.tasks.translator import load_translator
from regard.text.specials import BEGIN_ID, END_ID, SPECIALS

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")

DATA = Path(__file__).parents[3] / "shared" / "data"
NAMES = DATA / "checkpoints" / "aren-transliteration"
WORDS = ["آتزمون", "محمد", "عبدالله", "ليلى", "ي", "القاهرة", "x", "بيروت دمشق"]

with_names = pytest.mark.skipif(
    not NAMES.exists(), reason="the transliterator of shared/data is not here"
)


@torch.inference_mode()
def said(model, source, target):
    """The log-probability of every target token and the end, by one plain forward."""
    logits = model(torch.tensor([[*source, END_ID]]), torch.tensor([[BEGIN_ID, *target]]))
    spoken = torch.tensor([*target, END_ID])
    return logits[0].log_softmax(-1)[torch.arange(len(spoken)), spoken]


@with_names
def test_the_transliterator_gives_the_log_probabilities_of_ctranslate2():
    imported, source, target = read_ctranslate2(NAMES)
    ours, theirs = loaded(imported), ctranslate2.Translator(str(NAMES), intra_threads=1)
    outputs = [list("muhammad"), list("atzmon"), [], list("qahira")]
    for word in WORDS:
        tokens = list(word)
        wanted = theirs.score_batch([tokens] * len(outputs), outputs)
        ids = [source.index(one) if one in source else 3 for one in tokens]
        for output, score in zip(outputs, wanted, strict=True):
            found = said(ours, ids, [target.index(one) for one in output])
            assert (found - torch.tensor(score.log_probs)).abs().max() <= 1e-5


@with_names
def test_the_transliterator_keeps_the_beams_of_ctranslate2():
    imported, source, target = read_ctranslate2(NAMES)
    ours, theirs = loaded(imported), ctranslate2.Translator(str(NAMES), intra_threads=1)
    words = [word for word in WORDS if all(one in source for one in word)]
    assert len(words) >= 5
    wanted = theirs.translate_batch(
        [list(word) for word in words],
        beam_size=4,
        num_hypotheses=4,
        length_penalty=0,
        return_scores=True,
        min_decoding_length=0,
        max_decoding_length=30,
    )
    settings = DecodeSettings(beam=4, length_penalty=0, max_len=30)
    ids = [[source.index(one) for one in word] for word in words]
    place = torch.device("cpu")
    found = decode(ours, ids, settings, n_best=4, batch_tokens=999, device=place)
    for theirs_best, ours_best in zip(wanted, found, strict=True):
        rows = zip(ours_best, theirs_best.hypotheses, theirs_best.scores, strict=True)
        for rank, (one, tokens, score) in enumerate(rows):
            if [target[i] for i in one.ids] != tokens:  # it stops earlier than ours
                assert rank == 3
                assert one.log_prob > score
            else:
                assert one.log_prob == pytest.approx(score, abs=1e-5 * (len(tokens) + 1))


@with_names
def test_the_transliterator_is_an_ordinary_run(tmp_path):
    notes = import_model(NAMES, tmp_path / "run", "ar-en")
    assert "learned positions: texts of up to 512 tokens" in notes[0]
    run = load_translator(tmp_path / "run", device="cpu")
    assert run.translate("آتزمون", beam=4) == "atzmon"
    assert run.recipe.data.direction == "ar-en"
    look = run.explain("محمد")
    assert len(look.source_tokens) == 5
    weights = look.weights("decoder.cross", layer=5)
    assert weights[..., -1].max() == 0  # it reads no end token
    assert run.score("آتزمون", "atzmon") > run.score("آتزمون", "xqxq")


@pytest.mark.parametrize("precision", ["float32", "int8", "int16", "float16", "bfloat16"])
def test_numbers_that_were_made_small_are_read(tmp_path, precision):
    ours = shaken(Transformer(tiny_config(d_model=24, n_heads=4)).eval())
    tokens = [*SPECIALS, *"bcdefghij"]
    _write_small(ours, tmp_path, tokens, None if precision == "float32" else precision)
    imported, source, _ = read_ctranslate2(tmp_path)
    assert source == tokens
    again = loaded(imported)
    kind = {"int8": "int8_float32"}.get(precision, "float32")
    theirs = ctranslate2.Translator(str(tmp_path), compute_type=kind, intra_threads=1)
    wanted = torch.tensor(theirs.score_batch([list("bcd")], [list("fe")])[0].log_probs)
    found = said(again, [4, 5, 6], [8, 7])
    # CTranslate2 rounds what enters an eight-bit product too, and we do not
    if precision != "int8" or adds_eight_bits_exactly():
        assert (found - wanted).abs().max() <= {"int8": 0.1}.get(precision, 1e-4)
    exact = said(ours, [4, 5, 6], [8, 7])
    least = 0 if precision == "float32" else 1e-7
    assert least <= (found - exact).abs().max() <= 0.1


def _write_small(model, folder, tokens, precision):
    """As ``write_ctranslate2``, in other numbers; what it is given is changed by that."""
    optimize = ctranslate2.specs.TransformerSpec.optimize
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ctranslate2.specs.TransformerSpec, "optimize", lambda spec: optimize(spec, precision)
        )
        write_ctranslate2(copy.deepcopy(model), folder, source_tokens=tokens, target_tokens=tokens)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_first": True, "bias": False},
        {"shared_vocab": False, "n_target_vocab": 17},
        {"score": "dot"},
        {"positions": "learned"},
        {"positions": "none", "activation": "gelu", "output_bias": True},
        {"tied_output": False, "embedding_scale": False, "hidden_source_id": END_ID},
    ],
    ids=str,
)
def test_what_we_exported_comes_back_as_it_was(tmp_path, changes):
    ours = shaken(Transformer(tiny_config(**changes)).eval())
    source = [*SPECIALS, *(f"s{i}" for i in range(4, ours.config.n_source_vocab))]
    target = source
    if not ours.config.shared_vocab:
        target = [*SPECIALS, *(f"t{i}" for i in range(4, ours.config.n_target_vocab))]
    write_ctranslate2(ours, tmp_path, source_tokens=source, target_tokens=target)
    imported, *found = read_ctranslate2(tmp_path)
    assert found == [source, target]
    kept = {"max_len": ours.config.max_len, "dropout": ours.config.dropout}
    assert imported.config.model_copy(update=kept) == ours.config
    own = dict(ours.named_parameters())
    assert own.keys() == imported.weights.keys()
    assert all(torch.equal(own[name], imported.weights[name]) for name in own)
