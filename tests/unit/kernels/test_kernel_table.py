"""Every row of the table of kernels against the readable one: values and gradients."""

import itertools

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.functional.attend import attend
from regard.functional.masks import Block, Near, Slots
from regard.functional.positions import Alibi
from regard.functional.scores import SCORES, Factors, NamedScore
from regard.kernels import blocks, flex, sdpa
from regard.kernels.call import Call
from regard.kernels.table import TABLE, choose

ROWS = {row.name: row for row in TABLE}
NEEDS_GPU = {"short texts", "long texts", "flex", "sdpa, long"}
"""Rows that no CPU can run: Triton, variable lengths, flex's backward, cuDNN."""
UNMASKED = {"blocks as texts", "slots in turns"}
"""Rows for one window alone, from the beginning of a text and without a mask."""
ON_CPU = [name for name in ROWS if name not in NEEDS_GPU | UNMASKED]
SIZES = [(1, 1), (7, 7), (5, 9), (9, 5), (130, 130), (131, 150)]
"""(T, S)"""
WINDOWS = [
    None,
    Near(2),
    Near(3, first=0),
    Near(2, first=4),
    Block(3),
    Block(4, first=0),
    Block(5, first=7),
    Slots(3),
    Slots(2, first=5),
]
TRIED = 12
"""Ways to mask and bias that are tried of each row, score and size; the windows times the rest."""
MASKS = ["nothing", "padding", "keys", "pairs"]
BIASES = [None, "slopes", "numbers"]


@pytest.fixture
def small(monkeypatch):
    """Chunks and blocks so small that every size has several."""
    a_third = lambda call: 1 + call.n_queries * sdpa.a_query(call) // 3  # noqa: E731
    monkeypatch.setattr(sdpa, "room", a_third)
    monkeypatch.setattr(blocks, "STEP", 4)


def bound_score(name):
    score = regard.Score(name, d_query=4, d_key=4, d_hidden=3, n_heads=3, max_len=6).double()
    return score.requires_grad_(False)


def mask_of(kind, rng, T, S):
    """Some rows of each kind but the first see nothing."""
    if kind == "nothing":
        return None
    if kind == "padding":
        lengths = torch.tensor([S, 0])
        return (torch.arange(S) < lengths[:, None])[:, None, None]
    shape = (S,) if kind == "keys" else (2, 3, T, S)
    return torch.rand(shape, generator=rng) < 0.5


def bias_of(kind, rng, T, S):
    if kind == "slopes":
        return Alibi(torch.tensor([0.5, 0.1, 0.02], dtype=torch.float64), first=3)
    shape = (3, T, S)
    return torch.randn(shape, generator=rng, dtype=torch.float64) if kind == "numbers" else None


def asked(score, rng, T, S, mask, causal, near, bias):
    """A call, its leaves, and what the readable kernel makes of the same."""
    leaves = [
        torch.randn(2, 3, n, d, generator=rng, dtype=torch.float64).requires_grad_()
        for n, d in ((T, 4), (S, 4), (S, 5))
    ]
    q, k, v = leaves
    factors, fn = score.factors(q, k), None
    if factors is None:
        fn, keys = score.ready(k)
        factors = Factors(q, keys, 1.0)
    call = Call(factors, v, mask, causal, near, bias, fn)
    seen = attend(q, k, v, score=score, mask=call.visible(), bias=call.added())
    return call, leaves, seen.values


def agree(got, wanted, leaves, rng):
    grad = torch.randn(wanted.shape, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(got, wanted)
    ours = torch.autograd.grad(got, leaves, grad, allow_unused=True, retain_graph=True)
    theirs = torch.autograd.grad(wanted, leaves, grad, allow_unused=True, retain_graph=True)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)
        assert one is None or one.isfinite().all()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", ON_CPU)
