"""BERT folders: written and read back, in the spellings there are, and refused."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.checkpoints.run_folder import fill
from regard.core.errors import CheckpointError, ConfigError
from regard.interop.bert import read_bert, write_bert
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig

SIZES = {"n_vocab": 13, "d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2, "max_len": 9}
HEADS = [
    {},
    {"head": "classify", "n_labels": 5},
    {"head": "masked"},
    {"head": "spans"},
]


def encoder(**changes):
    model = Encoder(EncoderConfig(**{**SIZES, "eps": 1e-3, **changes})).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def written(model, folder):
    write_bert(model.config, dict(model.named_parameters()), folder)
    return folder


def changed(folder, tensors=None, **fields):
    """The folder with other tensors and other fields; a field that is ``...`` is left out."""
    path = folder / "config.json"
    raw = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({key: value for key, value in raw.items() if value is not ...}))
    if tensors is not None:
        found = tensors(load_file(folder / "model.safetensors"))
        save_file({name: x.clone() for name, x in found.items()}, folder / "model.safetensors")
    return folder


def same(imported, model):
    ours = dict(model.named_parameters())
    assert imported.weights.keys() == ours.keys()
    assert all(torch.equal(imported.weights[name], ours[name]) for name in ours)
    return True


@pytest.fixture
def masked(tmp_path):
    model = encoder(head="masked")
    return model, written(model, tmp_path)


@pytest.mark.parametrize("changes", HEADS, ids=str)
def test_what_is_written_is_read_again(tmp_path, changes):
    model = encoder(dropout=0.2, activation="gelu_tanh", n_segments=3, pad_id=4, **changes)
    imported = read_bert(written(model, tmp_path))
    assert imported.config == model.config
    assert imported.notes == ()
    assert same(imported, model)


def test_the_folder_speaks_their_language(tmp_path):
    model = encoder(head="classify", n_labels=2, n_segments=3, pad_id=4, dropout=0.2)
    folder = written(model, tmp_path)
    assert json.loads((folder / "config.json").read_text()) == {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "vocab_size": 13,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 9,
        "type_vocab_size": 3,
        "layer_norm_eps": 1e-3,
        "pad_token_id": 4,
        "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
        "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    }
    tensors, last = load_file(folder / "model.safetensors"), model.layers[1]
    for name, part in {
        "attention.self.query": last.self_attention.to_q,
        "attention.self.key": last.self_attention.to_k,
        "attention.self.value": last.self_attention.to_v,
        "attention.output.dense": last.self_attention.to_out,
        "attention.output.LayerNorm": last.around_self.norm,
        "output.LayerNorm": last.around_feed_forward.norm,
    }.items():
        assert torch.equal(tensors[f"bert.encoder.layer.1.{name}.weight"], part.weight)
        assert torch.equal(tensors[f"bert.encoder.layer.1.{name}.bias"], part.bias)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("gelu_new", "gelu_tanh"), ("gelu_pytorch_tanh", "gelu_tanh"), ("swish", "silu")],
)
def test_activations_have_several_names(masked, theirs, ours):
    assert read_bert(changed(masked[1], hidden_act=theirs)).config.activation == ours


@pytest.mark.parametrize("changes", HEADS, ids=str)
def test_the_prefix_may_be_there_or_not(tmp_path, changes):
    model = encoder(**changes)
    folder = written(model, tmp_path)
    prefixed = [name.startswith("bert.") for name in load_file(folder / "model.safetensors")]
    assert any(prefixed) == ("head" in changes)

    def other(tensors):
        if "head" in changes:
            return {name.removeprefix("bert."): x for name, x in tensors.items()}
        return {f"bert.{name}": x for name, x in tensors.items()}

    assert same(read_bert(changed(folder, other)), model)


def test_norms_of_old_folders_are_read_and_places_passed_over(masked):
    model, folder = masked

    def old(tensors):
        new = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for name in list(tensors):
            for ending, other in new.items():
                if name.endswith(ending):
                    tensors[name.removesuffix(ending) + other] = tensors.pop(name)
        assert sum(name.endswith(".gamma") for name in tensors) == 6
        return tensors | {"bert.embeddings.position_ids": torch.arange(9)[None]}

    imported = read_bert(changed(folder, old))
    assert same(imported, model)
    assert imported.notes == ()


def test_a_tensor_in_two_spellings_is_refused(masked):
    name = "embeddings.word_embeddings.weight"
    changed(masked[1], lambda tensors: tensors | {name: tensors[f"bert.{name}"]})
    with pytest.raises(CheckpointError, match=f"{name} twice"):
        read_bert(masked[1])


def test_heads_that_nobody_asked_for_are_left_aside_and_told(masked):
    model, folder = masked
    more = {"bert.pooler.dense.weight": torch.zeros(12, 12)}
    more |= {"cls.seq_relationship.bias": torch.zeros(2)}
    changed(folder, lambda tensors: tensors | more, architectures=["BertForPreTraining"])
    imported = read_bert(folder)
    assert same(imported, model)
    assert len(imported.notes) == 1
    assert "pooler.dense.weight, cls.seq_relationship.bias" in imported.notes[0]


def test_dropout_that_we_do_not_have_is_told(tmp_path):
    folder = written(encoder(head="classify", n_labels=2), tmp_path)
    changed(folder, attention_probs_dropout_prob=0.25, classifier_dropout=0.5)
    first, second = read_bert(folder).notes
    assert "attention_probs_dropout_prob=0.25" in first
    assert "classifier_dropout=0.5" in second
    assert len(read_bert(changed(folder, classifier_dropout=0.1)).notes) == 1


def test_copies_of_tied_tensors_are_dropped(masked):
    model, folder = masked

    def copied(tensors):
        table = tensors["bert.embeddings.word_embeddings.weight"]
        more = {"cls.predictions.decoder.weight": table}
        more["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
        return tensors | more

    assert same(read_bert(changed(folder, copied)), model)


@pytest.mark.parametrize("part", ["weight", "bias"])
def test_an_output_matrix_of_its_own_is_refused(masked, part):
    shape = (13, 12) if part == "weight" else (13,)
    other = {f"cls.predictions.decoder.{part}": torch.zeros(shape)}
    changed(masked[1], lambda tensors: tensors | other)
    with pytest.raises(CheckpointError, match=f"decoder.{part} differs from .*not tied"):
        read_bert(masked[1])


@pytest.mark.parametrize("architectures", [..., [], None], ids=str)
@pytest.mark.parametrize("changes", HEADS, ids=str)
def test_where_no_class_is_named_the_tensors_tell(tmp_path, changes, architectures):
    model = encoder(**changes)
    imported = read_bert(changed(written(model, tmp_path), architectures=architectures))
    assert imported.config == model.config
    assert same(imported, model)


def test_labels_are_counted_by_name_or_by_number_or_are_two(tmp_path):
    folder = written(encoder(head="classify", n_labels=2), tmp_path)
    assert read_bert(changed(folder, id2label=...)).config.n_labels == 2
    folder = written(encoder(head="classify", n_labels=3), tmp_path)
    assert read_bert(changed(folder, id2label=..., num_labels=3)).config.n_labels == 3
    with pytest.raises(CheckpointError, match=r"classifier.weight is \(3, 12\), but .*\(2, 12\)"):
        read_bert(changed(folder, num_labels=...))


def test_what_a_folder_does_not_say_is_as_in_bert(tmp_path):
    folder = written(encoder(), tmp_path)
    raw = {"model_type": "bert", "hidden_size": 24}
    (folder / "config.json").write_text(json.dumps(raw))
    with pytest.raises(CheckpointError) as told:
        read_bert(folder)
    for part in ("(30522, 24)", "(512, 24)", "(3072, 24)", "missing encoder.layer.11.output.dense"):
        assert part in str(told.value)


def test_settings_without_counterpart_are_all_told_at_once(masked):
    wrong = {
        "model_type": "roberta",
        "architectures": ["BertForTokenClassification"],
        "hidden_act": "mish",
        "position_embedding_type": "relative_key",
        "is_decoder": True,
        "add_cross_attention": True,
        "pruned_heads": {"0": [1]},
        "quantization_config": {"bits": 8},
        "type_vocab_size": 0,
    }
    changed(masked[1], pad_token_id=None, **wrong)
    with pytest.raises(CheckpointError) as told:
        read_bert(masked[1])
    for field, value in (*wrong.items(), ("pad_token_id", None)):
        assert f"{field}={value!r} (supported: " in str(told.value)


@pytest.mark.parametrize("found", ["BertModel", ["BertModel", "BertForMaskedLM"], [7]], ids=str)
def test_a_class_that_is_none_is_refused(masked, found):
    with pytest.raises(CheckpointError, match="architectures="):
        read_bert(changed(masked[1], architectures=found))


def test_numbers_that_do_not_fit_are_refused(masked):
    changed(masked[1], num_attention_heads=5, hidden_dropout_prob=0.1)
    with pytest.raises(CheckpointError, match=r"config.json .*d_model=12 .*n_heads=5"):
        read_bert(masked[1])
    with pytest.raises(CheckpointError, match="n_layers='two'"):
        read_bert(changed(masked[1], num_hidden_layers="two"))


def test_tensors_that_do_not_fit_are_named(masked):
    def other(tensors):
        del tensors["cls.predictions.bias"]
        return tensors | {"bert.more": torch.zeros(1)}

    changed(masked[1], other, intermediate_size=21)
    with pytest.raises(CheckpointError) as told:
        read_bert(masked[1])
    for part in ("missing cls.predictions.bias", "unused more", "(20, 12)", "(21, 12)"):
        assert part in str(told.value)


SILENT = [
    {"bias": False},
    {"n_segments": 0},
    {"positions": "sinusoidal"},
    {"positions": "none"},
    {"positions": "sinusoidal", "n_segments": 0, "bias": False},
    {"activation": "relu"},
    {"activation": "silu"},
]


@pytest.mark.parametrize("head", HEADS, ids=str)
@pytest.mark.parametrize("changes", SILENT, ids=str)
def test_what_bert_has_besides_says_nothing(tmp_path, rng, changes, head):
    model = encoder(**changes, **head)
    imported = read_bert(written(model, tmp_path))
    again = Encoder(imported.config).eval()
    fill(again, imported.weights, "the folder")
    ids = torch.randint(0, 13, (3, 9), generator=rng)
    torch.testing.assert_close(again(ids), model(ids))


@pytest.mark.parametrize(
    "wrong",
    [
        {"norm_first": True},
        {"norm": "rms"},
        {"embedding_norm": False},
        {"activation": "swiglu"},
        {"positions": "rotary"},
        {"head": "classify", "n_labels": 2, "pooling": "mean"},
    ],
    ids=str,
)
def test_a_model_without_counterpart_is_not_written(tmp_path, wrong):
    model = encoder(**wrong)
    name, value = list(wrong.items())[-1]
    with pytest.raises(ConfigError, match=f"no counterpart of {name}={value!r}$"):
        written(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_weights_of_another_model_are_not_written(tmp_path):
    weights = dict(encoder(n_layers=3).named_parameters())
    with pytest.raises(CheckpointError, match="unused layers.2"):
        write_bert(encoder().config, weights, tmp_path)
