import torch
from torch import nn

from regard.training.update import RunningAverage


def test_the_average_is_the_recursion_by_hand():
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    average = RunningAverage(model, decay=0.5)
    wanted = 1.0
    for n, weight in enumerate([2.0, 5.0, -1.0, 4.0, 0.0, 3.0, 1.0, 1.0, 9.0, 2.0], start=1):
        model.weight.data.fill_(weight)
        average.update(model)
        decay = min(0.5, (1 + n) / (10 + n))
        wanted = decay * wanted + (1 - decay) * weight
    torch.testing.assert_close(average.weights["weight"].item(), wanted)


def test_it_stands_in_for_the_model_and_steps_back_even_after_an_error():
    model = nn.Linear(2, 2)
    average = RunningAverage(model, decay=0.9)
    mine = model.weight.detach().clone()
    model.weight.data.add_(1.0)
    moved = model.weight.detach().clone()
    try:
        with average.in_place_of(model):
            assert torch.equal(model.weight, mine)
            raise KeyError
    except KeyError:
        assert torch.equal(model.weight, moved)
