"""Language models as folders of GPT-2, and back."""

import json

import pytest
import torch
from language_models import decoder_config, language_model, loaded, same_weights, weights_of
from safetensors.torch import load_file, save_file

from regard.core.errors import CheckpointError, ConfigError
from regard.interop.gpt2 import read_gpt2, write_gpt2

IDS = torch.arange(11)[None] % 7


def folder_of(path, model):
    path.mkdir(exist_ok=True)
    write_gpt2(model.config, weights_of(model), path)
    return path


@pytest.fixture
def model():
    return language_model(activation="gelu_tanh")


@pytest.fixture
def folder(tmp_path, model):
    return folder_of(tmp_path / "gpt2", model)


def change(folder, **fields):
    path = folder / "config.json"
    said = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: x for name, x in said.items() if x != "left out"}))


def change_tensors(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "gelu_tanh"},
        {"activation": "relu", "tied": False, "pad_id": 3, "eps": 1e-3},
        {"activation": "silu", "dropout": 0.25},
    ],
    ids=str,
)
def test_what_is_written_is_read_again(tmp_path, changes):
    model = language_model(**changes)
    found = read_gpt2(folder_of(tmp_path, model))
    assert found.config == model.config
    assert same_weights(found.weights, weights_of(model))
    assert found.notes == ()


def test_matrices_are_kept_as_gpt_2_keeps_them(folder, model):
    tensors = load_file(folder / "model.safetensors")
    joined = tensors["transformer.h.1.attn.c_attn.weight"]
    assert joined.shape == (24, 3 * 24)
    attention = model.layers[1].self_attention
    for i, part in enumerate((attention.to_q, attention.to_k, attention.to_v)):
        for row in range(24):
            assert torch.equal(joined[:, 24 * i + row], part.weight[row])
    assert tensors["transformer.h.2.mlp.c_fc.weight"].shape == (24, 20)
    assert tensors["transformer.wte.weight"].shape == (13, 24)


@pytest.mark.parametrize(
    "changes",
    [{"bias": False}, {"positions": "sinusoidal"}, {"positions": "none", "bias": False}],
    ids=str,
)
def test_what_gpt_2_can_say_in_other_words_is_written(tmp_path, changes):
    model = language_model(**changes)
    found = read_gpt2(folder_of(tmp_path, model))
    assert found.config == decoder_config()
    torch.testing.assert_close(loaded(found)(IDS), model(IDS))


def test_an_old_folder_has_a_pickle_no_prefix_masks_and_the_output_twice(tmp_path, folder, model):
    tensors = load_file(folder / "model.safetensors")
    old = {name.removeprefix("transformer."): x for name, x in tensors.items()}
    for i in range(3):
        old[f"h.{i}.attn.bias"] = torch.ones(1, 1, 17, 17).tril()
        old[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    old["lm_head.weight"] = old["wte.weight"].clone()
    (folder / "model.safetensors").unlink()
    torch.save(old, folder / "pytorch_model.bin")
    change(folder, n_ctx=17, tie_word_embeddings="left out")
    assert same_weights(read_gpt2(folder).weights, weights_of(model))


def test_an_output_that_is_said_to_be_tied_must_be(folder):
    def put(tensors):
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"] + 1

    change_tensors(folder, put)
    with pytest.raises(CheckpointError, match=r"lm_head\.weight is not transformer\.wte\.weight"):
        read_gpt2(folder)


def test_the_inner_width_is_four_times_the_outer_where_nothing_is_said(tmp_path):
    folder = folder_of(tmp_path, language_model(d_ff=96))
    change(folder, n_inner=None)
    assert read_gpt2(folder).config.d_ff == 96


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "gptj"}, "model_type='gptj': input should be 'gpt2'"),
        ({"activation_function": "mish"}, "activation_function='mish'.*'gelu_new'.*'relu'"),
        ({"scale_attn_weights": False}, "scale_attn_weights=False: input should be True"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        ({"add_cross_attention": True}, "add_cross_attention=True: input should be False"),
        ({"quantization_config": {"bits": 4}}, "quantization_config="),
        ({"n_embd": "left out"}, "n_embd is missing"),
        ({"n_head": 5}, "d_model=24 is not a multiple of n_heads=5"),
        ({"n_layer": "three"}, "n_layer='three'"),
    ],
)
def test_what_has_no_counterpart_is_refused(folder, fields, message):
    change(folder, **fields)
    with pytest.raises(ConfigError, match=message):
        read_gpt2(folder)


def test_all_tensors_that_do_not_fit_are_named_with_the_sizes_that_decide(folder):
    def spoil(tensors):
        del tensors["transformer.h.1.ln_2.bias"]
        tensors["transformer.h.3.ln_1.bias"] = torch.zeros(24)
        tensors["transformer.h.0.mlp.c_fc.weight"] = torch.zeros(24, 21)

    change_tensors(folder, spoil)
    with pytest.raises(CheckpointError) as told:
        read_gpt2(folder)
    for part in (
        "missing transformer.h.1.ln_2.bias",
        "unused transformer.h.3.ln_1.bias",
        "c_fc.weight is (21, 24), but its configuration asks for (20, 24)",
        "n_embd=24, n_layer=3, n_head=4, n_inner=20",
    ):
        assert part in str(told.value)


@pytest.mark.parametrize(
    ("fields", "pad_id", "note"),
    [
        ({"pad_token_id": None, "eos_token_id": 6}, 6, "token 6 stands in"),
        ({"pad_token_id": -1, "eos_token_id": [5, 6]}, 5, "token 5 stands in"),
        ({"pad_token_id": 13, "eos_token_id": 50256}, 0, "token 0 stands in"),
        ({"pad_token_id": 2, "attn_pdrop": 0.1}, 2, "no counterpart of attn_pdrop=0.1"),
        ({"embd_pdrop": 0.3}, 0, "no counterpart of embd_pdrop=0.3"),
    ],
)
def test_what_is_not_taken_as_it_is_is_noted(folder, fields, pad_id, note):
    change(folder, **fields)
    found = read_gpt2(folder)
    assert found.config.pad_id == pad_id
    assert len(found.notes) == 1
    assert note in found.notes[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "rms", "positions": "rotary"}, "norm='rms', positions='rotary'"),
        ({"positions": "alibi"}, "positions='alibi'"),
        ({"n_kv_heads": 2}, "n_kv_heads=2"),
        ({"activation": "swiglu"}, "activation='swiglu'"),
    ],
)
def test_a_model_without_a_counterpart_is_not_written(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=f"GPT-2 has no counterpart of {message}"):
        folder_of(tmp_path, language_model(**changes))
    assert list(tmp_path.iterdir()) == []


def test_weights_that_are_not_the_models_are_not_written(tmp_path, model):
    weights = weights_of(model)
    weights["more"] = weights.pop("norm.bias")
    with pytest.raises(CheckpointError, match="missing norm.bias; unused more"):
        write_gpt2(model.config, weights, tmp_path)
