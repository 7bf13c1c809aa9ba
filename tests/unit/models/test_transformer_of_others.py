"""What other people's Transformers do otherwise, as settings of ours."""

import pytest
import torch
import torch.nn.functional as F
from tiny import tiny_config

from regard.decoding.settings import DecodeSettings
from regard.fast.quick import quickened
from regard.models.transformer import Transformer
from regard.tasks.translating import decode

SOURCE = torch.tensor([[5, 6, 7, 2], [8, 4, 2, 0]])
TARGET = torch.tensor([[1, 9, 4], [1, 3, 11]])
OTHERS = [
    {"activation": "gelu"},
    {"activation": "gelu_tanh"},
    {"activation": "silu"},
    {"activation": "swiglu"},
    {"output_bias": True},
    {"tied_output": False},
    {"embedding_scale": False},
    {"hidden_source_id": 2},
]


def shaken(**changes):
    torch.manual_seed(1)
    model = Transformer(tiny_config(**changes)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("changes", OTHERS, ids=str)
@torch.inference_mode()
def test_stepping_equals_forward(changes):
    model = shaken(**changes)
    memory = model.encode(SOURCE)
    state, found = model.start(memory), []
    for ids in TARGET.T:
        logits, state = model.step(ids, memory, state)
        found.append(logits)
    torch.testing.assert_close(torch.stack(found, dim=1), model(SOURCE, TARGET))


@pytest.mark.parametrize("changes", OTHERS, ids=str)
def test_what_the_quick_forms_cannot_do_is_left_to_the_model(changes):
    model = shaken(**changes).float()
    assert quickened(model) is model


@pytest.mark.parametrize("changes", OTHERS, ids=str)
@torch.inference_mode()
def test_greedy_decoding_follows_a_plain_forward(changes):
    model = shaken(**changes).float()
    settings = DecodeSettings(beam=1, max_len=6)
    place = torch.device("cpu")
    found = decode(model, [[5, 6, 7]], settings, n_best=1, batch_tokens=99, device=place)[0][0]
    target = torch.tensor([[1, *found.ids]])
    log_probs = model(torch.tensor([[5, 6, 7, 2]]), target)[0].log_softmax(-1)
    log_probs[:, :2] = -torch.inf  # padding and begin are never chosen
    chosen = log_probs.argmax(-1).tolist()
    assert chosen[: len(found.ids)] == list(found.ids)


@torch.inference_mode()
def test_activations_stand_between_the_two_projections():
    formulas = {
        "gelu": lambda x: x * torch.special.ndtr(x),
        "gelu_tanh": lambda x: (
            0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
        ),
        "silu": lambda x: x / (1 + torch.exp(-x)),
    }
    for name, formula in formulas.items():
        layer = shaken(activation=name).decoder.layers[0].feed_forward
        x = torch.randn(3, layer.inner.in_features, dtype=torch.double)
        torch.testing.assert_close(layer(x), layer.outer(formula(layer.inner(x))))


@torch.inference_mode()
def test_the_bias_of_the_output_is_added_to_the_logits():
    model = shaken(output_bias=True)
    states = model.states(SOURCE, TARGET)
    tied = model.decoder.embedding.tokens.weight
    assert "decoder.output_bias" in dict(model.named_parameters())
    torch.testing.assert_close(model(SOURCE, TARGET), states @ tied.T + model.decoder.output_bias)


@torch.inference_mode()
def test_an_output_of_its_own_does_not_touch_the_embedding():
    model = shaken(tied_output=False)
    before = model.states(SOURCE, TARGET)
    model.decoder.output_weight.zero_()
    torch.testing.assert_close(model.states(SOURCE, TARGET), before, rtol=0, atol=0)
    assert not model(SOURCE, TARGET).any()


@torch.inference_mode()
def test_embeddings_that_are_not_scaled_are_taken_as_they_are():
    model = shaken(embedding_scale=False, positions="none")
    tokens = model.encoder.embedding.tokens.weight
    torch.testing.assert_close(model.encoder.embedding(SOURCE), F.embedding(SOURCE, tokens))


@torch.inference_mode()
def test_a_hidden_source_id_is_as_good_as_absent():
    model = shaken(hidden_source_id=2)
    ends, none = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(model(ends, TARGET[:1]), model(none, TARGET[:1]))
    seen = shaken()
    assert (seen(ends, TARGET[:1]) - seen(none, TARGET[:1])).abs().max() > 1e-3
