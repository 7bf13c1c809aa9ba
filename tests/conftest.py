"""Fixtures that many tests share. Sizes are small and all different; mathematics is float64."""

import pytest
import torch

from regard.models.transformer import Transformer, TransformerConfig

torch.set_num_threads(1)


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def tiny_config(**changes):
    sizes = {"n_source_vocab": 13, "n_target_vocab": 13, "d_model": 12, "n_heads": 3, "d_ff": 20}
    return TransformerConfig(**{**sizes, "n_layers": 2, "max_len": 24, "dropout": 0.0, **changes})


@pytest.fixture
def make_model():
    """A two-layer double-precision Transformer, with changes."""

    def make(**changes):
        torch.manual_seed(1)
        return Transformer(tiny_config(**changes)).double().eval()

    return make


@pytest.fixture
def model(make_model):
    return make_model()


@pytest.fixture
def source(rng):
    """(3, 7) ids, the second row three shorter."""
    ids = torch.randint(4, 13, (3, 7), generator=rng)
    ids[1, 4:] = 0
    return ids


@pytest.fixture
def target(rng):
    return torch.randint(4, 13, (3, 6), generator=rng)
