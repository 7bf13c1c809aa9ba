import pytest
import torch
from torch import nn

from regard.fast.weights import Dense, can_pack, pack_linears

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.1, torch.float64: 1e-12}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n_rows", [1, 3, 70])
@pytest.mark.parametrize("with_bias", [True, False])
def test_it_computes_what_a_linear_layer_does(rng, dtype, n_rows, with_bias):
    weight = torch.randn(24, 16, generator=rng).to(dtype)
    bias = torch.randn(24, generator=rng).to(dtype) if with_bias else None
    x = torch.randn(n_rows, 16, generator=rng).to(dtype)
    added = torch.randn(n_rows, 24, generator=rng).to(dtype)
    wide = [None if part is None else part.double() for part in (x, weight, bias)]
    wanted = torch.nn.functional.linear(*wide)
    how = {"atol": TOLERANCE[dtype], "rtol": 0.0}
    with torch.inference_mode():
        packed = Dense(weight, bias).packed()
        torch.testing.assert_close(packed(x).double(), wanted, **how)
        torch.testing.assert_close(packed(x, then="relu").double(), wanted.relu(), **how)
        torch.testing.assert_close(packed.plus(x, added).double(), wanted + added.double(), **how)


def test_what_no_kernel_takes_stays_as_it_is():
    weight = torch.randn(4, 3, dtype=torch.float64)
    assert not can_pack(weight)
    assert Dense(weight, None).packed().weight is weight


@torch.inference_mode()
def test_a_module_is_prepacked_in_all_its_parts(rng):
    module = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 4, bias=False)))
    x = torch.randn(2, 3, 6, generator=rng)
    wanted = module(x)
    packed = pack_linears(module)
    assert not any(isinstance(part, nn.Linear) for part in packed.modules())
    torch.testing.assert_close(packed(x), wanted)
