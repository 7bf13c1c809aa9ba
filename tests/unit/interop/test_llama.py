"""Language models as folders of LLaMA, and back."""

import json

import pytest
import torch
from language_models import LLAMA, language_model, same_weights, weights_of
from safetensors.torch import load_file, save_file

from regard.core.errors import CheckpointError, ConfigError
from regard.interop.llama import halves, neighbours, read_llama, write_llama


def llama(**changes):
    return language_model(**{**LLAMA, "n_kv_heads": 2, **changes})


@pytest.fixture
def model():
    return llama()


@pytest.fixture
def folder(tmp_path, model):
    write_llama(model.config, weights_of(model), tmp_path)
    return tmp_path


def change(folder, **fields):
    path = folder / "config.json"
    said = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: x for name, x in said.items() if x != "left out"}))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_kv_heads": 4, "tied": False, "pad_id": 3},
        {"n_kv_heads": 1, "bias": True, "rotary_base": 1e5, "eps": 1e-3},
    ],
    ids=str,
)
def test_what_is_written_is_read_again(tmp_path, changes):
    model = llama(**changes)
    write_llama(model.config, weights_of(model), tmp_path)
    found = read_llama(tmp_path)
    assert found.config == model.config
    assert same_weights(found.weights, weights_of(model))
    assert found.notes == ()


def test_pairs_half_a_head_apart_come_to_lie_side_by_side():
    rows = torch.tensor([0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15])
    beside = torch.tensor([0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15])
    assert torch.equal(neighbours(rows, 2), beside)
    assert torch.equal(halves(beside, 2), rows)


def test_only_rows_of_queries_and_keys_change_places(folder, model):
    tensors = load_file(folder / "model.safetensors")
    attention = model.layers[1].self_attention
    begin = "model.layers.1.self_attn."
    q, k = (tensors[f"{begin}{name}_proj.weight"] for name in "qk")
    assert torch.equal(q[6:12], attention.to_q.weight[[6, 8, 10, 7, 9, 11]])  # the second head
    assert torch.equal(k[6:12], attention.to_k.weight[[6, 8, 10, 7, 9, 11]])
    assert torch.equal(tensors[f"{begin}v_proj.weight"], attention.to_v.weight)
    assert torch.equal(tensors[f"{begin}o_proj.weight"], attention.to_out.weight)


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_theta": 5e4},
        {"rope_theta": "left out", "rope_parameters": {"rope_theta": 5e4, "rope_type": "default"}},
        {"rope_theta": 5e4, "rope_scaling": {"type": "default"}},
    ],
    ids=str,
)
def test_the_base_of_rotary_positions_is_found_in_old_and_new_places(folder, fields):
    change(folder, **fields)
    assert read_llama(folder).config.rotary_base == 5e4


def test_without_a_number_of_shared_keys_every_head_has_its_own(tmp_path):
    model = llama(n_kv_heads=None)
    write_llama(model.config, weights_of(model), tmp_path)
    change(tmp_path, num_key_value_heads="left out", attention_dropout=0.1)
    found = read_llama(tmp_path)
    assert found.config == model.config
    assert found.notes == ("attention_dropout=0.1 has no counterpart: it trains on without",)


def test_an_old_folder_has_no_prefix_and_carries_angles(folder, model):
    tensors = load_file(folder / "model.safetensors")
    old = {name.removeprefix("model."): x for name, x in tensors.items()}
    old |= {f"layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(3) for i in range(3)}
    old["lm_head.weight"] = old["embed_tokens.weight"].clone()
    save_file(old, folder / "model.safetensors")
    assert same_weights(read_llama(folder).weights, weights_of(model))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "mistral"}, "model_type='mistral': input should be 'llama'"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu': input should be 'silu'"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "rope_scaling.*'linear'.*'default'"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "rope_parameters.*'llama3'"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor=0.5"),
        ({"rope_interleaved": True}, "rope_interleaved=True: input should be False"),
        ({"attention_bias": True}, "attention_bias=True and mlp_bias=False: only both or neither"),
        ({"mlp_bias": True}, "attention_bias=False and mlp_bias=True"),
        ({"head_dim": 8}, r"head_dim=8: only .*\(24 / 4\)"),
        ({"quantization_config": {"bits": 4}}, "quantization_config="),
        ({"hidden_size": "left out"}, "hidden_size is missing"),
        ({"num_key_value_heads": 3}, "n_kv_heads=3 does not divide n_heads=4"),
    ],
)
def test_what_has_no_counterpart_is_refused(folder, fields, message):
    change(folder, **fields)
    with pytest.raises(ConfigError, match=message):
        read_llama(folder)


def test_tensors_of_the_wrong_shape_are_named_with_the_sizes_that_decide(folder):
    change(folder, num_key_value_heads=1, tie_word_embeddings=False)
    with pytest.raises(CheckpointError) as told:
        read_llama(folder)
    for part in (
        "layers.0.self_attn.k_proj.weight is (12, 24), but its configuration asks for (6, 24)",
        "missing lm_head.weight",
        "num_attention_heads=4, num_key_value_heads=1, intermediate_size=20",
    ):
        assert part in str(told.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "layer", "activation": "gelu"}, "norm='layer', activation='gelu'"),
        ({"positions": "learned"}, "positions='learned'"),
    ],
)
def test_a_model_without_a_counterpart_is_not_written(tmp_path, changes, message):
    model = llama(**changes)
    with pytest.raises(ConfigError, match=f"LLaMA has no counterpart of {message}"):
        write_llama(model.config, weights_of(model), tmp_path)
    assert list(tmp_path.iterdir()) == []
