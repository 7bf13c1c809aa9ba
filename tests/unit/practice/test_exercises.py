"""Every exercise: its solution passes, each of its mistakes is recognised, its oracle is right."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.functional.positions import sinusoid
from regard.practice.catalogue import EXERCISES
from regard.practice.exercises import (
    attention,
    bahdanau,
    beam,
    encoder,
    heads,
    layer,
    masks,
    patches,
    permutation,
    pipeline,
    sinusoids,
)
from regard.practice.findings import State
from regard.practice.judging import judge, judge_part

SHEETS = {name: exercise.sheet() for name, exercise in EXERCISES.items()}
MISTAKES = [
    pytest.param(part, mistake, id=f"{name}-{part.name}-{mistake.wrong.__name__.strip('_')}")
    for name, sheet in SHEETS.items()
    for part in sheet.parts.values()
    for mistake in part.mistakes
]


@pytest.mark.parametrize("name", SHEETS)
def test_the_solution_passes(name):
    solutions = {part.name: part.solution for part in SHEETS[name].parts.values()}
    findings = [*judge(SHEETS[name], solutions, [])]
    assert [one for one in findings if one.state is not State.PASSED] == []
    assert len(findings) == len(solutions)


@pytest.mark.parametrize(("part", "mistake"), MISTAKES)
def test_a_mistake_is_told_by_its_own_message_with_an_example(part, mistake):
    found = judge_part(part, mistake.wrong, [])
    assert (found.state, found.message) == (State.WRONG, mistake.message)
    assert found.example
    assert found.yours != found.right


@pytest.mark.parametrize("name", SHEETS)
def test_every_blank_has_hints_examples_and_mistakes(name):
    blanks = {blank.name: blank.hints for blank in EXERCISES[name].handout().blanks}
    assert blanks.keys() == SHEETS[name].parts.keys()
    for part in SHEETS[name].parts.values():
        assert blanks[part.name]
        assert [*part.cases()]
        assert part.mistakes


@pytest.mark.parametrize("name", SHEETS)
def test_the_laws_hold_for_the_solution(name):
    compared = [part for part in SHEETS[name].parts.values() if part.compared]
    for part in compared:  # of the others, laws are the judge
        for law, case in itertools.product(part.laws, part.cases()):
            assert law(part.use(part.solution, **case), **case) is None


# ------------------------------------------------------------------ oracles beside others


def test_attention_is_torchs(rng):
    q, k, v = (torch.randn(n, 6, generator=rng) for n in (3, 5, 5))
    torch.testing.assert_close(
        attention.attention(q, k, v), F.scaled_dot_product_attention(q, k, v)
    )


def test_masked_softmax_is_that_of_what_is_seen(rng):
    scores = torch.randn(4, generator=rng)
    mask = torch.tensor([True, False, True, False])
    wanted = torch.zeros(4)
    wanted[mask] = scores[mask].softmax(dim=0)
    torch.testing.assert_close(masks.masked_softmax(scores[None], mask[None])[0], wanted)


def test_masks_are_those_of_loops():
    lengths, n = torch.tensor([2, 0, 3]), 3
    wanted = [[s < length for s in range(n)] for length in lengths.tolist()]
    assert masks.padding_mask(lengths, n).tolist() == wanted
    assert masks.causal_mask(n).tolist() == [[s <= t for s in range(n)] for t in range(n)]


def test_multi_head_is_torchs(rng):
    D, n_heads = 6, 3
    x, memory = torch.randn(2, 4, D, generator=rng), torch.randn(2, 5, D, generator=rng)
    w = [torch.randn(D, D, generator=rng) for _ in range(4)]
    mask = torch.rand(2, 5, generator=rng) < 0.7
    mask[:, 0] = True
    theirs = nn.MultiheadAttention(D, n_heads, bias=False, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([one.mT for one in w[:3]]))
        theirs.out_proj.weight.copy_(w[3].mT)
        wanted, _ = theirs(x, memory, memory, key_padding_mask=~mask)
    ours = heads.multi_head(x, memory, *w, n_heads, mask[:, None, None])
    torch.testing.assert_close(ours, wanted)


def test_sinusoids_are_the_librarys():
    torch.testing.assert_close(sinusoids.sinusoids(7, 6), sinusoid(torch.arange(7), 6).float())


def torchs_layer(ours, d_model, n_heads, d_ff):
    """torch's encoder layer with our parameters, joined where torch joins them."""
    theirs = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, batch_first=True, dropout=0.0)
    state = ours.state_dict()
    attention = {
        "in_proj": "to_qkv",
        "out_proj": "to_out" if "attention.to_out.weight" in state else "to_o",
    }
    with torch.no_grad():
        for kind in ("weight", "bias"):
            joined = state.get(f"attention.to_qkv.{kind}")
            if joined is None:
                joined = torch.cat([state[f"attention.to_{one}.{kind}"] for one in "qkv"])
            getattr(theirs.self_attn, f"in_proj_{kind}").copy_(joined)
            out = state[f"attention.{attention['out_proj']}.{kind}"]
            getattr(theirs.self_attn.out_proj, kind).copy_(out)
            getattr(theirs.linear1, kind).copy_(state[f"feed_forward.0.{kind}"])
            getattr(theirs.linear2, kind).copy_(state[f"feed_forward.2.{kind}"])
            getattr(theirs.norm1, kind).copy_(state[f"norm_1.{kind}"])
            getattr(theirs.norm2, kind).copy_(state[f"norm_2.{kind}"])
    return theirs


