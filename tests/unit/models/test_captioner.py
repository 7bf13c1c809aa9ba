"""Captioners: stepping equals forward, and each looks at the picture as its paper says."""

import pytest
import torch

from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.inspection.capture import watch
from regard.models.captioner import (
    AttendDecoder,
    Captioner,
    CaptionerConfig,
    ConceptHead,
    TransformerCaptioner,
    TransformerCaptionerConfig,
    doubly_stochastic,
)
from regard.text.specials import BEGIN_ID

SMALL = {"d_model": 16, "dropout": 0.0, "image_size": 32, "n_target_vocab": 11, "max_len": 16}
BLOCKS = {"n_layers": 2, "n_heads": 2, "d_ff": 32}
KINDS = {
    "tell": lambda **more: _recurrent(decoder="tell", encoder="conv", **more),
    "attend": lambda **more: _recurrent(decoder="attend", encoder="conv", **more),
    "attend current": lambda **more: _recurrent(
        decoder="attend", encoder="stem", query="current", positions="sinusoidal", **more
    ),
    "attend patches": lambda **more: _recurrent(
        decoder="attend", encoder="patches", **BLOCKS, **more
    ),
    "transformer": lambda **more: _transformer(encoder="patches", **more),
    "transformer conv": lambda **more: _transformer(encoder="conv", **more),
}


def _recurrent(**settings):
    torch.manual_seed(0)
    return Captioner(CaptionerConfig.model_validate({**SMALL, "n_heads": 2, **settings})).eval()


def _transformer(**settings):
    torch.manual_seed(0)
    config = TransformerCaptionerConfig.model_validate({**SMALL, **BLOCKS, **settings})
    return TransformerCaptioner(config).eval()


def pixels(n=3, size=32):
    rng = torch.Generator().manual_seed(2)
    return torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=rng)


def targets(n=3, length=6):
    ids = torch.randint(4, 11, (n, length), generator=torch.Generator().manual_seed(3))
    ids[:, 0] = BEGIN_ID
    return ids


