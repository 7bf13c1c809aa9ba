"""Recurrences as they are recorded, run by Triton's interpreter, beside the loops that are read."""

import importlib.util
import os

import pytest
import torch

from regard.functional.scores import content_factors
from regard.kernels import attending_recurrence, call, input_feeding, memory_tape, recurrence
from regard.kernels.attending_recurrence import SourceAttention, attending_lstm
from regard.kernels.call import reference_only
from regard.kernels.input_feeding import FedState, fed_lstm
from regard.kernels.memory_tape import TapeWeights, unrolled_tape
from regard.kernels.recurrence import StateWeights, unrolled_gru, unrolled_lstm
from regard.layers.attention import MemoryAttention
from regard.layers.attentive_cell import source_attention, unroll_attending
from regard.layers.context_cells import ContextCell, ContextGRU, ContextLSTM
from regard.layers.fast_forward import FastForwardLayer
from regard.layers.recurrence import CellState, Recurrence
from regard.models.memory_network import (
    MemoryNetwork,
    MemoryNetworkConfig,
    TapeAttention,
    TapeCell,
    empty_tape,
    unroll,
)
from regard.models.recurrent import (
    LuongDecoder,
    RecurrentConfig,
    RecurrentMemory,
    RecurrentState,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs Triton and its interpreter, which is on where there is no GPU (conftest.py)",
)
B, T, S, D = 3, 4, 7, 21
"""Two blocks of 16 columns, the last of which is not full."""


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    from regard.kernels.gpu import context_gru, memory_tape, source_attention
    from regard.kernels.gpu import recurrence as gpu

    for module in (gpu, context_gru, memory_tape):
        monkeypatch.setattr(module, "COLUMNS", 16)
    monkeypatch.setattr(source_attention, "TILE", 256)
    monkeypatch.setattr(source_attention, "PARTS", 4)


@pytest.fixture
def calls(monkeypatch):
    """As on a GPU whose launches are recorded; counts how often our kernels are asked for."""
    found, load = [], recurrence.triton_kernels

    def counted(module):
        found.append(module)
        return load(module)

    monkeypatch.setattr(call, "is_recorded", lambda _x: True)
    for module in (recurrence, attending_recurrence, input_feeding, memory_tape):
        monkeypatch.setattr(module, "triton_kernels", counted)
    return found


def readable(run):
    """The same call, by the loops of ``regard.layers``."""

    def slowly():
        with pytest.MonkeyPatch.context() as patch, reference_only():
            patch.setattr(call, "is_recorded", lambda _x: False)
            return run()

    return slowly


def gradients(outcome, inputs):
    total = sum((x * torch.linspace(-1, 1, x.numel()).view(x.shape)).sum() for x in outcome)
    return torch.autograd.grad(total, inputs)


def assert_agree(run, inputs, near=1e-5):
    """The same numbers and gradients as by the loops."""
    (one, one_grads), (other, other_grads) = (
        (outcome, gradients(outcome, inputs)) for outcome in (run(), readable(run)())
    )
    torch.testing.assert_close(one, other, rtol=near, atol=near, check_dtype=False)
    for ours, theirs in zip(one_grads, other_grads, strict=True):
        assert ours.abs().max() > 0
        assert (ours - theirs).norm() <= 10 * near * theirs.norm()


RECURRENCES = [
    ("lstm", {}),
    ("lstm", {"bidirectional": True, "n_layers": 2}),
    ("lstm", {"d_out": 6}),
    ("gru", {}),
    ("gru", {"bidirectional": True, "n_layers": 2}),
]


