import pytest
import torch

from regard.bench.contest import BenchRequest
from regard.bench.decoders import (
    DecodingWork,
    direct_decoding,
    ending_model,
    engine_decoding,
    hf_decoding,
    our_decoding,
)
from regard.bench.decoding import USUAL, decode_bench
from regard.bench.updates import shape
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy

CPU = torch.device("cpu")
CONFIG = shape("tiny", 600)


@pytest.fixture(params=[1, 4], ids=["greedy", "beam"])
def writing(request):
    return DecodingWork(3, 6, 5, request.param, CPU)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_we_write_exactly_as_much_as_is_asked_for(writing, precision):
    assert our_decoding(CONFIG, writing, precision).run() == 3 * 5


def test_so_does_the_package_transformers(writing):
    pytest.importorskip("transformers")
    assert hf_decoding(CONFIG, writing, "fp32").run() == 3 * 5


def test_so_does_ctranslate2_with_us_and_without(writing):
    pytest.importorskip("ctranslate2")
    works = [one(CONFIG, writing, "fp32") for one in (engine_decoding, direct_decoding)]
    assert [work.run() for work in works] == [3 * 5, 3 * 5]
    assert works[0].n_parameters == works[1].n_parameters


def test_writing_less_is_no_result(writing):
    with pytest.raises(AssertionError, match="5 tokens a text"):
        writing.checked([5, 4, 5])


def test_everybody_reads_the_same_sources(writing):
    source = writing.source(600)
    assert source[:, :-1].tolist() == writing.ids(600)
    assert source.shape == (3, 7)
    assert source[:, -1].tolist() == [2, 2, 2]


def _beams(model, source, limits):
    return beam_search(model, source, limits=limits, n_beams=4, n_best=4)


@pytest.mark.parametrize("n_new", [3, 9])
def test_a_model_made_to_end_does_so_after_so_many_tokens(n_new, rng):
    torch.manual_seed(3)
    model = ending_model(CONFIG, n_new)
    source = torch.randint(4, 600, (20, 8), generator=rng)
    limits = torch.full((20,), 30)
    for found in (
        greedy(model, source, limits=limits),
        [one for four in _beams(model, source, limits) for one in four],  # all, not only the best
    ):
        assert {(len(one.ids) + 1, one.finished) for one in found} == {(n_new, True)}


def test_rows_for_each_search_and_engine(monkeypatch):
    monkeypatch.setitem(USUAL, "cpu", ((1, 2),))
    monkeypatch.setattr("regard.bench.measures.WIDTH", {"cpu": 32})
    monkeypatch.setattr("regard.bench.contest.LEAST_SECONDS", 0.001)
    bench = decode_bench(
        BenchRequest(device="cpu", rounds=1, only=("regard",)), size="tiny", vocab=60
    )
    assert [(row.what, row.label, row.precision) for row in bench.rows] == [
        ("greedy, batch 2", "regard (native)", "bf16"),
        ("greedy, batch 2", "regard (native)", "fp32"),
    ]
    assert all(row.value and row.share for row in bench.rows)
