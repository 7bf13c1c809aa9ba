"""Which batches a translator learns from on a GPU: packed, of few shapes, or as they come."""

import pytest
import torch

from regard.recipes.recipe import load_recipe
from regard.runs.prepare import prepare

GPU = torch.device("cuda")
CPU = torch.device("cpu")
SMALL = ("n_train=50", "d_model=64", "max_steps=2000")


@pytest.fixture
def batches(monkeypatch):
    monkeypatch.setattr("regard.kernels.table.HAS_TRITON", True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda: True)

    def of(name, *settings):
        prepared = prepare(load_recipe(name, [*SMALL, *settings]), CPU)
        object.__setattr__(prepared, "device", GPU)
        assert not (prepared.same_shapes and prepared.few_shapes)
        if prepared.same_shapes:
            return "packed"
        return "of few shapes" if prepared.few_shapes else "as they come"

    return of


def test_texts_are_packed_where_model_width_and_precision_have_a_kernel(batches):
    assert batches("transformer") == "packed"
    assert batches("transformer", "score=additive") == "as they come"
    assert batches("convs2s2017") == "packed"
    assert batches("convs2s2017", "train.precision=fp32") == "packed"  # 64 is a width of ours
    assert batches("convs2s2017", "d_embedding=256") == "packed"
    assert batches("convs2s2017", "d_embedding=256", "train.precision=fp32") == "of few shapes"
    assert batches("convs2s2017", "d_embedding=512") == "of few shapes"
    assert batches("convs2s2017", "score=additive") == "of few shapes"
    assert batches("bahdanau2015") == "of few shapes"
    assert batches("bytenet2016") == "packed"  # which has no attention
    assert batches("bytenet2016", "train.precision=fp32", "d_model=512") == "packed"


@pytest.mark.parametrize(
    ("name", "steps", "compiled", "recorded"),
    [
        ("transformer", 999, False, False),
        ("transformer", 1000, True, True),
        ("convs2s2017", 999, False, True),  # many small kernels
        ("convs2s2017", 1000, True, True),
        ("bytenet2016", 4999, False, True),  # which takes a minute to compile
        ("bytenet2016", 5000, True, True),
    ],
)
def test_a_short_training_is_not_compiled(batches, name, steps, compiled, recorded):
    prepared = prepare(load_recipe(name, [*SMALL, f"max_steps={steps}"]), CPU)
    object.__setattr__(prepared, "device", GPU)
    assert prepared.same_shapes
    assert (prepared.compiled, prepared.captured) == (compiled, recorded)