@pytest.mark.parametrize("lengths", [None, (4, 0, 2)], ids=str)
@pytest.mark.parametrize(("cell", "options"), RECURRENCES)
def test_a_recorded_recurrence_is_the_one_step_by_step(rng, calls, cell, options, lengths):
    layer = Recurrence(cell, 3, D, **options)
    x = torch.randn(B, T, 3, generator=rng, requires_grad=True)
    mask = None if lengths is None else torch.arange(T) < torch.tensor(lengths)[:, None]
    start = layer.start(x)
    states = [
        torch.randn(one.shape, generator=rng).requires_grad_()
        for one in (start.h, start.c)
        if one is not None
    ]

    def run():
        out, state = layer(x, mask, CellState(states[0], states[1] if cell == "lstm" else None))
        return out, state.h, *([] if state.c is None else [state.c])

    assert_agree(run, [x, *states, *layer.parameters()])
    assert len(calls) == 2 * (4 if options.get("bidirectional") else 1)  # and its gradients


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_one_row_of_one_word(rng, calls, cell):
    layer = Recurrence(cell, 3, D)
    x = torch.randn(1, 1, 3, generator=rng, requires_grad=True)
    used = [one for name, one in layer.named_parameters() if "weight_hh" not in name]  # of zeros
    assert_agree(lambda: [layer(x)[0]], [x, *used])
    assert len(calls) == 2


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_narrow_products_are_near(rng, calls, cell):
    layer = Recurrence(cell, 3, D)
    x = torch.randn(B, T, 3, generator=rng, requires_grad=True)
    mask = torch.arange(T) < torch.tensor([4, 1, 3])[:, None]

    def run():
        with torch.autocast("cpu", torch.bfloat16):
            return [layer(x, mask)[0].float()]

    assert_agree(run, [x, *layer.parameters()], near=2e-2)
    assert len(calls) == 2


def test_a_recorded_layer_with_fast_forward_is_the_one_step_by_step(rng, calls):
    layer = FastForwardLayer(3, D)
    x = torch.randn(B, T, 3, generator=rng, requires_grad=True)

    def run():
        passed, state = layer(x)
        return passed.f, passed.h, state.h, state.c

    assert_agree(run, [x, *layer.parameters()])
    assert len(calls) == 2


def made(score, d_out):
    torch.manual_seed(3)
    attention = MemoryAttention(d_out or D, 5, score=score)
    cell = ContextLSTM(3, D, 5, d_out=d_out)
    return attention, cell


