import json

import pytest
import torch
from tiny import tiny_config

from regard.checkpoints.run_folder import (
    FORMAT,
    RunFolder,
    fill,
    load_model,
    model_tensors,
    save_model,
)
from regard.core.errors import CheckpointError
from regard.models.transformer import Transformer


def saved(path, **changes):
    model = Transformer(tiny_config(**changes)).eval()
    folder = RunFolder(path)
    save_model(folder, model.config, dict(model.named_parameters()))
    return folder, model


def test_save_and_load_give_the_same_logits(tmp_path, source, target):
    folder, model = saved(tmp_path)
    fresh = Transformer(model.config).eval()
    assert not torch.equal(fresh(source, target), model(source, target))
    assert torch.equal(load_model(folder).eval()(source, target), model(source, target))


def test_weights_of_another_shape_are_refused_with_both_shapes(tmp_path):
    _, model = saved(tmp_path)
    other = Transformer(tiny_config(d_ff=21))
    with pytest.raises(CheckpointError, match=r"inner.weight is \(20, 12\).*wants \(21, 12\)"):
        fill(other, dict(model.named_parameters()), "file")


def test_missing_and_unknown_tensors_are_named(tmp_path):
    _, model = saved(tmp_path)
    weights = dict(model.named_parameters())
    weights["strange"] = weights.pop("encoder.layers.0.around_self.norm.bias")
    with pytest.raises(CheckpointError, match=r"missing encoder\.layers\.0.*unknown strange"):
        fill(model, weights, "file")


def test_a_truncated_file_is_damaged(tmp_path):
    folder, _ = saved(tmp_path)
    folder.weights.write_bytes(folder.weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        load_model(folder)


def test_missing_parts_are_named(tmp_path):
    folder, _ = saved(tmp_path)
    folder.weights.unlink()
    with pytest.raises(CheckpointError, match="has no weights yet.*--resume"):
        load_model(folder)
    folder.scores.write_text("{}")
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors"):
        load_model(folder)
    folder.model_config.write_text('{"family": "transfrmer"}')
    with pytest.raises(CheckpointError, match="did you mean 'transformer'"):
        load_model(folder)
    folder.model_config.unlink()
    with pytest.raises(CheckpointError, match=r"not a run folder: it has no config\.json"):
        load_model(folder)
    with pytest.raises(CheckpointError, match="there is no run folder"):
        load_model(RunFolder(tmp_path / "nowhere"))


def test_weights_are_never_pickled(tmp_path):
    folder, _ = saved(tmp_path)
    assert folder.weights.read_bytes()[8:9] == b"{"  # safetensors: a length, then JSON


def test_the_format_is_written_down_and_an_older_one_is_read(tmp_path, source, target):
    folder, model = saved(tmp_path)
    facts = json.loads(folder.model_config.read_text())
    assert facts.pop("format") == FORMAT
    folder.model_config.write_text(json.dumps(facts))  # as 0.1.0 wrote it
    assert torch.equal(load_model(folder).eval()(source, target), model(source, target))


@pytest.mark.parametrize("found", [FORMAT + 1, "new"])
def test_a_newer_format_is_refused_in_one_line(tmp_path, found):
    folder, _ = saved(tmp_path)
    facts = json.loads(folder.model_config.read_text())
    folder.model_config.write_text(json.dumps({**facts, "format": found}))
    with pytest.raises(CheckpointError, match=rf"config\.json has format {found}, .*update regard"):
        load_model(folder)


def test_buffers_are_filled_unless_they_are_computed_anew():
    def counting():
        model = torch.nn.BatchNorm1d(3)
        model.register_buffer("table", torch.ones(2), persistent=False)
        return model

    model, other = counting(), counting()
    model(torch.randn(5, 3))
    tensors = model_tensors(model)
    assert {*tensors} == {*model.state_dict()}
    fill(other, tensors, "file")
    assert torch.equal(other.running_mean, model.running_mean)
    assert other.num_batches_tracked == 1
    del tensors["running_var"]
    with pytest.raises(CheckpointError, match="missing running_var"):
        fill(other, tensors, "file")
