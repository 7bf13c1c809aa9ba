"""Models without numbers: their shapes, and what a description may ask for."""

import pytest
import torch
from language_models import LLAMA, language_model, weights_of

from regard.core.errors import CheckpointError
from regard.interop.naming import deciding_settings, fitted, shapes
from regard.models.settings import DecoderConfig, EncoderConfig, TransformerConfig

SAME = {"d_model": 8, "n_layers": 8, "n_heads": 8, "d_ff": 8, "max_len": 8, "n_vocab": 8}
"""Each size the same, so that a number tells nothing about the setting."""


def test_shapes_are_those_of_the_parameters():
    model = language_model()
    wanted = {name: tuple(one.shape) for name, one in model.named_parameters()}
    assert shapes(model.config) == wanted


def test_tied_parameters_stand_under_each_name_when_asked_for():
    config = TransformerConfig(n_source_vocab=9, n_target_vocab=9, shared_vocab=True, d_model=8)
    alone, every = shapes(config), shapes(config, tied=True)
    assert every["decoder.embedding.tokens.weight"] == alone["encoder.embedding.tokens.weight"]
    assert "decoder.embedding.tokens.weight" not in alone


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("embedding.tokens.weight", ["n_vocab=8", "d_model=8"]),
        ("embedding.positions.table", ["max_len=8", "d_model=8"]),
        ("layers.0.self_attention.to_q.weight", ["d_model=8"]),
        ("layers.0.feed_forward.inner.bias", ["d_ff=8"]),
        ("head.to_labels.bias", ["n_labels=8"]),
    ],
)
def test_only_settings_that_change_a_shape_decide_it(name, settings):
    config = EncoderConfig(**SAME, n_segments=8, head="classify", n_labels=8)
    assert sorted(deciding_settings(config, [name])) == sorted(settings)


def test_heads_of_keys_are_decided_by_their_number():
    config = DecoderConfig(**{**SAME, **LLAMA, "d_model": 16, "n_heads": 4}, n_kv_heads=2)
    found = deciding_settings(config, ["layers.0.self_attention.to_k.weight"])
    assert set(found) == {"d_model=16", "n_heads=4", "n_kv_heads=2"}


def test_more_layers_than_tensors_are_never_built():
    model = language_model()
    config = model.config.model_copy(update={"n_layers": 10**9})
    with pytest.raises(CheckpointError, match=r"a file .* says 1000000000 layers, and holds \d+ t"):
        fitted(config, [], weights_of(model), "a file")


@pytest.mark.parametrize("size", [10**18, 10**30])
def test_sizes_that_torch_cannot_count_are_told(size):
    config = language_model().config.model_copy(update={"n_vocab": size})
    with pytest.raises(CheckpointError, match=f"no model can have the sizes .*n_vocab={size}"):
        fitted(config, [("a", "b")], {str(i): torch.zeros(1) for i in range(9)}, "a file")
