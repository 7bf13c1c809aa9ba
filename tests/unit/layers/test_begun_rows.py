"""Embeddings that begin as given vectors."""

import pytest
import torch
from systems import SYSTEMS, has_blocks, system
from torch import nn

from regard.layers.embeddings import begin_rows, token_tables


def test_rows_point_where_their_vectors_do_and_are_as_long_as_the_draw():
    table = nn.Embedding(7, 3)
    before = table.weight.detach().clone()
    rows, vectors = torch.tensor([5, 2]), torch.tensor([[3.0, 0.0, 4.0], [0.0, 10.0, 0.0]])
    begin_rows(table, rows, vectors)
    after = table.weight.detach()
    assert torch.equal(after[[0, 1, 3, 4, 6]], before[[0, 1, 3, 4, 6]])
    length = before[rows].square().sum() / 125  # 25 + 100
    torch.testing.assert_close(after[rows], vectors * length.sqrt())
    assert table.weight.requires_grad


@pytest.mark.parametrize("beside", [[], [[3.0, 0.0, 4.0]]])
def test_rows_whose_vectors_are_zeros_stay_as_drawn(beside):
    table = nn.Embedding(4, 3)
    before = table.weight.detach().clone()
    rows = torch.arange(1, 2 + len(beside))
    begin_rows(table, rows, torch.tensor([[0.0, 0.0, 0.0], *beside]))
    assert torch.equal(table.weight[1], before[1])
    assert torch.isfinite(table.weight).all()


@pytest.mark.parametrize(("preset", "changes"), SYSTEMS)
def test_every_system_calls_its_tables_of_tokens_alike(preset, changes):
    model = system(preset, **changes)
    tables = {id(table): name for name, table in token_tables(model).items()}
    rows = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    assert {*tables} == {id(module) for module in rows if module.num_embeddings == 13}
    assert all(name.startswith(("encoder.", "decoder.")) for name in tables.values())
    assert len(tables) == (1 if has_blocks(preset) else 2)
