"""MarianMT folders without MarianMT: what goes out comes back, and what does not fit is named."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import tiny_config
from translators import loaded, shaken

from regard.core.errors import CheckpointError, ConfigError
from regard.functional.positions import sinusoid
from regard.interop.marian import (
    in_halves,
    marian_numbering,
    read_marian,
    refusal,
    write_marian,
)
from regard.models.transformer import Transformer


@pytest.fixture
def folder(tmp_path):
    write_marian(shaken(Transformer(tiny_config()).eval()), tmp_path)
    return tmp_path


def change(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_tensors(folder, work):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    work(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize(
    "changes",
    [{}, {"shared_vocab": False, "n_target_vocab": 17}, {"output_bias": True, "d_model": 15}],
    ids=str,
)
def test_what_goes_out_comes_back_bit_by_bit(tmp_path, changes):
    ours = shaken(Transformer(tiny_config(**changes)).eval())
    write_marian(ours, tmp_path)
    again = loaded(read_marian(tmp_path))
    assert again.config == ours.config
    own, found = dict(ours.named_parameters()), dict(again.named_parameters())
    assert all(torch.equal(own[name], found[name]) for name in own)


@pytest.mark.parametrize("d_model", [6, 7])
def test_sines_and_cosines_go_into_halves_and_back(d_model):
    table = sinusoid(torch.arange(5), d_model)
    halves = in_halves({"encoder.embedding.tokens.weight": table}, d_model)
    found = halves["encoder.embedding.tokens.weight"]
    n_sines = (d_model + 1) // 2
    assert torch.equal(found[:, :n_sines], table[:, 0::2])
    assert torch.equal(found[:, n_sines:], table[:, 1::2])
    again = in_halves(halves, d_model, back=True)["encoder.embedding.tokens.weight"]
    assert torch.equal(again, table)


def test_their_padding_begins_a_target_and_ours_has_no_share(folder):
    change(folder, pad_token_id=12, decoder_start_token_id=12, eos_token_id=0, unk_token_id=1)
    _, numbering = marian_numbering(folder)
    assert numbering.rows == (None, 12, 0, 1, *range(2, 12))
    imported = read_marian(folder)
    assert imported.config.n_target_vocab == 14
    assert imported.weights["decoder.output_bias"].tolist() == [-1e4, *[0.0] * 13]
    found = loaded(imported)(torch.tensor([[5, 2]]), torch.tensor([[1, 4]])).softmax(-1)
    assert found[..., 0].max() == 0


def test_weights_of_half_precision_become_float32(folder):
    change_tensors(folder, lambda t: t.update({name: one.half() for name, one in t.items()}))
    assert {one.dtype for one in read_marian(folder).weights.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"normalize_before": True}, "normalize_before=True \\(supported: False\\)"),
        ({"decoder_layers": 3}, "encoder_layers=2 beside decoder_layers=3"),
        ({"activation_function": "tanh"}, "activation_function='tanh' \\(supported: gelu, "),
        ({"static_position_embeddings": False}, "static_position_embeddings=False"),
        ({"d_model": 13}, "d_model=13 is not a multiple of n_heads=3"),
        ({"eos_token_id": None}, "must say eos_token_id as one number from 0 to .*, found None"),
        ({"vocab_size": "many"}, "describes no model: .*n_source_vocab"),
        ({"vocab_size": "13"}, "n_source_vocab: .* valid integer, found '13'"),
        ({"activation_function": []}, "activation_function=\\[\\] \\(supported: gelu, "),
        ({"pad_token_id": 99}, "must say pad_token_id as one number from 0 to 12, found 99"),
        ({"pad_token_id": -1}, "must say pad_token_id as one number from 0 to 12, found -1"),
        ({"decoder_start_token_id": 13}, "decoder_start_token_id .* from 0 to 12, found 13"),
        ({"unk_token_id": "x"}, "unk_token_id as one number from 0 to 12, found 'x'"),
        ({"encoder_layers": 10**9, "decoder_layers": 10**9}, "says 1000000000 layers, and holds"),
        ({"vocab_size": 10**18, "decoder_vocab_size": None}, "no model can have the sizes"),
    ],
)
def test_a_description_without_counterpart_is_refused_by_field(folder, changes, words):
    change(folder, **changes)
    with pytest.raises(CheckpointError, match=words):
        read_marian(folder)


def test_a_description_that_lacks_a_size_says_which(folder):
    raw = json.loads((folder / "config.json").read_text())
    del raw["d_model"]
    (folder / "config.json").write_text(json.dumps(raw))
    with pytest.raises(CheckpointError, match="does not say its d_model"):
        read_marian(folder)


def test_every_missing_and_every_unused_tensor_is_named(folder):
    def work(tensors):
        del tensors["model.encoder.layers.1.fc1.bias"]
        del tensors["model.decoder.layers.0.encoder_attn.q_proj.weight"]
        tensors["model.encoder.layers.2.fc1.bias"] = torch.ones(20)

    change_tensors(folder, work)
    with pytest.raises(CheckpointError) as caught:
        read_marian(folder)
    for words in (
        "missing model.encoder.layers.1.fc1.bias",
        "missing model.decoder.layers.0.encoder_attn.q_proj.weight",
        "unused model.encoder.layers.2.fc1.bias",
    ):
        assert words in str(caught.value)


def test_a_wrong_shape_is_told_with_both(folder):
    change(folder, encoder_ffn_dim=21, decoder_ffn_dim=21)
    with pytest.raises(CheckpointError, match=r"fc1.weight is \(20, 12\).* asks for \(21, 12\)"):
        read_marian(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"norm_first": True}, "norm_first=True"),
        ({"score": "additive", "bias": False}, "score='additive', bias=False"),
        ({"positions": "learned"}, "positions='learned'"),
        ({"window": "local_m"}, "window='local_m'"),
        ({"activation": "swiglu"}, "activation='swiglu'"),
        ({"hidden_source_id": 2}, "hidden_source_id=2"),
    ],
)
def test_a_setting_without_counterpart_is_not_exported(tmp_path, changes, words):
    model = Transformer(tiny_config(**changes))
    assert words in refusal(model.config)
    with pytest.raises(ConfigError, match="cannot be exported: MarianMT has no counterpart of"):
        write_marian(model, tmp_path)
    assert list(tmp_path.iterdir()) == []
