import pytest
import torch
from torch.nn.attention import SDPBackend

from regard.bench import attention
from regard.bench.attention import Inputs, attention_bench, why_table
from regard.bench.contest import BenchRequest
from regard.kernels.table import TABLE

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def test_torch_s_kernels_do_the_work_that_we_do():
    q, k, v, _ = Inputs(2, 3, 40, 8, torch.float32, CPU).tensors()
    ours = attention._ours(q, k, v)
    theirs = attention._forced(SDPBackend.MATH, q, k, v)
    torch.testing.assert_close(ours, theirs)


def test_flops_of_two_positions_by_hand():
    """Pairs seen, with half of the diagonal: 2. A pair costs 2·D a product; two products."""
    inputs = Inputs(1, 1, 2, 3, torch.float32, CPU)
    assert inputs.flops(backward=False) == 2 * (2 * 3) * 2
    assert inputs.flops(backward=True) == 7 * (2 * 3) * 2


def test_each_contender_at_each_length_and_we_say_which_kernel(monkeypatch):
    monkeypatch.setitem(attention.USUAL, "cpu", (16, 64))
    monkeypatch.setattr("regard.bench.measures.WIDTH", {"cpu": 32})
    monkeypatch.setattr("regard.bench.contest.LEAST_SECONDS", 0.001)
    asked = BenchRequest(device="cpu", rounds=1, precision="fp32", only=("regard", "torch SDPA"))
    bench = attention_bench(asked, size="tiny")
    labels = [row.label for row in bench.rows if row.what == "causal attention, forward, 64"]
    assert labels == ["regard (sdpa)", "torch SDPA (flash)", "torch SDPA (math)"]
    assert {row.what for row in bench.rows} == {
        f"causal attention, {kind}, {n}"
        for kind in ("forward", "forward+backward")
        for n in (16, 64)
    }
    assert all(row.value and row.share for row in bench.rows)


def test_gradients_are_there_and_do_not_pile_up():
    seen = []

    def attend(q, k, v):
        seen.append((q, q.grad))
        return attention._ours(q, k, v)

    work = attention._start(attend, Inputs(1, 1, 4, 2, torch.float32, CPU), True)
    work.run(), work.run()
    assert [grad for _, grad in seen] == [None, None]
    assert seen[0][0].requires_grad


def test_the_table_of_kernels_is_the_one_that_chooses():
    assert [row["kernel"] for row in why_table()] == [row.name for row in TABLE]
    assert all(row["when"] and row["why"] for row in why_table())


@pytest.mark.parametrize("name", ["int8", "fp8"])
def test_a_precision_that_is_none_is_told(name):
    with pytest.raises(Exception, match=name):
        attention_bench(BenchRequest(device="cpu", precision=name))
