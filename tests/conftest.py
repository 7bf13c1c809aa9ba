"""Fixtures that many tests share. Sizes are small and all different; mathematics is float64."""

import os
import tempfile
from pathlib import Path

# Tests run side by side, some as processes of their own: more threads would only wait.
os.environ["OMP_NUM_THREADS"] = "1"
# Without a GPU our Triton kernels are run by Triton's interpreter, which must be told beforehand.
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"
# What is noted about runs of these tests is nobody's but theirs.
_state = tempfile.TemporaryDirectory()
os.environ["XDG_STATE_HOME"] = _state.name

import programs
import pytest
import torch
from letters import pairs, write_pairs
from tiny import tiny_config

from regard.models.transformer import Transformer
from regard.runs.train import train
from regard.tasks.recipe import recipe_from


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


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


@pytest.fixture
def started():
    """Start Python with words in a process of its own, which ends with the test at the latest."""
    running = []

    def begin(*words, **how):
        running.append(programs.start(*words, **how))
        return running[-1]

    yield begin
    for program in running:
        programs.end(program)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return {
        "train": write_pairs(folder, "train", pairs(1500, 1)),
        "valid": write_pairs(folder, "valid", pairs(40, 2)),
        "test": write_pairs(folder, "test", pairs(40, 3)),
    }


@pytest.fixture(scope="session")
def settings(corpus):
    return {
        "data": {**corpus, "direction": "ab-ba"},
        "text": {"kind": "word"},
        "model": {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 1, "dropout": 0.0},
        "train": {
            "max_steps": 30,
            "batch_tokens": 200,
            "lr": 5e-3,
            "warmup_steps": 10,
            "save_every": 10,
            "eval_every": 15,
            "log_every": 5,
        },
        "decode": {"max_len": 12},
    }


@pytest.fixture(scope="session")
def run_path(settings, tmp_path_factory):
    """A run of thirty steps: good for nothing, but whole."""
    out = tmp_path_factory.mktemp("runs") / "short"
    train(recipe_from(settings), out)
    return out
