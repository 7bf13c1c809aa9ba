"""What deep recurrent translators show, and each against an unrolled version of its paper."""

import pytest
import torch
from families import DEEP_RECURRENT, SMALL_EXPERTS

from regard.core.errors import ConfigError
from regard.inspection.capture import watch
from regard.kernels.call import reference_only
from regard.layers.fast_forward import INPUT_SCALE
from regard.models.presets import PRESETS, ModelSettings, build, resolve
from regard.training.flops import count_forward, flop_formula

V = 13


def deep(name, **changes):
    settings = ModelSettings(preset=name, **{"d_model": 6, "max_len": 20, **changes})
    config = resolve(settings, n_source_vocab=V, n_target_vocab=V, shared_vocab=True)
    torch.manual_seed(1)
    model = build(config).double().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("peepholes", "gate.weight")):
                weight.copy_(torch.randn_like(weight))
    return model


every_system = pytest.mark.parametrize(("name", "changes"), DEEP_RECURRENT, ids=str)


@every_system
def test_the_readable_layers_are_the_fused_ones_with_gradients(source, target, name, changes):
    model = deep(name, **changes)

    def outcome():
        logits = model(source, target)
        return logits, torch.autograd.grad(
            logits.pow(2).sum(), list(model.parameters()), allow_unused=True
        )

    fused = outcome()
    with reference_only():
        torch.testing.assert_close(outcome(), fused)
    unused = ("gate.noise", "inner.bias", "inner.weight", "outer.bias", "outer.weight")
    for (path, _), gradient in zip(model.named_parameters(), fused[1], strict=True):
        some = gradient is not None and gradient.abs().sum() > 0
        assert some or ("experts" in path and path.endswith(unused)), path


@every_system
def test_attention_is_visible_step_by_step(source, target, name, changes):
    model = deep(name, **changes)
    with watch(model) as views:
        model(source, target)
    assert list(views) == [("decoder.cross", 0)]
    weights = views["decoder.cross", 0].weights()
    assert weights.shape == (3, 1, 6, 7)
    assert (weights[1, :, :, 4:] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 6, dtype=torch.float64))


@every_system
def test_the_flop_formula_is_exact(name, changes):
    model = deep(name, **changes)
    formula = flop_formula(model)
    assert formula.forward(15, 11) == pytest.approx(count_forward(model, 15, 11), rel=1e-9)


@pytest.mark.parametrize("name", ["gnmt2016", "deep-att2016", "moe2017"])
@pytest.mark.parametrize("size", ["tiny", "small", "base"])
def test_every_size_can_be_built(name, size):
    with torch.device("meta"):
        settings = ModelSettings(preset=name, size=size)
        sizes = {"n_source_vocab": V, "n_target_vocab": V, "shared_vocab": True}
        assert build(resolve(settings, **sizes)).config.d_model in (128, 256, 512)


def lstm_step(x, h, c, inner, suffix=""):
    gates = x @ inner.get_parameter(f"weight_ih_l0{suffix}").T
    gates = gates + inner.get_parameter(f"bias_ih_l0{suffix}")
    gates = gates + h @ inner.get_parameter(f"weight_hh_l0{suffix}").T
    i, f, g, o = (gates + inner.get_parameter(f"bias_hh_l0{suffix}")).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def run(inner, x, suffix=""):
    """x (T, d_in) of one text -> h (T, D), and the last h and c."""
    h = c = torch.zeros(inner.hidden_size, dtype=torch.float64)
    out = []
    for row in x.flip(0) if suffix else x:
        h, c = lstm_step(row, h, c, inner, suffix)
        out.append(h)
    return torch.stack(out[::-1] if suffix else out), h, c


def additive_context(score, asks, states):
    energies = torch.tanh(asks @ score.w_query + states @ score.w_key) @ score.v
    return energies.softmax(dim=0) @ states


def test_gnmt_is_the_paper_unrolled(source, target):
    """One text at a time: both ways, then forwards, residuals from the third layer up; the lowest
    decoder layer's last state asks, and its context is read by every layer of the step."""
    model = deep("gnmt2016")
    encoder, decoder = model.encoder, model.decoder
    full = model(source, target)
    for row, length in enumerate((7, 4, 7)):
        words = encoder.tokens.weight[source[row, :length]]
        forwards, fh, fc = run(encoder.both_ways.inner, words)
        backwards, bh, bc = run(encoder.both_ways.inner, words, "_reverse")
        x = torch.cat((forwards, backwards), dim=-1)
        begin = encoder.begin
        hs = [torch.tanh(begin.h(torch.cat((fh, bh))))]
        cs = [begin.c(torch.cat((fc, bc)))]
        for number, layer in enumerate(encoder.above.layers, 2):
            y, h, c = run(layer.inner, x)
            x = y + x if number >= 3 else y
            hs.append(h)
            cs.append(c)
        for t in range(target.shape[1]):
            context = additive_context(decoder.cross_attention.score, hs[0], x)
            cell, word = decoder.cell, decoder.tokens.weight[target[row, t]]
            gates = cell.words(word) + cell.context(context) + cell.state(hs[0])
            i, f, g, o = gates.chunk(4)
            cs[0] = f.sigmoid() * cs[0] + i.sigmoid() * g.tanh()
            hs[0] = y = o.sigmoid() * cs[0].tanh()
            for number, layer in enumerate(decoder.above.layers, 2):
                read = torch.cat((y, context))
                k = number - 1
                hs[k], cs[k] = lstm_step(read, hs[k], cs[k], layer.inner)
                y = hs[k] + y if number >= 3 else hs[k]
            torch.testing.assert_close(full[row, t], decoder.to_logits(y))


