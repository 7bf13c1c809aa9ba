"""``regard.look`` at modules without a tokenizer, and what it refuses."""

import pytest
import torch
from torch import nn

import regard


def test_a_module_is_given_its_inputs():
    model = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)
    look = regard.look(model, inputs=torch.randn(1, 5, 12))
    assert look.weights("encoder.self").shape == (3, 5, 5)
    assert look.tokens_of("encoder.self") == (tuple("01234"),) * 2
    assert model.training
    assert "TransformerEncoderLayer" in repr(look)
    assert "encoder.self, layer 0" in str(look)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_both_texts_of_a_translator_are_numbered():
    model = nn.Transformer(12, 3, 2, 2, 20, batch_first=True)
    look = regard.look(model, inputs=(torch.randn(1, 5, 12), torch.randn(1, 4, 12)))
    assert look.tokens_of("decoder.cross") == (tuple("0123"), tuple("01234"))
    assert look.tokens_of("decoder.self") == (tuple("0123"),) * 2
    assert look.steps(2, layer=1, head=1).name == "decoder.cross"


def test_keys_that_a_module_adds_are_named():
    model = nn.MultiheadAttention(12, 3, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    x = torch.randn(1, 3, 12)
    look = regard.look(model, inputs={"query": x, "key": x, "value": x})
    assert look.tokens_of("encoder.self") == (tuple("012"), ("0", "1", "2", "<bias>", "<zero>"))


def test_layers_that_were_left_out_are_told():
    model = nn.Sequential(*(nn.TransformerEncoderLayer(12, 3, 20) for _ in range(4)))
    look = regard.look(model, inputs=torch.randn(5, 1, 12), layers=[1, 3])
    assert len(look.attentions["encoder.self"]) == 2
    assert look.warnings == ("the layers 1, 3 of the model are shown, counted anew from 0",)


@pytest.mark.parametrize(
    ("args", "named", "told"),
    [
        ((nn.Linear(2, 2),), {}, "a text \\(or a picture\\) or inputs"),
        ((nn.Linear(2, 2), None, "a b"), {}, "needs the model's tokenizer"),
        ((nn.Linear(2, 2), str, "a b"), {"inputs": 1}, "one of the two"),
        ((nn.Linear(2, 2), str, ["a b", "c"]), {}, "takes one text, got 2: call it for each"),
        (("a model", None, "a b"), {}, "takes a torch.nn.Module, got str"),
        ((nn.Linear(2, 2),), {"inputs": torch.ones(3, 2)}, "no attention was seen in Linear"),
    ],
    ids=str,
)
def test_what_cannot_be_looked_at_is_refused(args, named, told):
    with pytest.raises(regard.ConfigError, match=told):
        regard.look(*args, **named)
