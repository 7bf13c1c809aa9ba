"""Sentences are sorted, cut into batches and put back; what shares a batch changes nothing."""

import pytest
import torch
from systems import system

from regard.core.errors import ConfigError
from regard.decoding.settings import DecodeSettings
from regard.tasks import translating as translation
from regard.tasks.translating import decode, number_format

CPU = torch.device("cpu")


def sources(rng, n=23):
    lengths = torch.randint(1, 9, (n,), generator=rng).tolist()
    return [torch.randint(4, 13, (length,), generator=rng).tolist() for length in lengths]


@pytest.fixture
def searched(monkeypatch):
    """(model, rows, tokens of a row) of every search."""
    seen = []
    plain = translation.beam_search

    def watched(model, source, **how):
        seen.append((model, *source.shape))
        return plain(model, source, **how)

    monkeypatch.setattr(translation, "beam_search", watched)
    return seen


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("preset", ["transformer", "luong2015"])
def test_each_sentence_gets_what_it_gets_alone_in_its_own_place(rng, preset, beam):
    model, texts = system(preset), sources(rng)
    settings = DecodeSettings(beam=beam, max_len=12)
    together = decode(model, texts, settings, device=CPU, n_best=beam, batch_tokens=40)
    for text, found in zip(texts, together, strict=True):
        (alone,) = decode(model, [text], settings, device=CPU, n_best=beam)
        assert [one.ids for one in found] == [one.ids for one in alone]
        scores = [one.score for one in alone]
        assert [one.score for one in found] == pytest.approx(scores, abs=1e-4)


def test_batches_hold_no_more_tokens_and_rows_than_asked_for(rng, searched, monkeypatch):
    model, texts = system("transformer"), sources(rng)
    settings = DecodeSettings(beam=2, max_len=4)
    decode(model, texts, settings, device=CPU, batch_tokens=60)
    assert all(rows * tokens <= 30 for _, rows, tokens in searched)
    by_tokens = len(searched)
    searched.clear()
    monkeypatch.setitem(translation.MOST_ROWS, "cpu", 4)
    found = decode(model, texts, settings, device=CPU, batch_tokens=60)
    assert {rows for _, rows, _ in searched} <= {1, 2}
    assert len(searched) > by_tokens
    wanted = decode(model, texts, settings, device=CPU)
    assert [[one.ids for one in best] for best in found] == [
        [one.ids for one in best] for best in wanted
    ]


def test_a_cpu_takes_no_more_at_once_than_pays(rng, searched, monkeypatch):
    monkeypatch.setattr(translation, "CPU_TOKENS", 30)
    decode(system("transformer"), sources(rng), DecodeSettings(max_len=4), device=CPU)
    assert all(rows * tokens <= 30 for _, rows, tokens in searched)


def test_a_model_is_made_ready_in_the_numbers_that_were_asked_for(rng, searched):
    model, texts = system("transformer"), sources(rng, 2)
    narrow = [("bf16", torch.bfloat16)] if torch.ops.mkldnn._is_mkldnn_bf16_supported() else []
    for precision, dtype in [("auto", torch.float32), *narrow]:
        searched.clear()
        decode(model, texts, DecodeSettings(max_len=4, precision=precision), device=CPU)
        assert {ready.dtype for ready, _, _ in searched} == {dtype}
    searched.clear()
    other = system("luong2015")
    decode(other, texts, DecodeSettings(max_len=4, precision="bf16"), device=CPU)
    assert {ready for ready, _, _ in searched} == {other}  # it has no other form


def test_precision_by_device(monkeypatch):
    gpu = torch.device("cuda")
    assert number_format("auto", CPU) is None
    assert number_format("fp32", gpu) is None
    assert number_format("bf16", CPU) == torch.bfloat16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert number_format("auto", gpu) == torch.bfloat16
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert number_format("auto", gpu) is None
    with pytest.raises(ConfigError, match="decode.precision=bf16.*use fp32"):
        number_format("bf16", gpu)


def test_nothing_is_made_of_nothing():
    assert decode(system("transformer"), [], DecodeSettings(), device=CPU) == []