@pytest.mark.parametrize("kind", [layer.EncoderLayer, encoder.EncoderLayer])
def test_an_encoder_layer_is_torchs(rng, kind):
    ours = kind(6, 3, 8)
    x = torch.randn(2, 4, 6, generator=rng)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    theirs = torchs_layer(ours, 6, 3, 8)(x, src_key_padding_mask=~mask)
    seen = mask if kind is encoder.EncoderLayer else mask[:, None, None]
    torch.testing.assert_close(ours(x, seen)[mask], theirs[mask])


def test_layer_norm_is_torchs(rng):
    x, gain, bias = (torch.randn(*shape, generator=rng) for shape in ((2, 3, 4), (4,), (4,)))
    torch.testing.assert_close(layer.layer_norm(x, gain, bias), F.layer_norm(x, (4,), gain, bias))


def test_padding_changes_nothing_in_the_encoder():
    model = encoder.Encoder(9, 6, 3, 8, 2)
    ids = torch.tensor([[3, 4, 5]])
    padded = torch.tensor([[3, 4, 5, 8, 8]])
    short = model(ids, torch.ones(1, 3, dtype=torch.bool))
    long = model(padded, torch.arange(5)[None] < 3)
    torch.testing.assert_close(long[:, :3], short)


def test_bahdanaus_step_is_that_of_loops(rng):
    n, m, S = 3, 2, 4
    p = {name: torch.randn(n, n, generator=rng) for name in ("U", "U_z", "U_r", "W_a")}
    p |= {name: torch.randn(m, n, generator=rng) for name in ("C", "C_z", "C_r", "U_a")}
    p |= {name: torch.randn(1, n, generator=rng) for name in ("W", "W_z", "W_r")}
    p["v_a"] = torch.randn(n, generator=rng)
    s, y, h = (torch.randn(*shape, generator=rng) for shape in ((1, n), (1, 1), (1, S, m)))
    power = [
        math.exp(p["v_a"] @ torch.tanh(p["W_a"].mT @ s[0] + p["U_a"].mT @ h[0, j]))
        for j in range(3)
    ]
    c = sum(one / sum(power) * h[0, j] for j, one in enumerate(power))

    def gate(name, state):
        given = ((f"W{name}", y[0]), (f"U{name}", state), (f"C{name}", c))
        return sum(p[key].mT @ x for key, x in given)

    z, r = gate("_z", s[0]).sigmoid(), gate("_r", s[0]).sigmoid()
    wanted = (1 - z) * s[0] + z * torch.tanh(gate("", r * s[0]))
    state, weights = bahdanau.decoder_step(y, s, h, torch.arange(S)[None] < 3, p)
    torch.testing.assert_close(state[0], wanted)
    torch.testing.assert_close(weights[0], torch.tensor([one / sum(power) for one in power] + [0]))


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_a_beam_that_holds_everything_finds_what_brute_force_finds(rng, alpha):
    rows = torch.rand(4, 3, generator=rng).softmax(dim=-1).tolist()
    step = beam.Table(rows[3], rows[:3])
    wanted, best = None, -math.inf
    for length in range(1, 5):
        for ids in itertools.product(range(3), repeat=length):
            if 0 in ids[:-1] or (ids[-1] != 0 and length < 4):
                continue
            logp = sum(step(ids[:t])[token] for t, token in enumerate(ids))
            if logp / length**alpha > best:
                wanted, best = ids, logp / length**alpha
    found = beam.beam_search(step, 0, 81, 4, alpha)
    assert found[0] == wanted
    assert found[1] / len(wanted) ** alpha == pytest.approx(best)


def test_patches_are_those_of_a_convolution(rng):
    pictures = torch.randn(2, 3, 4, 6, generator=rng)
    wanted = F.unfold(pictures, kernel_size=2, stride=2).mT
    made = patches.to_patches(pictures, 2)
    torch.testing.assert_close(made, wanted)
    assert torch.equal(patches.from_patches(made, 2, 4, 6), pictures)


def test_the_proof_holds_in_numbers_until_positions_are_added(rng):
    x, p = torch.randn(2, 4, 5, generator=rng)
    w = torch.randn(3, 5, 3, generator=rng)
    g = torch.tensor([2, 0, 3, 1])
    alone = permutation.disagreement(
        permutation.steps(x, *w), permutation.steps(permutation.shuffled(x, g), *w), g
    )
    assert max(alone.values()) < 1e-5
    placed = permutation.disagreement(
        permutation.steps(x + p, *w),
        permutation.steps(permutation.shuffled_in_place(x, g, p), *w),
        g,
    )
    assert min(placed.values()) > 0.01


def test_the_pipelines_bound_is_the_entropy_of_words():
    assert 2.0 < pipeline.unigram_loss(400) < math.log(len(pipeline.SPECIAL) + 15)
    used = pipeline._held_out_loss(pipeline.train, 400)
    assert used < 0.8 * pipeline.unigram_loss(400)
