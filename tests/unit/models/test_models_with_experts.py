"""Experts as a setting of blocks: the laws of each family hold with them."""

import pytest
import torch
from language_models import language_model
from systems import system
from tiny import tiny_config

from regard.core.errors import ConfigError
from regard.fast.quick import quickened
from regard.interop.onnx import write_onnx, write_onnx_encoder
from regard.layers.experts import Balance, Experts
from regard.layers.feed_forward import FeedForward
from regard.models.encoder import Encoder
from regard.models.presets import ModelSettings, build, resolve, resolve_for
from regard.models.settings import DecoderConfig, EncoderConfig, TransformerConfig
from regard.models.transformer import Transformer
from regard.models.vision import VisionConfig, VisionTransformer
from regard.training.flops import count_forward
from regard.training.losses import Losses, balance_losses, balances, expert_accounts
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss
from regard.training.update import Update


def told_apart(model):
    """Gates that are not all alike."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("gate.weight"):
                weight.normal_()
    return model.double().eval()


def translator(**changes):
    torch.manual_seed(1)
    return told_apart(Transformer(tiny_config(**{"experts": 4, **changes})))


@pytest.mark.parametrize("changes", [{}, {"top_k": 4}, {"expert_layers": (2,)}], ids=str)
def test_a_translators_stepping_equals_forward(source, target, changes):
    model = translator(**changes)
    memory = model.encode(source)
    state, full = model.start(memory), model(source, target)
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], memory, state)
        torch.testing.assert_close(logits, full[:, t])
    assert quickened(model) is model


def test_padding_changes_no_real_position(source, target):
    model = translator()
    together = model(source, target)
    for row, length in enumerate((7, 4, 7)):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone)


def test_a_language_models_stepping_equals_forward():
    model = told_apart(language_model(experts=3, top_k=1))
    ids = torch.randint(1, 13, (3, 6))
    source = ids[:, :0]
    memory = model.encode(source)
    state, full = model.start(memory), model(ids)
    for t in range(6):
        logits, state = model.step(ids[:, t], memory, state)
        torch.testing.assert_close(logits, full[:, t])
    assert quickened(model) is model


def routed(model):
    """How many tokens each gate is asked about."""
    counts = []
    for module in model.modules():
        if isinstance(module, Experts):
            module.gate.register_forward_hook(lambda _m, x, _y: counts.append(len(x[0])))
    return counts


def test_padding_of_sources_and_targets_is_not_routed(source, target):
    target[2, 3:] = 0
    model = translator()
    counts = routed(model)
    model(source, target)
    assert counts == [18, 18, 15, 15]


def test_padding_of_an_encoder_is_not_routed(source):
    config = EncoderConfig(n_vocab=13, d_model=12, n_heads=3, d_ff=20, n_layers=2, experts=4)
    model = told_apart(Encoder(config))
    counts, states = routed(model), model(source)
    assert counts == [18, 18]
    torch.testing.assert_close(model(source[1:2, :4])[0], states[1, :4])


def test_patches_are_all_routed():
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2, "image_size": 16}
    model = VisionTransformer(VisionConfig(**sizes, patch_size=8, pooling="mean", experts=4)).eval()
    counts = routed(model)
    model(torch.rand(2, 3, 16, 16))
    assert counts == [2 * 4, 2 * 4]


def test_only_some_layers_have_experts():
    model = translator(expert_layers=(2,))
    for stack in (model.encoder, model.decoder):
        kinds = [type(layer.feed_forward) for layer in stack.layers]
        assert kinds == [FeedForward, Experts]


def test_a_token_costs_as_much_as_without_experts_but_for_its_gate():
    dense = Transformer(tiny_config())
    many = [Transformer(tiny_config(experts=n)) for n in (4, 8)]
    costs = [count_forward(model.eval(), 5, 7) for model in (dense, *many)]
    d, layers = dense.config.d_model, dense.config.n_layers
    gates = [2 * d * n * layers * (5 + 7) for n in (4, 8)]
    assert [costs[1] - costs[0], costs[2] - costs[0]] == gates


def test_gates_of_a_fresh_language_model_are_zeros_and_experts_are_not():
    settings = ModelSettings(preset="gpt", experts=3)
    model = build(resolve_for("it", DecoderConfig, settings, n_vocab=9))
    for layer in model.layers:
        gate, inner = layer.feed_forward.gate, layer.feed_forward.inner
        assert not gate.weight.any()
        assert not inner.bias.any()
        assert 0.01 < inner.weight.std() < 0.03


class _Batch:
    def __init__(self, source, target, count):
        self.source, self.target_in, self.target_out = source, target, target
        self.count, self.packed, self.n_source = count, False, 0

    def to(self, _device):
        return self


def trained(batches, **settings):
    torch.manual_seed(1)
    model = Transformer(tiny_config(experts=4, dropout=0.0)).train()
    chosen = TrainSettings(max_steps=1, lr=1e-3, precision="fp32", **settings)
    update = Update(model, TokenLoss(chosen), chosen, torch.device("cpu"))
    results = []
    torch.manual_seed(2)
    update(batches, 1e-3, results.append)
    return model, results[0]


def test_an_update_learns_by_the_named_losses(source, target):
    model, result = trained([_Batch(source, target, 18)])
    assert set(result.losses.sums) == {"cross_entropy", "importance", "load"}
    assert result.losses.counts["load"] == 18
    for name in ("importance", "load"):
        assert 0 < result.losses.sums[name] / 18 < 0.01 * 4 * 4
    for layer in model.decoder.layers:
        assert layer.feed_forward.gate.weight.any()
        assert layer.feed_forward.gate.noise.any()
    assert not any(one._forward_hooks for one in expert_accounts(model))


def test_a_balance_of_no_weight_is_no_loss(source, target):
    torch.manual_seed(1)
    model = Transformer(tiny_config(experts=4, balance=0.0)).train()
    with balances(expert_accounts(model)) as kept:
        model(source, target)
    found = balance_losses(kept, 18)
    assert [value.item() for value in found.sums.values()] == [0.0, 0.0]


def test_losses_are_the_mean_of_calls_summed_over_layers():
    one, other = torch.nn.Identity(), torch.nn.Identity()
    numbers = [torch.tensor(float(x)) for x in range(1, 7)]
    kept = {one: [Balance(*numbers[:2]), Balance(*numbers[2:4])], other: [Balance(*numbers[4:])]}
    found = balance_losses(kept, 10)
    assert found.sums["importance"].item() == 10 * ((1 + 3) / 2 + 5)
    assert found.sums["load"].item() == 10 * ((2 + 4) / 2 + 6)
    assert balance_losses({one: []}, 10) == Losses({}, {})


def test_a_model_without_experts_has_no_such_losses(source, target):
    model = system("transformer").train()
    with balances(expert_accounts(model)) as kept:
        model(source, target)
    assert balance_losses(kept, 18) == Losses({}, {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"experts": 4, "top_k": 5}, "top_k=5 of experts=4: a token cannot be sent to more"),
        ({"experts": 4, "top_k": 3}, "d_ff=512 does not divide among top_k=3 experts"),
        ({"experts": 4, "expert_layers": [3]}, r"expert_layers=\[3\] are beyond n_layers=2"),
        ({"top_k": 2}, "top_k would do nothing in this model"),
        ({"expert_layers": [1]}, "expert_layers would do nothing in this model"),
    ],
)
def test_what_experts_cannot_be_is_refused_in_a_line(changes, message):
    settings = ModelSettings(preset="transformer", **changes)
    with pytest.raises(ConfigError, match=message) as told:
        resolve(settings, n_source_vocab=9, n_target_vocab=9, shared_vocab=True)
    assert "\n" not in str(told.value)


def test_every_family_of_blocks_takes_them():
    for preset, config in (("gpt", DecoderConfig), ("bert", EncoderConfig)):
        settings = ModelSettings(preset=preset, experts=4, top_k=2)
        model = build(resolve_for("it", config, settings, n_vocab=9))
        assert sum(isinstance(one, Experts) for one in model.modules()) == len(model.layers)
    settings = ModelSettings(preset="bilstm", experts=4)
    with pytest.raises(ConfigError, match="experts would do nothing"):
        resolve_for("it", EncoderConfig, settings, n_vocab=9)


def test_experts_are_read_padded_and_never_packed():
    assert tiny_config().packs
    assert not tiny_config(experts=4).packs
    again = TransformerConfig.model_validate(tiny_config(experts=4).model_dump(mode="json"))
    assert again == tiny_config(experts=4)


def test_onnx_refuses_them(tmp_path):
    with pytest.raises(ConfigError, match="ONNX cannot express experts=4"):
        write_onnx(translator(), tmp_path)
    config = EncoderConfig(n_vocab=13, d_model=12, n_heads=3, d_ff=20, experts=2)
    with pytest.raises(ConfigError, match="ONNX cannot express experts=2"):
        write_onnx_encoder(Encoder(config), tmp_path)