def test_deep_attention_is_the_paper_unrolled(source, target):
    """One text at a time; layers themselves are tested beside their equations."""
    model = deep("deep-att2016")
    encoder, decoder, d = model.encoder, model.decoder, 6
    full = model(source, target)
    for row, length in enumerate((7, 4, 7)):
        words = encoder.tokens.weight[source[row, :length]]
        hs, fs = [], []
        for number, column in enumerate(encoder.columns):
            read = words
            for k, layer in enumerate(column.layers):
                turned = (k + number) % 2 == 1
                inner = layer.recurrence.inner
                read = INPUT_SCALE * read
                f = read @ inner.weight_ih_l0.T + inner.bias_ih_l0
                h, _, _ = run(inner, read.flip(0) if turned else read)
                h = h.flip(0) if turned else h
                read = torch.cat((f[:, : 2 * d], h), dim=-1)
            hs.append(h)
            fs.append(f)
        states = encoder.to_memory(torch.cat((*hs, *fs), dim=-1))
        s = c = torch.zeros(d, dtype=torch.float64)
        above = [[s, c] for _ in decoder.above.layers]
        for t in range(target.shape[1]):
            context = additive_context(decoder.cross_attention.score, s, states)
            cell, word = decoder.cell, decoder.tokens.weight[target[row, t]]
            f = cell.words(word) + cell.context(context)
            i, forget, g, o = (f + cell.state(s)).chunk(4)
            c = forget.sigmoid() * c + i.sigmoid() * g.tanh()
            s = h = o.sigmoid() * c.tanh()
            for k, layer in enumerate(decoder.above.layers):
                inner = layer.recurrence.inner
                read = INPUT_SCALE * torch.cat((f[: 2 * d], h))
                f = inner.weight_ih_l0 @ read + inner.bias_ih_l0
                above[k] = lstm_step(read, *above[k], inner)
                h = above[k][0]
            torch.testing.assert_close(full[row, t], decoder.to_logits(h))


def test_a_decoder_deeper_than_its_encoder_begins_with_zeros_above_it(source):
    model = deep("gnmt2016", n_layers=2, n_decoder_layers=4)
    memory = model.encode(source)
    begun = model.start(memory).cell
    assert torch.equal(begun.h[:, :2], memory.last.h)
    assert (begun.h[:, 2:] == 0).all()
    assert (begun.c[:, 2:] == 0).all()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("deep-att2016", {"d_model": 7}, "d_model=7 is odd"),
        ("deep-att2016", {"score": "dot"}, "'dot' needs states of one width"),
        ("gnmt2016", {"residual_from": 1, "d_cell": 9}, "halves d_model=6 and d_cell=9"),
        ("gnmt2016", {"n_layers": 1, "score": "dot"}, "'dot' needs states of one width"),
        ("gnmt2016", {"experts": 4}, "experts=4 need their inner width: give d_expert"),
        ("gnmt2016", {"top_k": 3}, "top_k would do nothing in this model"),
        ("moe2017", {"experts": 3}, "top_k=4 of experts=3: a token cannot be sent to more"),
        ("moe2017", {"n_decoder_layers": 1}, "both stacks must have 2 layers or more"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_a_line(name, changes, message):
    with pytest.raises(ConfigError, match=message) as told:
        deep(name, **changes)
    assert "\n" not in str(told.value)


def test_the_presets_are_deep():
    base = PRESETS["gnmt2016"].sizes["big"]
    assert (base["d_model"], base["n_layers"], base["n_decoder_layers"]) == (1024, 8, 8)
    paper = PRESETS["deep-att2016"].sizes["base"]
    assert (paper["d_model"], paper["n_layers"], paper["n_decoder_layers"]) == (512, 9, 7)


def test_experts_stand_before_the_last_layer_of_both_stacks(source, target):
    model = deep("moe2017", **SMALL_EXPERTS)
    target[2, 3:] = 0
    for stack, real in ((model.encoder.above, source != 0), (model.decoder.above, target != 0)):
        given, read = [], []
        stack.experts.register_forward_hook(lambda _m, x, y, to=given: to.append((*x, y)))
        stack.layers[-1].register_forward_pre_hook(lambda _m, x, to=read: to.append(x[0]))
        model(source, target)
        (x, told, y), d = given[0], 6
        assert torch.equal(told, real)
        torch.testing.assert_close(read[0][..., :d], x + y.sigmoid())
    paper = PRESETS["moe2017"].sizes["base"]
    layers = (paper["n_layers"], paper["n_decoder_layers"])
    assert (*layers, paper["d_cell"], paper["d_expert"]) == (3, 2, 2048, 2048)
    assert (paper["experts"], paper["top_k"]) == (32, 4)
