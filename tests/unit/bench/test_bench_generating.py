"""``regard bench generate``: everybody writes the same, with the same weights."""

import pytest
import torch
from language_models import LLAMA, language_model

from regard.bench import decoding
from regard.bench.contest import BenchRequest
from regard.bench.decoders import DecodingWork, our_writing
from regard.bench.decoding import generate_bench
from regard.core.errors import ConfigError
from regard.fast.quick import quickened
from regard.tasks.generation import GenerationConfig, generate

CPU = torch.device("cpu")
KINDS = pytest.mark.parametrize("changes", [{}, {**LLAMA, "n_kv_heads": 2}], ids=["gpt", "llama"])
SMALL = {**LLAMA, "n_vocab": 60, "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 8}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setitem(decoding.SHAPES, "small", {**SMALL, "max_len": 40})
    monkeypatch.setattr("regard.bench.measures.WIDTH", {"cpu": 32})
    monkeypatch.setattr("regard.bench.contest.LEAST_SECONDS", 0.001)


WRITING = DecodingWork(2, 6, 5, 1, CPU)


@KINDS
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_we_write_exactly_as_much_as_is_asked_for(changes, precision):
    assert our_writing(language_model(**changes), WRITING, precision).run() == 2 * 5


@KINDS
def test_so_does_the_package_transformers_and_it_writes_the_same(changes):
    pytest.importorskip("transformers")
    from regard.bench.decoders import hf_model, hf_writing

    model = language_model(**changes)
    theirs = hf_writing(model, WRITING, "fp32")
    assert theirs.run() == 2 * 5
    assert theirs.n_parameters == our_writing(model, WRITING, "fp32").n_parameters
    ids = WRITING.prompts(model.config.n_vocab)
    with torch.no_grad():
        torch.testing.assert_close(hf_model(model)(ids).logits, model(ids), atol=1e-4, rtol=1e-4)
    found = generate(
        quickened(model), ids.tolist(), GenerationConfig(max_new=5, temperature=0.0),
        rng=torch.Generator(), device=CPU,
    )  # fmt: skip
    wanted = hf_model(model).generate(ids, max_new_tokens=5, do_sample=False, eos_token_id=None)
    assert [list(one.ids) for (one,) in found] == wanted[:, 6:].tolist()


def test_writing_less_is_no_result():
    with pytest.raises(AssertionError, match="5 tokens a text"):
        WRITING.checked([5, 4])


def test_rows_for_each_batch_and_precision():
    bench = generate_bench(
        BenchRequest(device="cpu", rounds=1, only=("regard",)),
        shape="small",
        n_prompt=3,
        n_new=4,
        batches=(1, 2),
    )
    assert [(row.what, row.label, row.precision) for row in bench.rows] == [
        ("generation, batch 1", "regard (native)", "bf16"),
        ("generation, batch 1", "regard (native)", "fp32"),
        ("generation, batch 2", "regard (native)", "bf16"),
        ("generation, batch 2", "regard (native)", "fp32"),
    ]
    assert all(row.value for row in bench.rows)
    assert bench.facts["weights"] == "random"
    assert bench.facts["written"] == 4


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"shape": "smal"}, "no shape 'smal' .did you mean 'small'"),
        ({"shape": "small", "run": "somewhere"}, "a run or a --shape"),
        ({"shape": "small", "n_prompt": 30, "n_new": 11}, "41, but .* holds 40"),
    ],
)
def test_what_cannot_be_is_refused(asked, told):
    with pytest.raises(ConfigError, match=told):
        generate_bench(BenchRequest(device="cpu"), **{"n_prompt": 3, "n_new": 4, **asked})


def test_int8_is_no_precision_of_generating():
    with pytest.raises(ConfigError, match="fp32 or bf16, not int8"):
        generate_bench(
            BenchRequest(device="cpu", precision="int8"),
            shape="small",
            n_prompt=3,
            n_new=4,
        )


def test_the_shape_of_smollm2_has_its_parameters():
    with torch.device("meta"):
        model = decoding._language_model(None, "smollm2-135m")
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
