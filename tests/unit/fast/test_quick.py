"""A fast form is kept until its model changes, and debugging can do without it."""

import copy

import pytest
import torch
from language_models import language_model
from tiny import tiny_config
from torch import nn

from regard.fast.quick import FORMS, PLAIN, Watch, quickened
from regard.models.transformer import Transformer


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 1)))


def replace_module(model):
    model[1][1] = copy.deepcopy(model[1][1])


def replace_weight(model):
    model[0].weight = nn.Parameter(model[0].weight.detach().clone())


def add_module(model):
    model[1].append(nn.ReLU())


def remove_module(model):
    del model[1][0]


@pytest.mark.parametrize("change", [replace_module, replace_weight, add_module, remove_module])
def test_it_sees_parts_change(model, change):
    watch = Watch(model)
    assert watch.holds()
    change(model)
    assert not watch.holds()
    assert Watch(model).holds()


def change_in_place(model):
    with torch.no_grad():
        model[1][0].bias.add_(1)


def move(model):
    model[0].weight.data = model[0].weight.data.clone()


@pytest.mark.parametrize("change", [change_in_place, move])
def test_it_sees_weights_change(model, change):
    watch = Watch(model)
    before = watch.stamp()
    assert watch.stamp() == before
    change(model)
    assert watch.stamp() != before
    assert watch.holds()


def test_weights_made_in_inference_mode_are_never_trusted():
    with torch.inference_mode():
        watch = Watch(nn.Linear(2, 2))
    assert watch.stamp() != watch.stamp()


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_hook_anywhere_is_somebody_watching(model, kind):
    watch = Watch(model)
    handle = getattr(model[1][1], kind)(lambda *_: None)
    assert watch.stamp() is None
    handle.remove()
    assert watch.stamp() is not None


def translator():
    return Transformer(tiny_config()).eval()


@pytest.mark.parametrize("make", [translator, language_model])
@pytest.mark.parametrize(("value", "plain"), [("1", True), ("0", False), ("", False)])
def test_the_environment_asks_for_plain_layers(monkeypatch, make, value, plain):
    model = make()
    monkeypatch.setenv(PLAIN, value)
    assert (quickened(model) is model) == plain
    monkeypatch.delenv(PLAIN)
    assert quickened(model) is not model
    assert quickened(model, fast=False) is model


def test_a_model_that_has_no_entry_decodes_itself(model):
    assert quickened(model.eval()) is model


def test_somebody_elses_model_may_enter_its_form(model, monkeypatch):
    class Form:
        def __init__(self, model, dtype):
            self.model, self.device = model, model[0].weight.device

    monkeypatch.setitem(FORMS, nn.Sequential, lambda model, weight: Form)
    form = quickened(model.eval())
    assert form.model is model
    assert quickened(model) is form
    assert quickened(copy.deepcopy(model)) is not form