@pytest.mark.parametrize("n_words", [1, S])
@pytest.mark.parametrize("d_out", [None, 6])
@pytest.mark.parametrize("score", ["additive", "tanh_product"])
def test_a_recorded_lstm_that_attends_is_the_one_step_by_step(rng, calls, score, d_out, n_words):
    attention, cell = made(score, d_out)
    words, memory = (
        torch.randn(shape, generator=rng, requires_grad=True)
        for shape in ((B, T, 3), (B, n_words, 5))
    )
    lengths = torch.tensor([7, 1, 4]).clamp(max=n_words)
    mask = (torch.arange(n_words) < lengths[:, None])[:, None, None]
    h, c = (torch.randn(B, 1, width, generator=rng).requires_grad_() for width in (d_out or D, D))

    def run():
        values = torch.cat((cell.context(memory), memory), dim=-1)  # and more than gates need
        keys_values = attention.project(memory, values)
        steps = unroll_attending(
            attention, cell, cell.words(words), keys_values, mask, CellState(h, c), first=0
        )
        return steps.before, steps.after, steps.contexts, steps.last.h, steps.last.c

    own = [*attention.parameters()] if n_words > 1 else []  # of one word there is nothing to choose
    assert_agree(run, [words, memory, h, c, *own, *cell.parameters()])
    assert calls == ["recurrence", "source_attention"] * 2


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("n_words", [1, S])
@pytest.mark.parametrize("score", ["additive", "tanh_product"])
def test_a_recorded_gru_that_attends_is_the_one_step_by_step(rng, calls, score, n_words, narrow):
    torch.manual_seed(3)
    attention, cell = MemoryAttention(D, 5, score=score), ContextGRU(3, D, 5)
    words, memory = (
        torch.randn(shape, generator=rng, requires_grad=True)
        for shape in ((B, T, 3), (B, n_words, 5))
    )
    lengths = torch.tensor([7, 1, 4]).clamp(max=n_words)
    mask = (torch.arange(n_words) < lengths[:, None])[:, None, None]
    s = torch.randn(B, 1, D, generator=rng).requires_grad_()

    def run():
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            values = torch.cat((cell.context(memory), memory), dim=-1)  # and more than gates need
            keys_values = attention.project(memory, values)
            steps = unroll_attending(
                attention, cell, cell.words(words), keys_values, mask, CellState(s, None), first=0
            )
        return [x.float() for x in (steps.before, steps.after, steps.contexts, steps.last.h)]

    own = [*attention.parameters()] if n_words > 1 else []  # of one word there is nothing to choose
    inputs = [words, memory, s, *own, *cell.parameters()]
    assert_agree(run, inputs, near=3e-2 if narrow else 1e-5)
    assert calls == ["context_gru", "source_attention"] * 2


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(
    "score",
    [
        {"score": "additive"},
        {"score": "tanh_product"},
        {"score": "general"},
        {"score": "dot"},
        {"score": "scaled_dot"},
        {"score": "content"},
        {"score": "content", "beta": "learned"},
        {"score": "content", "beta": "emitted"},
    ],
    ids=lambda score: "-".join(score.values()),
)
def test_a_recorded_decoder_with_input_feeding_is_the_one_step_by_step(
    rng, calls, score, narrow, n_layers
):
    d = 13
    settings = {"n_layers": n_layers, "d_model": d, "dropout": 0.0, **score}
    config = RecurrentConfig(
        n_source_vocab=9, n_target_vocab=9, decoder="luong", input_feeding=True, **settings
    )
    torch.manual_seed(3)
    decoder = LuongDecoder(config)
    ids = torch.randint(0, 9, (B, T), generator=rng)
    encoded, fed = (
        torch.randn(shape, generator=rng, requires_grad=True)
        for shape in ((B, S, config.d_memory), (B, d))
    )
    h, c = (torch.randn(B, n_layers, d, generator=rng).requires_grad_() for _ in range(2))
    mask = (torch.arange(S) < torch.tensor([7, 1, 4])[:, None])[:, None, None]

    def run():
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            memory = RecurrentMemory(decoder.remember(encoded), mask, CellState(h, c))
            out, state = decoder(ids, memory, RecurrentState(CellState(h, c), fed))
        assert state.length == T
        return [x.float() for x in (out, state.fed, state.cell.h, state.cell.c)]

    unused = "to_logits"
    weights = [p for name, p in decoder.named_parameters() if unused not in name]
    assert_agree(run, [encoded, fed, h, c, *weights], near=3e-2 if narrow else 1e-5)
    assert calls == ["recurrence", "source_attention"] * 2


@pytest.mark.parametrize("n_words", [1, 2, T])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("brings", [False, True])
def test_a_recorded_tape_is_the_one_step_by_step(rng, calls, brings, narrow, n_words):
    torch.manual_seed(3)
    cell, attends = TapeCell(3, D), TapeAttention(3, D, score="additive")
    x = torch.randn(B, n_words, 3, generator=rng, requires_grad=True)
    brought = torch.randn(B, n_words, D, generator=rng, requires_grad=True) if brings else None

    def run():
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            tape = unroll(cell, attends, x, empty_tape(x.new_zeros(B, D)), brought=brought)
        return [one.float() for one in (tape.steps.k, tape.steps.v, tape.recalled)]

    weights = [*cell.words.parameters(), attends.score.w_key]
    if n_words > 1:
        weights.append(cell.recalled.weight)
    if n_words > 2:  # of one step there is nothing to choose
        weights += [attends.words.weight, attends.score.w_query, attends.score.v]
    given = [x, *weights] if brought is None else [x, brought, *weights]
    assert_agree(run, given, near=3e-2 if narrow else 1e-5)
    assert calls == ["memory_tape", "source_attention"] * 2


