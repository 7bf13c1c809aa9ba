"""Teacher forcing, scheduled sampling and free running are one function."""

import pytest
import torch
from tiny import tiny_config

from regard.models.presets import ModelSettings, build, resolve
from regard.models.transformer import Transformer
from regard.training.losses import free_running_logits
from regard.training.schedules import ForcingSchedule, forced_share

SYSTEMS = ("transformer", "bahdanau2015", "luong2015", "cheng2016", "dmca2018")


@pytest.fixture
def model(request):
    torch.manual_seed(0)
    if request.param == "transformer":
        return Transformer(tiny_config()).double()
    heads = {"n_heads": 2, "dropout": 0} if request.param == "dmca2018" else {}
    settings = ModelSettings(preset=request.param, d_model=6, **heads)
    sizes = {"n_source_vocab": 13, "n_target_vocab": 13, "shared_vocab": True}
    return build(resolve(settings, **sizes)).double()


SOURCE = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]])
TARGET = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 9, 10, 0]])


@pytest.mark.parametrize("model", SYSTEMS, indirect=True)
def test_shown_only_right_words_it_is_the_plain_forward(model):
    torch.testing.assert_close(
        free_running_logits(model, SOURCE, TARGET, 1.0), model(SOURCE, TARGET)
    )


@pytest.mark.parametrize("model", SYSTEMS, indirect=True)
def test_running_free_it_reads_its_own_words(model):
    logits = free_running_logits(model, SOURCE, TARGET, 0.0)
    own = torch.cat((TARGET[:, :1], logits.argmax(dim=-1)[:, :-1]), dim=1)
    assert not torch.equal(own, TARGET)
    torch.testing.assert_close(model(SOURCE, own), logits)
    other = TARGET.clone()
    other[:, 1:] = 3
    assert torch.equal(free_running_logits(model, SOURCE, other, 0.0), logits)
    logits.sum().backward()  # it can be learned through
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_in_between_some_words_are_right():
    """Of 400 alike rows a quarter go on as if forced; the others read a word of their own."""
    torch.manual_seed(0)
    model = Transformer(tiny_config())
    logits = free_running_logits(
        model, SOURCE[:1].expand(400, -1), TARGET[:1].expand(400, -1), 0.25
    )
    forced = torch.isclose(logits[:, 1], model(SOURCE[:1], TARGET[:1])[0, 1], atol=1e-5)
    assert 0.18 < forced.all(dim=-1).double().mean() < 0.32


@pytest.mark.parametrize(("step", "share"), [(0, 0.9), (5, 0.65), (10, 0.4), (99, 0.4)])
def test_a_schedule_falls_evenly_and_then_stays(step, share):
    schedule = ForcingSchedule(start=0.9, end=0.4, steps=10)
    assert forced_share(schedule, step) == pytest.approx(share)
    assert forced_share(0.3, step) == 0.3