def test_a_kernel_is_the_readable_one(rng, name, score, size):
    bound, row = bound_score(score), ROWS[name]
    ways = list(itertools.product(MASKS, (False, True), WINDOWS, BIASES))
    able = 0
    for i in torch.randperm(len(ways), generator=rng).tolist():
        mask, causal, near, bias = ways[i]
        given = mask_of(mask, rng, *size), causal, near, bias_of(bias, rng, *size)
        call, leaves, wanted = asked(bound, rng, *size, *given)
        if can_do(name, call):
            agree(row.run(call), wanted, leaves, rng)
            able += 1
        if able == TRIED or (call.score is not None and not can_do(name, call)):
            break
    assert able == TRIED or SCORES[score].factors is None


def can_do(name, call):
    """What a row is able to do, whether or not it would be chosen for it."""
    if name == "blocks":
        return blocks.fits(call)
    return call.score is None or name.startswith(("scores", "products"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("T", [5, 8, 9, 10, 11, 130])
@pytest.mark.parametrize(
    ("name", "near"), [("blocks as texts", Block(4)), ("slots in turns", Slots(3))]
)
def test_a_window_that_needs_no_mask_is_the_readable_one(rng, name, near, T):
    own = isinstance(near, Block)
    S = T if own else T // 3 + 1
    call, leaves, wanted = asked(NamedScore("scaled_dot"), rng, T, S, None, own, near, None)
    assert ROWS[name].fits(call)
    agree(ROWS[name].run(call), wanted, leaves, rng)
    others = [
        call._replace(mask=mask_of("padding", rng, T, S)),
        call._replace(bias=bias_of("slopes", rng, T, S)),
        call._replace(near=near._replace(first=2)),
        call._replace(causal=not own),
    ]
    assert not any(ROWS[name].fits(other) for other in others)


@pytest.mark.parametrize("near", WINDOWS, ids=str)
@pytest.mark.parametrize("name", ON_CPU)
def test_a_query_that_sees_nothing_finds_zeros(rng, name, near):
    call, leaves, _ = asked(
        NamedScore("dot"), rng, 40, 40, mask_of("padding", rng, 40, 40), True, near, None
    )
    if can_do(name, call):
        found = ROWS[name].run(call)
        assert (found[1] == 0).all()
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(found.sum(), leaves))


# ------------------------------------------------------------------ which row is taken


def chosen(T, S=None, *, score="scaled_dot", **how):
    q, k = torch.empty(2, 3, T, 8), torch.empty(2, 3, S or T, 8)
    bound = NamedScore(score) if score == "scaled_dot" else bound_score(score)
    factors = bound.factors(q, k)
    fn = None if factors else bound
    rules = {"mask": None, "causal": False, **how}
    return choose(Call(factors or Factors(q, k, 1.0), k, score=fn, **rules)).name


def test_a_cpu_takes_what_is_fastest_there():
    slopes = Alibi(torch.ones(3))
    assert chosen(32) == "products"
    assert chosen(33) == "sdpa"
    assert chosen(2048, causal=True) == "sdpa"
    assert chosen(20, near=Near(2)) == "products"
    assert chosen(100, near=Near(2)) == "sdpa"
    assert chosen(200, near=Near(2)) == "blocks"
    assert chosen(200, near=Near(90)) == "sdpa"
    assert chosen(200, near=Block(50), bias=slopes) == "blocks"
    assert chosen(300, mask=torch.ones(2, 1, 300, 300, dtype=torch.bool), near=Near(2)) == "sdpa"
    assert chosen(200, near=Block(64), causal=True) == "blocks as texts"
    assert chosen(200, near=Block(63), causal=True) == "blocks"
    assert chosen(200, 67, near=Slots(3)) == "slots in turns"
    assert chosen(200, 70, near=Slots(3, first=8)) == "sdpa"
    assert chosen(4000, 1400, near=Slots(3, first=200)) == "sdpa, in chunks"
    assert chosen(50, bias=slopes) == "sdpa"
    assert chosen(2048, bias=slopes) == "sdpa, in chunks"
    assert chosen(10, score="additive") == "scores"
    assert chosen(10, score="location") == "scores"
    assert chosen(600, score="additive") == "scores, in chunks"


# ------------------------------------------------------------------ memory


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that was made inside the block."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        known = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        for one in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(one, torch.Tensor) and one.untyped_storage().data_ptr() not in known:
                self.numel = max(self.numel, one.untyped_storage().size() // one.element_size())
        return made


def largest(q, k, v, **how):
    """Numbers of the largest tensor of a forward and backward pass."""
    inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    with Largest() as seen:
        regard.attention(*inputs, **how).sum().backward()
    return seen.numel


def vectors(rng, T, D=8):
    return [torch.randn(1, 2, T, D, generator=rng) for _ in range(3)]


@pytest.mark.parametrize("near", [Near(10, 0), Block(20, 0)], ids=str)
@pytest.mark.parametrize("how", [{}, {"bias": Alibi(torch.ones(2), 0)}], ids=["plain", "slopes"])
def test_the_memory_of_a_window_grows_with_the_length_alone(rng, near, how):
    sizes = [
        largest(*vectors(rng, T), near=near, mask=torch.ones(1, 1, 1, T).bool(), causal=True, **how)
        for T in (1024, 4096)
    ]
    assert sizes[1] <= 4 * sizes[0]
    assert sizes[1] < 4096 * 4096 / 8


@pytest.mark.parametrize("first", [0, 30])
def test_the_memory_of_slots_grows_with_the_length_alone(rng, first):
    sizes = []
    for T in (2048, 8192):
        (q, _, _), (k, v, _) = vectors(rng, T), vectors(rng, (first + T) // 3 + 1)
        sizes.append(largest(q, k, v, near=Slots(3, first)))
    assert sizes[1] <= max(4 * sizes[0] + 100, sdpa.ON_CPU)
    assert sizes[1] < 8192 * 8192 / 3 / 8


def test_additive_scores_build_no_vector_for_every_pair(rng):
    T, A = 256, 64
    score = regard.Score("additive", d_query=8, d_key=8, d_hidden=A, n_heads=2)
    pairs = 2 * T * T
    assert largest(*vectors(rng, T), score=score) <= sdpa.ON_CPU < pairs * A / 4


def test_location_scores_build_a_number_for_every_pair_and_no_more(rng):
    score = regard.Score("location", d_query=8, d_key=8, n_heads=2, max_len=4096)
    q, k, v = vectors(rng, 60)
    table = score.get_parameter("table").numel()  # its gradient is as large as it is
    assert largest(q, k, v, score=score.requires_grad_(False)) <= 2 * 60 * 60 < table


def test_slopes_are_never_written_out_as_a_whole(rng):
    T = 2048
    assert largest(*vectors(rng, T), bias=Alibi(torch.ones(2), 0), causal=True) < 2 * T * T / 4


# ------------------------------------------------------------------ flex, and what a GPU does


TILED = [None, Near(5, 0), Near(200, 0), Near(40, 130), Block(128, 0), Block(90, 7)]
TILED += [Slots(3), Slots(2, 130)]


@pytest.mark.parametrize(("T", "S"), [(1, 1), (128, 128), (300, 300), (200, 390), (390, 200)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("near", TILED, ids=str)
def test_no_tile_that_holds_something_is_left_out(near, causal, T, S):
    if near is None and not causal:
        return  # nothing is left out
    tiles = flex.tiles_seen(near, causal, T, S, torch.device("cpu"))
    true = create_block_mask(tiles.mask_mod, None, None, T, S, device="cpu")
    assert (tiles.to_dense() >= true.to_dense()).all()
    ours, theirs = full_tiles(tiles), full_tiles(true)
    assert (ours <= theirs).all()
    if near is None:
        assert torch.equal(tiles.to_dense(), true.to_dense())
        assert torch.equal(ours, theirs)


def full_tiles(tiles):
    found = torch.zeros(tiles.full_kv_indices.shape[-2:], dtype=torch.bool)
    for row, n in enumerate(tiles.full_kv_num_blocks[0, 0].tolist()):
        found[row, tiles.full_kv_indices[0, 0, row, :n].long()] = True
    return found


def test_tiles_of_a_window_are_not_those_of_a_block_of_its_numbers():
    near, block = (
        flex.tiles_seen(kind(512, 0), False, 2048, 2048, torch.device("cpu"))
        for kind in (Near, Block)
    )
    assert near.to_dense().sum() > block.to_dense().sum()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [None, "slopes"])
@pytest.mark.parametrize("mask", ["nothing", "padding", "keys"])
@pytest.mark.parametrize("near", WINDOWS, ids=str)
def test_flex_says_what_the_readable_kernel_says(rng, near, mask, bias, causal):
    """Uncompiled, forward only: all that a CPU has of it."""
    size = (140, 150)
    call, _, wanted = asked(
        NamedScore("dot"), rng, *size, mask_of(mask, rng, *size), causal, near,
        bias_of(bias, rng, *size),
    )  # fmt: skip
    assert call.by_positions
    q, k, scale = call.factors
    call = call._replace(factors=Factors(q.detach(), k.detach(), scale), v=call.v.detach())
    torch.testing.assert_close(flex.run(call, flex_attention), wanted.detach())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="flex, cuDNN and Triton need a GPU")
@pytest.mark.parametrize("bias", [None, "slopes"])
@pytest.mark.parametrize("mask", ["nothing", "padding"])
@pytest.mark.parametrize("near", [None, Near(60, 0), Block(100, 0)], ids=str)
def test_a_gpu_says_what_the_readable_kernel_says(rng, near, mask, bias):
    T = 1100
    leaves = [torch.randn(2, 3, T, 32, generator=rng).cuda().requires_grad_() for _ in range(3)]
    given = mask_of(mask, rng, T, T)
    slopes = Alibi(torch.tensor([0.5, 0.1, 0.02]).cuda(), 0) if bias else None
    how = {"mask": None if given is None else given.cuda(), "near": near, "bias": slopes}
    factors = NamedScore("scaled_dot").factors(*leaves[:2])
    row = choose(Call(factors, leaves[2], causal=True, **how))
    own = isinstance(near, Block) and given is None and bias is None
    plain = "sdpa" if near is None and bias is None else "flex"
    assert row.name == ("blocks as texts" if own else plain)
    found = regard.attention(*leaves, causal=True, **how)
    wanted = regard.attention(*leaves, causal=True, **how, need_weights=True).values
    torch.testing.assert_close(found, wanted, rtol=2e-3, atol=2e-3)
    grads = [torch.autograd.grad(one.square().sum(), leaves) for one in (found, wanted)]
    torch.testing.assert_close(*grads, rtol=5e-3, atol=5e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="flash and cuDNN need a GPU")
@pytest.mark.parametrize("first", [0, 6])
def test_a_gpu_sees_the_slots_that_the_readable_kernel_sees(rng, first):
    T = 3500
    sizes = (T, (first + T) // 3 + 1, (first + T) // 3 + 1)
    leaves = [torch.randn(2, 3, n, 64, generator=rng).cuda().requires_grad_() for n in sizes]
    found = regard.attention(*leaves, near=Slots(3, first))
    wanted = regard.attention(*leaves, near=Slots(3, first), need_weights=True).values
    torch.testing.assert_close(found, wanted, rtol=2e-3, atol=2e-3)
    grads = [torch.autograd.grad(one.square().sum(), leaves) for one in (found, wanted)]
    torch.testing.assert_close(*grads, rtol=5e-3, atol=5e-3)
