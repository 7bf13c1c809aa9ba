"""Language models and tokenizers from GGUF files, written here by the package gguf itself."""

import importlib
import sys

import numpy as np
import pytest
import torch
from language_models import loaded, same_weights, weights_of

from regard.core.errors import CheckpointError, ConfigError
from regard.interop import gguf as gguf_file
from regard.interop.gguf import read_gguf, read_gguf_tokenizer

gguf = pytest.importorskip("gguf", reason="gguf is not installed")
gguf_files = importlib.import_module("gguf_files")  # needs the package
TOKENS, gguf_model, write_gguf = (
    getattr(gguf_files, name) for name in ("TOKENS", "gguf_model", "write_gguf")
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gguf"


@pytest.mark.parametrize(
    ("kind", "changes", "settings"),
    [
        ("llama", {}, {}),
        ("llama", {"tied": False, "rotary_base": 5e4}, {"rope.freq_base": 5e4}),
        ("llama", {"bias": True}, {"rope.scaling.type": "none", "rope.dimension_count": 6}),
        ("llama", {"n_kv_heads": None}, {"attention.head_count_kv": None, "expert_count": 0}),
        ("gpt2", {}, {}),
        ("gpt2", {"tied": False, "eps": 1e-3}, {"attention.layer_norm_epsilon": 1e-3}),
    ],
)
def test_the_model_of_a_file_is_read(path, kind, changes, settings):
    model = gguf_model(kind, pad_id=1, **changes)
    found = read_gguf(write_gguf(path, model, kind, settings=settings))
    assert found.config.eps == pytest.approx(model.config.eps)  # kept as float32
    assert found.config.model_copy(update={"eps": model.config.eps}) == model.config
    assert same_weights(found.weights, weights_of(model))
    assert found.notes == ("it has no token for padding; token 1 stands in",)


def test_a_name_that_is_wrong_on_both_sides_would_be_seen(path):
    """Names and order of axes as the tools that write such files have them."""
    model = gguf_model("llama")
    write_gguf(path, model)
    tensors = {one.name: one for one in gguf.GGUFReader(path).tensors}
    known = {name.format(bid=0) for name in gguf.TENSOR_NAMES.values()}
    assert {name for name in tensors if "blk.0." in name} == {
        f"{name}.weight"
        for name in known
        if name.removeprefix("blk.0.")
        in "attn_norm ffn_norm attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down".split()
    }
    feed_forward = model.layers[0].feed_forward
    for name, part in (("gate", "inner"), ("up", "beside"), ("down", "outer")):
        wanted = getattr(feed_forward, part).weight.detach().numpy()
        assert np.array_equal(tensors[f"blk.0.ffn_{name}.weight"].data, wanted)


@pytest.mark.parametrize(
    ("keep", "within", "note"),
    [
        ("F16", 1e-3, None),
        ("Q8_0", 1e-2, "tensors kept as Q8_0 were written out as float32"),
        ("Q4_1", 0.2, "tensors kept as Q4_1 were written out as float32"),
    ],
)
def test_quantised_tensors_are_written_out(path, keep, within, note):
    model = gguf_model("llama", d_model=32, d_ff=64, n_kv_heads=4)
    sizes = {"embedding_length": 32, "feed_forward_length": 64, "attention.head_count_kv": 4}
    found = read_gguf(write_gguf(path, model, settings=sizes, keep=keep))
    assert [one for one in found.notes if "padding" not in one] == ([note] if note else [])
    for name, tensor in weights_of(model).items():
        assert found.weights[name].dtype == torch.float32
        assert found.weights[name].shape == tensor.shape
        assert (found.weights[name] - tensor).abs().max() <= within
    assert loaded(found)(torch.tensor([[1, 2, 3]])).isfinite().all()


def test_what_a_file_says_about_its_tokenizer_is_read(path):
    found = read_gguf_tokenizer(write_gguf(path, gguf_model("llama")))
    assert (found.kind, found.before) == ("gpt2", "smollm")
    assert found.tokens == tuple(TOKENS)
    assert found.types == (3, 3, *[1] * 11)
    assert found.merges == ("a b", "ab a")
    assert found.special_ids == {"bos": 0, "eos": 1}
    assert (found.adds_begin, found.adds_end) == (False, False)
    assert found.chat_template == "{{ messages }}"


def test_a_file_without_a_tokenizer_says_so(path, monkeypatch):
    monkeypatch.setattr(gguf_files, "add_tokenizer", lambda *_: None)
    write_gguf(path, gguf_model("llama"))
    assert read_gguf(path).config.pad_id == 0
    with pytest.raises(CheckpointError, match="carries no tokenizer"):
        read_gguf_tokenizer(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rope.scaling.type": "yarn"}, "llama.rope.scaling.type='yarn': input should be 'none'"),
        ({"rope.scale_linear": 2.0}, "llama.rope.scale_linear=2.0"),
        ({"expert_count": 8}, "llama.expert_count=8: input should be 0"),
        ({"rope.dimension_count": 4}, r"llama.rope.dimension_count=4: only .*\(24 / 4\)"),
        ({"attention.key_length": 8}, "llama.attention.key_length=8: only"),
        ({"attention.head_count_kv": [2, 2, 1]}, r"llama.attention.head_count_kv=\[2, 2, 1\]"),
        ({"attention.head_count_kv": 3}, "n_kv_heads=3 does not divide n_heads=4"),
        ({"block_count": None}, "llama.block_count is missing"),
    ],
)
def test_what_has_no_counterpart_is_refused(path, settings, message):
    write_gguf(path, gguf_model("llama"), settings=settings)
    with pytest.raises(ConfigError, match=message):
        read_gguf(path)


