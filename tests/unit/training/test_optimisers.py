"""Frozen parts, and layers that learn the slower the lower they are."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig, TransformerConfig
from regard.models.transformer import Transformer
from regard.training.losses import Losses, Objective
from regard.training.optimisers import OPTIMISERS, parameter_groups
from regard.training.settings import TrainSettings
from regard.training.update import Update

SIZES = {"n_vocab": 11, "d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 12, "max_len": 8}


class Batch:
    """Three texts."""

    numbers = (0, 1, 2)
    count = 3
    ids = torch.tensor([[1, 5, 2], [1, 6, 2], [1, 7, 2]])

    def to(self, device):
        return self


class LabelsOfThree(Objective):
    def __call__(self, model, batch):
        labels = torch.tensor([0, 1, 0])
        loss = torch.nn.functional.cross_entropy(model(batch.ids), labels, reduction="sum")
        return Losses.of("cross_entropy", loss, 3)


def made(cell=None, **changes):
    torch.manual_seed(0)
    model = Encoder(EncoderConfig(**SIZES, head="classify", n_labels=2, dropout=0.0, cell=cell))

    settings = TrainSettings(max_steps=1, precision="fp32", **changes)
    return Update(model.train(), LabelsOfThree(), settings, torch.device("cpu"))


def moved(one, lr=0.01):
    """The largest step of each part: Adam's first is lr wherever there is a gradient."""
    before = {name: p.detach().clone() for name, p in one.model.named_parameters()}
    one([Batch()], lr)
    parts = {}
    for name, p in one.model.named_parameters():
        part = ".".join(name.split(".")[: 2 if name.startswith("layers") else 1])
        step = (p.detach() - before[name]).abs().max().item()
        parts[part] = max(parts.get(part, 0.0), step)
    return parts


def test_by_default_all_learn_alike_in_one_group():
    one = made()
    (optimiser,) = one.optimisers
    (group,) = optimiser.param_groups
    assert len(group["params"]) == len(list(one.model.parameters()))
    assert moved(one) == pytest.approx(
        {"embedding": 0.01, "layers.0": 0.01, "layers.1": 0.01, "head": 0.01}, rel=1e-3
    )


def test_what_is_frozen_stays_and_the_rest_learns():
    parts = moved(made(freeze=["embedding.*", "layers.0.*"]))
    assert parts["embedding"] == parts["layers.0"] == 0
    assert parts["layers.1"] == pytest.approx(0.01, rel=1e-3)
    assert parts["head"] == pytest.approx(0.01, rel=1e-3)


def test_a_pattern_may_name_one_kind_of_weight_in_all_layers():
    one = made(freeze=["layers.*.feed_forward.*"])
    frozen = [name for name, p in one.model.named_parameters() if not p.requires_grad]
    assert frozen
    assert all(".feed_forward." in name for name in frozen)


@pytest.mark.parametrize("cell", [None, "lstm"])
def test_each_layer_learns_slower_than_the_one_above_it(cell):
    parts = moved(made(cell, layer_decay=0.5))
    assert parts == pytest.approx(
        {"head": 0.01, "layers.1": 0.005, "layers.0": 0.0025, "embedding": 0.00125}, rel=1e-3
    )


def test_muon_turns_hidden_matrices_and_leaves_the_rest_to_adamw():
    one = made(optimiser="muon", weight_decay=0.1)
    muon, adamw = one.optimisers
    names = {id(p): name for name, p in one.model.named_parameters()}
    turned = {names[id(p)] for group in muon.param_groups for p in group["params"]}
    others = {names[id(p)] for group in adamw.param_groups for p in group["params"]}
    assert turned | others == {*names.values()}
    assert not turned & others
    assert "layers.0.self_attention.to_q.weight" in turned
    assert "layers.1.feed_forward.outer.weight" in turned
    assert {
        "embedding.tokens.weight",
        "head.to_labels.weight",
        "layers.0.self_attention.to_q.bias",
    } <= others
    assert set(moved(one)) == {"embedding", "layers.0", "layers.1", "head"}


def test_muon_needs_a_hidden_matrix():
    with pytest.raises(ConfigError, match="no matrix between layers; choose adamw"):
        made(optimiser="muon", freeze=["layers.*"])


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_every_optimiser_lowers_the_loss(optimiser):
    one, told = made(optimiser=optimiser), []
    for _ in range(20):
        one([Batch()], 0.5 if optimiser == "sgd" else 0.01, told.append)
    assert told[-1].losses.total < 0.8 * told[0].losses.total


def test_options_reach_the_optimiser():
    one = made(optimiser="sgd", optimiser_options={"momentum": 0.5})
    assert one.optimisers[0].param_groups[0]["momentum"] == 0.5


def test_a_pattern_that_names_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"'encoder\.\*' is the name of no weight; the parts are"):
        made(freeze=["encoder.*"])


def test_something_must_learn():
    with pytest.raises(ConfigError, match="leaves nothing that learns"):
        made(freeze=["*"])


@pytest.mark.parametrize("decay", [0, 1.5, -1])
def test_a_decay_is_a_share(decay):
    with pytest.raises(ValueError, match="layer_decay"):
        TrainSettings(max_steps=1, layer_decay=decay)


def test_weights_decay_by_a_share_of_the_learning_rate_and_biases_do_not():
    plain, decaying = made(), made(weight_decay=0.5)
    before = {name: p.detach().clone() for name, p in plain.model.named_parameters()}
    for one in (plain, decaying):
        one([Batch()], 0.01)
    after = dict(decaying.model.named_parameters())
    for name, p in plain.model.named_parameters():
        lost = 0.01 * 0.5 * before[name] if p.dim() > 1 else torch.zeros_like(p)
        torch.testing.assert_close(p - after[name], lost, rtol=1e-3, atol=1e-7)


def test_decay_and_slower_layers_go_together():
    one = made(weight_decay=0.5, layer_decay=0.5)
    found = {(group["scale"], group["weight_decay"]) for group in one.optimisers[0].param_groups}
    assert found == {(0.5**below, decay) for below in range(4) for decay in (0.0, 0.5)}


def test_encoder_and_decoder_are_two_stacks_each_on_its_own_embedding():
    sizes = {"d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 12}
    config = TransformerConfig(n_source_vocab=9, n_target_vocab=9, shared_vocab=False, **sizes)
    model = Transformer(config)
    scales = {
        id(p): group["scale"]
        for group in parameter_groups(model, layer_decay=0.5, weight_decay=0.0)
        for p in group["params"]
    }
    found = {}
    for name, p in model.named_parameters():
        stack, part, number, *_ = name.split(".")
        found.setdefault(f"{stack}.{part}.{number}", set()).add(scales[id(p)])
    for stack in ("encoder", "decoder"):
        assert found[f"{stack}.layers.1"] == {0.5}
        assert found[f"{stack}.layers.0"] == {0.25}
        assert found[f"{stack}.embedding.tokens"] == {0.125}


def test_a_stack_of_fewer_layers_is_counted_from_its_own_top():
    model = torch.nn.ModuleDict(
        {
            name: torch.nn.ModuleDict(
                {"layers": torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(n))}
            )
            for name, n in (("encoder", 1), ("decoder", 3))
        }
    )
    groups = parameter_groups(model, layer_decay=0.5, weight_decay=0.0)
    scales = {id(p): group["scale"] for group in groups for p in group["params"]}
    assert scales[id(model["encoder"]["layers"][0].weight)] == 0.5
    assert [scales[id(layer.weight)] for layer in model["decoder"]["layers"]] == [0.125, 0.25, 0.5]