def made_network(**changes):
    sizes = {"n_source_vocab": 9, "n_target_vocab": 9, "d_model": 13, "dropout": 0.0}
    torch.manual_seed(3)
    return MemoryNetwork(MemoryNetworkConfig(**sizes, **changes))


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(
    ("score", "fusion"), [("additive", "deep"), ("additive", "shallow"), ("tanh_product", "deep")]
)
def test_a_recorded_memory_network_is_the_one_step_by_step(rng, calls, score, narrow, fusion):
    model = made_network(fusion=fusion, score=score)
    source = torch.randint(4, 9, (B, S), generator=rng)
    source[torch.arange(S) >= torch.tensor([7, 1, 4])[:, None]] = model.config.pad_id
    target = torch.randint(4, 9, (B, T), generator=rng)

    def run():
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            return [model(source, target).float()]

    assert_agree(run, [*model.parameters()], near=3e-2 if narrow else 1e-5)
    tapes, looks = 2 * (score == "additive"), fusion == "deep"
    assert sorted(calls) == sorted(
        ["memory_tape", "source_attention"] * 2 * tapes + ["source_attention"] * 2 * looks
    )


@pytest.mark.parametrize(("n_rows", "n_words"), [(1, T), (B, 1), (1, 1)])
def test_one_row_or_one_word_of_a_memory_network(rng, calls, n_rows, n_words):
    model = made_network()
    source, target = (torch.randint(4, 9, (n_rows, n), generator=rng) for n in (S, n_words))
    used = [*model.encoder.parameters(), *model.decoder.cross_attention.parameters()]
    assert_agree(lambda: [model(source, target), model(source, target)], used)  # nothing is changed


def test_what_is_brought_may_lie_in_memory_in_any_way(rng):
    torch.manual_seed(3)
    cell, attends = TapeCell(3, D), TapeAttention(3, D, score="additive")
    weights = TapeWeights(
        *(attends.score.learned[name] for name in ("w_query", "w_key", "v")), cell.recalled.weight
    )
    read, asked = (torch.randn(B, T, n * D, generator=rng) for n in (4, 1))
    brought = torch.randn(D, T, B, generator=rng).transpose(0, 2)
    turned, straight = (
        unrolled_tape(read, asked, weights, one) for one in (brought, brought.contiguous())
    )
    torch.testing.assert_close(turned, straight)


def test_a_tape_that_has_steps_is_long_or_is_watched_is_left_to_the_loop(rng, monkeypatch):
    monkeypatch.setattr(call, "is_recorded", lambda _x: True)
    asked_for = []

    def told(read, *_):
        asked_for.append(read)
        return read[..., : 2 * D], read[:, 0, :D]

    monkeypatch.setattr("regard.models.memory_network.unrolled_tape", told)
    torch.manual_seed(3)
    cell, attends = TapeCell(3, D), TapeAttention(3, D, score="additive")

    def n_asked(n_words, tape):
        asked_for.clear()
        unroll(cell, attends, torch.randn(1, n_words, 3, generator=rng), tape)
        return len(asked_for)

    empty = empty_tape(torch.zeros(1, D))
    assert [n_asked(n, empty) for n in (1, 128, 129)] == [1, 1, 0]
    with monkeypatch.context() as patch:
        patch.setattr(call, "is_recorded", lambda _x: False)
        begun = unroll(cell, attends, torch.randn(1, 2, 3, generator=rng), empty)
    assert n_asked(2, begun) == 0
    handle = attends.view.register_forward_hook(lambda *_: None)
    assert n_asked(2, empty) == 0
    handle.remove()
    assert n_asked(2, empty) == 1


@pytest.mark.parametrize("dot", [-200.0, -60.0, -30.0, -20.0, -17.0, -3.0, 0.0, 2.0, 30.0, 200.0])
def test_a_sharpened_cosine_is_right_however_sharp(rng, dot):
    from regard.kernels.gpu import source_attention as gpu

    query = torch.randn(B, D, generator=rng)
    to_beta = torch.randn(D, generator=rng)
    query += (dot - query @ to_beta)[:, None] * to_beta / to_beta.square().sum()
    keys = torch.nn.functional.normalize(torch.randn(B, S, D, generator=rng), dim=-1)
    values, grad_context = (torch.randn(B, *more, 2, generator=rng) for more in ((S,), ()))
    given = [one.double().requires_grad_() for one in (query, keys, to_beta)]
    factors = content_factors(given[0][:, None], given[1], to_beta=given[2])
    weights = factors.product().softmax(dim=-1)[:, 0]
    context = (weights[:, None] @ values.double())[:, 0]
    wanted = torch.autograd.grad(context, given, grad_context.double())
    # Beside the largest gradient of a query: of a flat softmax it is rounding alone.
    near = 2e-5 * max(1.0, wanted[0].abs().max().item())

    ours, found = torch.empty(B, S), torch.empty(B, 2)
    mask, score = torch.ones(B, S, dtype=torch.bool), "sharp_cosine"
    gpu.attend(query, keys, to_beta, values, mask, ours, found, score=score)
    torch.testing.assert_close(ours.double(), weights, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.double(), context, rtol=1e-4, atol=1e-5)
    of_query, of_keys, of_v = torch.empty(B, D), torch.zeros(B, S, D), torch.zeros(B, D)
    gpu.attend_backward(
        query, keys, to_beta, values, ours, grad_context[:, :0], grad_context, of_query, of_keys,
        of_v, torch.empty(B, 2), score=score,
    )  # fmt: skip
    for one, other in zip((of_query, of_keys, of_v.sum(0)), wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=near)