def test_a_model_of_another_kind_is_refused(path):
    writer = gguf.GGUFWriter(path, "bloom")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(CheckpointError, match="kind 'bloom'; supported are llama, gpt2"):
        read_gguf(path)


def test_all_tensors_that_do_not_fit_are_named_with_the_sizes_that_decide(path):
    spoilt = {
        "blk.1.ffn_norm.weight": None,
        "rope_freqs.weight": torch.ones(3),
        "blk.0.ffn_up.weight": torch.zeros(21, 24),
        "blk.2.attn_q.bias": torch.zeros(24),
    }
    write_gguf(path, gguf_model("llama"), tensors=spoilt)
    with pytest.raises(CheckpointError) as told:
        read_gguf(path)
    for part in (
        "missing blk.1.ffn_norm.weight",
        "unused rope_freqs.weight",
        "unused blk.2.attn_q.bias",
        "blk.0.ffn_up.weight is (21, 24), but its configuration asks for (20, 24)",
        "d_model=24, n_layers=3, n_heads=4, n_kv_heads=2, d_ff=20",
    ):
        assert part in str(told.value)


def test_a_file_that_is_cut_short_anywhere_is_damaged(path):
    whole = write_gguf(path, gguf_model("llama")).read_bytes()
    for n in (0, 3, 8, 20, 100, 300, 700, 1500, 3000, len(whole) - 5000):
        path.write_bytes(whole[:n])
        with pytest.raises(CheckpointError, match="not a GGUF file, or damaged"):
            read_gguf(path)


def test_what_is_no_gguf_file_is_refused(path):
    for read in (read_gguf, read_gguf_tokenizer):
        with pytest.raises(CheckpointError, match="there is no file"):
            read(path.with_name("other"))
    path.write_bytes(b"PK\3\4 something else altogether")
    with pytest.raises(CheckpointError, match="not a GGUF file"):
        read_gguf(path)


def test_without_the_package_it_says_how_to_get_it(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ConfigError, match=r"pip install 'regard\[gguf\]'"):
        gguf_file.read_gguf(path)
