"""Recurrent systems whose output is the target's embedding: laws of all, whatever their widths."""

import pytest
import torch
from safetensors.torch import load_file

from regard.checkpoints.run_folder import RunFolder, load_model, model_tensors, save_model
from regard.models.presets import ModelSettings, build, resolve
from regard.training.flops import count_forward, flop_formula

V = 14
SYSTEMS = [
    ("luong2015", {}),
    ("cs224n2019", {}),  # words are read off two states side by side
    ("sutskever2014", {}),
    ("graves2014", {}),
    ("bahdanau2015", {}),
    ("gnmt2016", {}),
    ("deep-att2016", {}),  # a word is half as wide as a state
    ("cheng2016", {"fusion": "deep"}),
    ("cheng2016", {"fusion": "shallow"}),
]
every_system = pytest.mark.parametrize(("name", "changes"), SYSTEMS, ids=str)


def made(name, changes, **more):
    wanted = {"d_model": 6, "max_len": 20, "tied_output": True, **changes, **more}
    settings = ModelSettings(preset=name, **wanted)
    torch.manual_seed(1)
    return build(resolve(settings, n_source_vocab=V, n_target_vocab=V, shared_vocab=True)).eval()


@every_system
def test_words_are_read_off_by_the_matrix_that_reads_them(source, target, name, changes):
    model = made(name, changes)
    assert model.output().weight is model.decoder.tokens.weight
    before = model(source, target)
    with torch.no_grad():
        model.decoder.tokens.weight[13] += 1.0  # a word that no text has
    after = model(source, target)
    torch.testing.assert_close(after[..., :13], before[..., :13])
    assert not torch.isclose(after[..., 13], before[..., 13]).any()


@every_system
def test_stepping_equals_forward(source, target, name, changes):
    model = made(name, changes).double()
    memory = model.encode(source)
    state, full = model.start(memory), model(source, target)
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], memory, state)
        torch.testing.assert_close(logits, full[:, t])


@every_system
def test_the_table_is_saved_once_and_tied_again_when_it_is_read(
    tmp_path, source, target, name, changes
):
    model, folder = made(name, changes), RunFolder(tmp_path)
    save_model(folder, model.config, model_tensors(model))
    assert "decoder.to_logits.weight" not in load_file(folder.weights)
    again = load_model(folder).eval()
    assert again.output().weight is again.decoder.tokens.weight
    assert torch.equal(again(source, target), model(source, target))


@every_system
def test_flops_are_those_that_torch_counts(name, changes):
    model = made(name, changes)
    assert flop_formula(model).forward(7, 5) == count_forward(model, 7, 5)


@every_system
def test_a_fresh_word_is_as_long_as_one_that_is_not_tied(name, changes):
    words = [made(name, changes, tied_output=tied, d_model=64).decoder.tokens for tied in (1, 0)]
    tied, alone = (table(torch.arange(V)).std() for table in words)
    assert 0.8 < tied / alone < 1.25