def test_what_dropout_keeps_between_fed_layers_is_the_same_as_in_a_loop(rng, calls):
    n_layers, d, d_value = 3, 13, 5
    shapes = {
        "read": (B, T, 4 * d), "keys": (B, S, d), "values": (B, S, d_value), "fed": (B, d),
        "join": (d, d_value + d), "h": (B, n_layers, d), "c": (B, n_layers, d),
    }  # fmt: skip
    given = {
        name: torch.randn(shape, generator=rng).requires_grad_() for name, shape in shapes.items()
    }
    matrices = [torch.randn(4 * d, 2 * d, generator=rng).requires_grad_() for _ in range(n_layers)]
    biases = [torch.randn(4 * d, generator=rng).requires_grad_() for _ in range(n_layers - 1)]
    kept = 2.0 * (torch.rand(n_layers - 1, T, B, d, generator=rng) < 0.5)
    mask = torch.arange(S) < torch.tensor([7, 0, 4])[:, None]
    source = SourceAttention(given["keys"], given["values"], mask, "product")
    before = FedState(given["fed"], given["h"], given["c"])

    def by_kernels():
        out, after = fed_lstm(given["read"], source, matrices, biases, given["join"], before, kept)
        return out, *after

    def by_loops():
        fed, outs = before.fed, []
        h, c = [*before.h.unbind(1)], [*before.c.unbind(1)]
        for t in range(T):
            x = fed
            for n in range(n_layers):
                of_word = given["read"][:, t] if n == 0 else biases[n - 1]
                gates = of_word + torch.cat((x, h[n]), dim=1) @ matrices[n].t()
                i, f, g, o = gates.chunk(4, dim=1)
                c[n] = f.sigmoid() * c[n] + i.sigmoid() * g.tanh()
                h[n] = o.sigmoid() * c[n].tanh()
                x = h[n] * kept[n, t] if n + 1 < n_layers else h[n]
            scores = (source.keys @ x.unsqueeze(2)).squeeze(2).masked_fill(~mask, -torch.inf)
            weights = scores.softmax(dim=1).masked_fill(~mask, 0.0)
            context = (weights.unsqueeze(1) @ source.values).squeeze(1)
            fed = (torch.cat((context, x), dim=1) @ given["join"].t()).tanh()
            outs.append(fed)
        return torch.stack(outs, 1), fed, torch.stack(h, 1), torch.stack(c, 1)

    inputs = [*given.values(), *matrices, *biases]
    ours, loops = by_kernels(), by_loops()
    torch.testing.assert_close(ours, loops, rtol=1e-5, atol=1e-5)
    for one, other in zip(gradients(ours, inputs), gradients(loops, inputs), strict=True):
        assert (one - other).norm() <= 1e-4 * other.norm()