@pytest.mark.parametrize("kind", KINDS)
def test_stepping_equals_forward(kind):
    model, ids = KINDS[kind](), targets()
    whole = model(pixels(), ids)
    assert whole.shape == (3, 6, 11)
    memory = model.encode(pixels())
    state = model.start(memory)
    for t in range(6):
        logits, state = model.step(ids[:, t], memory, state)
        torch.testing.assert_close(logits, whole[:, t], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_can_be_selected_in_the_middle(kind):
    model, ids, rows = KINDS[kind](), targets(), torch.tensor([2, 0, 2])
    memory = model.encode(pixels())
    _, state = model.prefill(ids[:, :3], memory, model.start(memory))
    found, _ = model.step(ids[rows, 3], memory.select(rows), state.select(rows))
    torch.testing.assert_close(found, model(pixels(), ids)[rows, 3], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_does_not_depend_on_its_batch(kind):
    model, ids = KINDS[kind](), targets()
    together = model(pixels(), ids)
    alone = model(pixels()[1:2], ids[1:2])
    torch.testing.assert_close(alone[0], together[1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_learns_from_every_picture(kind):
    model = KINDS[kind]().train()
    model(pixels(), targets()).square().sum().backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not still


@pytest.mark.parametrize("kind", KINDS)
def test_searches_work_for_all_of_them(kind):
    model, limits = KINDS[kind](), torch.full((3,), 5)
    best = greedy(model, pixels(), limits=limits)
    beams = beam_search(model, pixels(), limits=limits, n_beams=3, n_best=2)
    assert [len(some) for some in beams] == [2, 2, 2]
    assert all(some[0].score >= one.score - 1e-5 for some, one in zip(beams, best, strict=True))


def test_tell_sees_the_picture_through_its_first_state_alone():
    model = KINDS["tell"]()
    memory = model.encode(pixels())
    state = model.start(memory)
    other = model.encode(pixels().flip(0))
    same, _ = model.step(targets()[:, 0], memory, state)
    torch.testing.assert_close(model.step(targets()[:, 0], other, state)[0], same)
    assert not torch.allclose(state.h[0], state.h[1])


def test_tell_has_the_cell_of_its_paper():
    """By a loop in the paper's letters: i, f, o are sigmoids, m = o ⊙ c."""
    decoder = KINDS["tell"]().decoder
    x, m, c = torch.randn(3, 2, 16)
    gates = (
        x @ decoder.from_input.weight.T + decoder.from_input.bias + m @ decoder.from_state.weight.T
    )
    i, f, g, o = gates.split(16, dim=1)
    c_new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    from regard.models.captioner import CaptionState

    found = decoder._read(x, CaptionState(m, c))
    torch.testing.assert_close(found.c, c_new)
    torch.testing.assert_close(found.h, torch.sigmoid(o) * c_new)


def test_attend_computes_what_its_paper_writes():
    """One step, word by word of the definitions, context not joined with anything beforehand."""
    model = KINDS["attend"]()
    decoder = model.decoder
    assert isinstance(decoder, AttendDecoder)
    a = model.encoder(pixels())  # (B, N, D)
    mean = decoder.begin(a.mean(dim=1)).relu()
    h, c = decoder.begin_h(mean).tanh(), decoder.begin_c(mean).tanh()
    score = decoder.cross_attention.score
    e = score(h[:, None, None], a[:, None])[:, 0, 0]
    z = decoder.gate(h) * (e.softmax(dim=-1).unsqueeze(1) @ a).squeeze(1)
    y = decoder.tokens(torch.tensor([5, 6, 7]))
    cell = decoder.cell
    gates = cell.words(y) + cell.context(z) + cell.state(h)
    i, f, g, o = gates.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    deep = y + decoder.from_state(h) + decoder.from_context(z)
    memory = model.encode(pixels())
    found, _ = model.step(torch.tensor([5, 6, 7]), memory, model.start(memory))
    torch.testing.assert_close(found, decoder.to_logits(deep), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("query", ["previous", "current"])
def test_who_looks_has_read_the_last_word_or_has_not(query):
    """Only the state after a word can look for what the word says."""
    model = KINDS["attend"](query=query)
    here, there = targets(1), targets(1)
    there[:, 3] = here[:, 3] % 7 + 4
    assert not torch.equal(here, there)
    weights = []
    for ids in (here, there):
        with watch(model) as seen:
            model(pixels(1), ids)
        (view,) = [view for (name, _), view in seen.items() if name == "decoder.cross"]
        weights.append(view.weights()[0, 0])
    same = (weights[0] - weights[1]).abs().amax(dim=-1) < 1e-9
    first_that_knows = 3 if query == "current" else 4
    assert same.tolist() == [t < first_that_knows for t in range(6)]


def test_a_state_that_has_read_the_last_word_by_a_loop():
    """h_t = LSTM(y_{t-1}, ẑ_{t-1}, h_{t-1}); h_t asks for ẑ_t; the word is read off all three."""
    model, ids = KINDS["attend current"](), targets()
    memory, decoder = model.encode(pixels()), model.decoder
    state = model.start(memory)
    h, c, z = state.h, state.c, torch.zeros(3, 16)
    for t in range(6):
        y = decoder.tokens(ids[:, t]) * (ids[:, t, None] != BEGIN_ID)
        gates = decoder.cell.words(y) + decoder.cell.context(z) + decoder.cell.state(h)
        i, f, g, o = gates.chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        found = decoder.cross_attention.look(h[:, None], memory.keys_values, mask=memory.mask)
        z = decoder.gate(h) * found[:, 0]
        deep = y + decoder.from_state(h) + decoder.from_context(z)
        torch.testing.assert_close(model(pixels(), ids)[:, t], decoder.to_logits(deep))


@pytest.mark.parametrize("kind", ["attend", "attend patches"])
@pytest.mark.parametrize("query", ["previous", "current"])
def test_rows_that_have_ended_are_left_out_of_training_and_nothing_else_changes(kind, query):
    model, ids = KINDS[kind](query=query), targets(4)
    for row, length in enumerate((6, 4, 5, 2)):
        ids[row, length:] = 0
    of = torch.tensor([0, 1, 1, 2])
    whole = model(pixels(), ids, of)
    counted = model.train().decoder._reading(ids)
    assert counted == [4, 4, 3, 3, 3, 1]
    real = (ids != 0).unsqueeze(-1)
    torch.testing.assert_close(model(pixels(), ids, of) * real, whole * real)


def test_the_state_of_a_row_that_has_ended_stays():
    model, ids = KINDS["attend"](query="current").train(), targets(3)
    ids[1, 4:], ids[2, 2:] = 0, 0
    memory = model.encode(pixels(3))
    _, state = model.prefill(ids, memory, model.start(memory))
    for row, length in enumerate((6, 4, 2)):
        one = memory.select(torch.tensor([row]))
        _, alone = model.prefill(ids[row : row + 1, :length], one, model.start(one))
        for name in ("h", "c", "seen"):
            torch.testing.assert_close(getattr(state, name)[row], getattr(alone, name)[0])
    assert state.length == 6


def test_the_word_before_the_first_is_the_zero_vector():
    model = KINDS["attend"]()
    before = model(pixels(), targets())
    torch.nn.init.normal_(model.decoder.tokens.weight[BEGIN_ID])
    torch.testing.assert_close(model(pixels(), targets()), before)


def test_hard_attention_looks_at_one_place():
    model = KINDS["attend"](normaliser="hard")
    seen = []
    model.decoder.cross_attention.view.register_forward_hook(
        lambda _m, _i, out: seen.append(out.attended().weights)
    )
    model(pixels(), targets())
    weights = torch.cat(seen, dim=2)
    assert weights.shape == (3, 1, 6, 16)
    assert ((weights == 0) | (weights == 1)).all()
    assert (weights.sum(dim=-1) == 1).all()


@pytest.mark.parametrize("kind", ["attend patches", "transformer"])
def test_pictures_of_another_size_are_read_too(kind):
    model = KINDS[kind](positions="learned")
    assert model(pixels(size=64), targets()).shape == (3, 6, 11)


def test_the_doubly_stochastic_term_by_a_loop():
    weights = torch.rand(2, 3, 4)
    real = torch.tensor([[True, True, True], [True, False, False]])
    expected = 0.0
    for b in range(2):
        for i in range(4):
            total = sum(weights[b, t, i].item() for t in range(3) if real[b, t])
            expected += (1 - total) ** 2
    assert doubly_stochastic(weights, real).item() == pytest.approx(expected, rel=1e-5)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="memory 'each' is for texts"):
        KINDS["transformer"](memory="each")
    with pytest.raises(ValueError, match="not a whole number of patches of 5"):
        KINDS["transformer"](patch_size=5)


def test_padding_is_no_concept_of_a_picture():
    head, grids = ConceptHead(6, 11), torch.randn(2, 9, 6)
    ids, of = torch.tensor([[1, 5, 7, 2], [1, 9, 4, 2]]), torch.tensor([0, 1])
    padded = torch.nn.functional.pad(ids, (0, 3))
    losses = [head.loss(grids, x, of, first_word=3) for x in (ids, padded)]
    assert losses[0] == losses[1]
    assert head.loss(grids, ids.flip(0), of, first_word=3) != losses[0]
