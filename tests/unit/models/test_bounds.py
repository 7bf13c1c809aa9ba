"""Sizes that nobody has the memory for, refused before it is taken."""

import resource

import pytest
from systems import SYSTEMS, system
from tiny import tiny_config

from regard.checkpoints.run_folder import RunFolder, load_model, model_tensors, save_model
from regard.core.errors import CheckpointError, ConfigError
from regard.models import bounds
from regard.models.bounds import MOST_TABLES, build_within, skeleton, table_bytes
from regard.models.presets import n_parameters
from regard.models.transformer import Transformer

HUGE = [
    {"n_layers": 50_000},
    {"n_layers": 10**12},
    {"d_model": 2**20 * 12, "n_heads": 1},
    {"d_ff": 2**30},
    {"d_ff": 10**18},
    {"max_len": 10**10},
    {"max_len": 10**7},
    {"n_source_vocab": 10**9, "n_target_vocab": 10**9},
]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("sizes", HUGE)
def test_weights_that_are_small_never_become_a_large_model(tmp_path, sizes):
    model = Transformer(tiny_config())
    folder = RunFolder(tmp_path)
    save_model(folder, model.config.model_copy(update=sizes), model_tensors(model))
    before = peak()
    with pytest.raises(CheckpointError, match=r"does not belong to the model that config\.json"):
        load_model(folder)
    assert peak() - before < 6 * MOST_TABLES


@pytest.mark.parametrize(("preset", "changes"), SYSTEMS)
def test_every_system_fits_into_its_own_weights(preset, changes):
    model = system(preset, **changes)
    tensors = model_tensors(model)
    again = build_within(
        model.config,
        most_tensors=2 * len(tensors) + 64,
        most_numbers=2 * sum(one.numel() for one in tensors.values()),
    )
    assert n_parameters(again) == n_parameters(model)


def test_a_skeleton_tells_all_sizes_and_has_no_numbers():
    model = skeleton(tiny_config(d_ff=10**9))
    assert n_parameters(model) > 10**9
    assert all(one.is_meta for one in model.parameters())
    assert table_bytes(model) > 0


@pytest.mark.parametrize("sizes", [{"n_layers": 10**9}, {"d_ff": 10**18}, {"d_ff": 2**62}])
def test_a_skeleton_that_cannot_be_is_refused(monkeypatch, sizes):
    monkeypatch.setattr(bounds, "MOST_TENSORS", 300)
    with pytest.raises(ConfigError, match="tensors|no machine"):
        skeleton(tiny_config().model_copy(update=sizes))