def test_dropout_between_fed_layers_is_drawn_for_each_step_while_training(rng, calls, monkeypatch):
    config = RecurrentConfig(
        n_source_vocab=9, n_target_vocab=9, decoder="luong", input_feeding=True, n_layers=2,
        score="dot", d_model=40, dropout=0.25,
    )  # fmt: skip
    torch.manual_seed(3)
    decoder, drawn = LuongDecoder(config), []
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    state = CellState(torch.zeros(B, 2, 40), torch.zeros(B, 2, 40))
    memory = RecurrentMemory(decoder.remember(torch.randn(B, S, 40, generator=rng)), mask, state)
    ids = torch.randint(0, 9, (B, T), generator=rng)

    def told(*args):
        drawn.append(args[-1])
        return fed_lstm(*args)

    monkeypatch.setattr("regard.layers.input_feeding.fed_lstm", told)
    for training in (True, False):
        decoder.train(training)(ids, memory, RecurrentState(state, torch.zeros(B, 40)))
    kept, none = drawn
    assert none is None
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert kept.mean() == pytest.approx(1.0, abs=0.1)
    assert not torch.equal(kept[0, 0], kept[0, 1])


def test_a_source_without_a_word_gives_nothing(rng):
    attention, cell = made("additive", None)
    memory = torch.randn(2, S, 5, generator=rng)
    mask = torch.zeros(2, 1, 1, S, dtype=torch.bool)
    keys_values = attention.project(memory, cell.context(memory))
    _, contexts, _ = attending_lstm(
        torch.randn(2, T, 4 * D, generator=rng),
        source_attention(attention, keys_values, mask),
        StateWeights(cell.state.weight),
        (torch.zeros(2, D), torch.zeros(2, D)),
    )
    assert (contexts == 0).all()


def test_a_long_source_and_other_scores_are_left_to_the_loop():
    attention, _ = made("additive", None)
    short, long = (torch.zeros(1, n, 5) for n in (128, 129))

    def found(attention, memory):
        mask = torch.ones(1, 1, 1, memory.shape[1], dtype=torch.bool)
        return source_attention(attention, attention.project(memory), mask)

    assert found(attention, short) is not None
    assert found(attention, long) is None
    for options in ({"score": "location"}, {"score": "additive", "window": "local_m"},
                    {"score": "additive", "normaliser": "hard"}):  # fmt: skip
        assert found(MemoryAttention(D, 5, **options), short) is None


def test_a_plain_cell_is_left_to_the_loop(rng, calls):
    torch.manual_seed(3)
    attention, cell = MemoryAttention(D, 5, score="additive"), ContextCell(3, D, 5)
    memory = torch.randn(B, S, 5, generator=rng)
    keys_values = attention.project(memory, cell.context(memory))
    mask, state = torch.ones(B, 1, 1, S, dtype=torch.bool), CellState(torch.zeros(B, 1, D), None)
    words = cell.words(torch.randn(B, T, 3, generator=rng))
    assert unroll_attending(attention, cell, words, keys_values, mask, state, first=0) is not None
    assert not calls


def test_states_are_narrow_and_the_memory_is_not(rng):
    weights = StateWeights(torch.randn(4 * D, D, generator=rng), torch.zeros(4 * D))
    read = torch.randn(B, T, 4 * D, generator=rng)
    with torch.autocast("cpu", torch.bfloat16):
        states, (h, c) = unrolled_lstm(read, weights, (torch.zeros(B, D), torch.zeros(B, D)))
    assert (states.dtype, h.dtype, c.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)


@pytest.mark.parametrize(("run", "n"), [(unrolled_lstm, 4), (unrolled_gru, 3)])
def test_how_states_and_gradients_lie_in_memory_does_not_matter(rng, run, n):
    weights = StateWeights(torch.randn(n * D, D, generator=rng), torch.zeros(n * D))
    read = torch.randn(B, T, n * D, generator=rng)
    mask = torch.arange(T) < torch.tensor([4, 0, 2])[:, None]
    factors, first = torch.randn(D, B, generator=rng), torch.randn(2, D, B, generator=rng)
    found = []
    for turned in (False, True):
        h, c = ((one.t() if turned else one.t().contiguous()).requires_grad_() for one in first)
        _, (last, memory) = run(read, weights, (h, c), mask)
        if turned:
            total = (memory.t().contiguous() * factors).sum()
        else:
            total = (memory * factors.t().contiguous()).sum()
        found.append(torch.autograd.grad(total + last.sum(), (h, c)))
    torch.testing.assert_close(found[1], found[0])
