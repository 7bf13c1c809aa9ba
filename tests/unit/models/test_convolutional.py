"""What convolutional translators keep and show, and each against its paper, unrolled."""

import math

import pytest
import torch
from families import CONVOLUTIONAL, UNEVEN

from regard.core.errors import ConfigError, ShapeError
from regard.inspection.capture import watch
from regard.kernels.call import reference_only
from regard.models.convs2s import scaled_gradient
from regard.models.presets import PRESETS, ModelSettings, build, resolve
from regard.recipes.recipe import load_recipe
from regard.training.flops import count_forward, flop_formula

V = 13


def convolutional(name, **changes):
    settings = ModelSettings(preset=name, **{"d_model": 6, "max_len": 24, **changes})
    config = resolve(settings, n_source_vocab=V, n_target_vocab=V, shared_vocab=True)
    torch.manual_seed(1)
    model = build(config).double().eval()
    with torch.no_grad():  # what begins with zeros must be seen too
        for path, weight in model.named_parameters():
            if path.endswith("bias"):
                weight.add_(0.1 * torch.randn_like(weight))
    return model


ATTENDING = [(name, changes) for name, changes in CONVOLUTIONAL if name == "convs2s2017"]
every_system = pytest.mark.parametrize(("name", "changes"), CONVOLUTIONAL, ids=str)
every_attending = pytest.mark.parametrize(("name", "changes"), ATTENDING, ids=str)


@every_system
def test_a_step_keeps_as_much_wherever_it_is(source, target, name, changes):
    model = convolutional(name, **changes)
    memory = model.encode(source)
    state = model.start(memory)
    sizes = [x.shape for x in state.layers]
    for t in range(target.shape[1]):
        _, state = model.step(target[:, t], memory, state)
        assert [x.shape for x in state.layers] == sizes


@every_system
def test_every_weight_learns_with_dropout_and_fused_kernels_agree(source, target, name, changes):
    model = convolutional(name, **changes)

    def outcome():
        logits = model(source, target)
        return logits, torch.autograd.grad(logits.pow(2).sum(), list(model.parameters()))

    fused = outcome()
    with reference_only():
        torch.testing.assert_close(outcome(), fused)
    model = convolutional(name, **changes, dropout=0.3).train()
    model(source, target).pow(2).sum().backward()
    for path, weight in model.named_parameters():
        assert weight.grad.isfinite().all(), path
        assert weight.grad.abs().sum() > 0, path


@every_system
def test_a_source_of_nothing_gives_finite_numbers(source, target, name, changes):
    model = convolutional(name, **changes)
    source[0] = 0
    logits = model(source, target)
    logits.pow(2).sum().backward()
    assert logits.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("convs2s2017", {"n_layers": 1, "n_decoder_layers": 1}),
        ("bytenet2016", {"n_sets": 1, "dilations": (1, 2)}),
    ],
)
def test_an_update_can_be_traced_as_one_graph(source, target, name, changes):
    """No step of it waits for a number: that is what compiling and recording ask for."""
    model = convolutional(name, **changes).train()
    traced = torch.compile(model, backend="aot_eager", fullgraph=True)
    found, expected = traced(source, target), model(source, target)
    torch.testing.assert_close(found, expected)
    weights = list(model.parameters())
    gradients = [torch.autograd.grad(x.pow(2).sum(), weights) for x in (found, expected)]
    torch.testing.assert_close(*gradients)


@every_attending
def test_attention_of_every_decoder_layer_is_visible(source, target, name, changes):
    model = convolutional(name, **changes)
    with watch(model) as views:
        seen = model(source, target)
    assert torch.equal(seen, model(source, target))
    assert list(views) == [("decoder.cross", layer) for layer in range(3)]
    for view in views.values():
        weights = view.weights()
        assert weights.shape == (3, 1, 6, 7)
        assert (weights[1, :, :, 4:] == 0).all()
        if changes.get("window") == "local_m":  # around the position of the target that asks
            near = (torch.arange(6)[:, None] - torch.arange(7)).abs() <= changes["half_width"]
            assert ((weights[0, 0] > 0) == near).all()
        else:
            torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 6, dtype=torch.float64))


@every_attending
def test_the_flop_formula_is_exact(name, changes):
    model = convolutional(name, **changes)
    formula = flop_formula(model)
    assert formula.forward(15, 11) == pytest.approx(count_forward(model, 15, 11), rel=1e-9)


def test_the_flop_formula_of_unfolded_columns_is_exact_where_they_are_whole():
    model = convolutional("bytenet2016", unfold=(2.0, 1.0))
    formula = flop_formula(model)
    assert formula.forward(16, 11) == pytest.approx(count_forward(model, 16, 11), rel=1e-9)


@pytest.mark.parametrize("name", ["convs2s2017", "bytenet2016"])
@pytest.mark.parametrize("size", ["tiny", "small", "base"])
def test_every_size_can_be_built(name, size):
    with torch.device("meta"):
        settings = ModelSettings(preset=name, size=size)
        sizes = {"n_source_vocab": V, "n_target_vocab": V, "shared_vocab": True}
        assert build(resolve(settings, **sizes)).config.d_model in (64, 128, 256, 512, 800)


def test_the_sizes_are_those_of_the_papers():
    small, base = (PRESETS["convs2s2017"].sizes[size] for size in ("small", "base"))
    assert (small["d_model"], small["n_layers"], small["n_decoder_layers"]) == (256, 4, 3)
    widths = [(base["d_model"], 3)] * base["n_layers"] + [*base["top_layers"]]
    assert widths == [(512, 3)] * 10 + [(768, 3)] * 3 + [(2048, 1)] * 2
    paper = PRESETS["bytenet2016"].sizes["base"]
    assert (paper["d_model"], paper["n_sets"]) == (800, 6)
    found = convolutional("bytenet2016", n_sets=6, d_model=1)
    dilations = [block.convolution.dilation for block in found.decoder.layers]
    assert dilations == [1, 2, 4, 8, 16] * 6


def test_convs2s_is_the_paper_unrolled(source, target):
    """One text at a time, one position at a time."""
    model = convolutional("convs2s2017", **UNEVEN)
    encoder, decoder, half = model.encoder, model.decoder, math.sqrt(0.5)
    full = model(source, target)

    def embedded(embedding, ids):
        return embedding.tokens.weight[ids] + embedding.positions.table[: len(ids)]

    def gated(layer, x, begin):
        """A ⊙ σ(B) of the kernel that begins at position ``begin``."""
        product, kernel = (
            layer.convolution.convolution.product,
            layer.convolution.convolution.kernel,
        )
        weight = product.weight.unflatten(1, (kernel, -1))
        seen = [(i, begin + i) for i in range(kernel) if 0 <= begin + i < len(x)]
        a, b = (sum(weight[:, i] @ x[s] for i, s in seen) + product.bias).chunk(2)
        return a * b.sigmoid()

    for row, m in enumerate((7, 4, 7)):
        e = embedded(encoder.embedding, source[row, :m])
        x = encoder.to_states(e)
        for layer in encoder.layers:
            before = (layer.convolution.convolution.kernel - 1) // 2
            y = [gated(layer, x, s - before) for s in range(m)]
            x = (torch.stack(y) + layer.beside(x)) * half
        z = encoder.to_memory(x)
        g = embedded(decoder.embedding, target[row])
        x = decoder.to_states(g)
        for layer in decoder.layers:
            before = layer.convolution.convolution.kernel - 1
            rows = []
            for t in range(len(x)):
                h = gated(layer, x, t - before)
                d = (layer.to_query(h) + g[t]) * half
                powers = [(d @ z[s]).exp() for s in range(m)]
                c = sum(powers[s] / sum(powers) * (z[s] + e[s]) for s in range(m)) * half
                c = c * m * math.sqrt(1 / m)
                h = (layer.from_context(c) + h) * half
                rows.append((h + layer.beside(x[t])) * half)
            x = torch.stack(rows)
        torch.testing.assert_close(full[row], decoder.to_logits(decoder.from_states(x)))


def test_the_encoders_output_gets_a_share_of_its_gradient_and_words_all_of_theirs(source, target):
    x = torch.tensor([3.0], requires_grad=True)
    scaled = scaled_gradient(x, 0.25)
    assert scaled == x
    scaled.backward()
    assert x.grad == 0.25
    model = convolutional("convs2s2017")
    kept = {}
    model.encoder.register_forward_hook(lambda _m, _x, out: kept.update(z=out[0], e=out[1]))

    def gradients():
        """Of z, and of e by the values alone: not through the encoder's layers, which end in z."""
        loss = model(source, target).pow(2).sum()
        of_z, of_e = torch.autograd.grad(loss, [kept["z"], kept["e"]], retain_graph=True)
        return of_z, of_e - torch.autograd.grad(kept["z"], kept["e"], of_z)[0]

    def unscaled(z, e, mask):
        values = (z + e) * math.sqrt(0.5) * mask.sum(1, keepdim=True).double().sqrt()
        layers = model.decoder.layers
        return tuple(layer.cross_attention.project(z, values) for layer in layers)

    of_z, of_e = gradients()
    model.decoder.project = unscaled
    all_of_z, all_of_e = gradients()
    torch.testing.assert_close(of_z, all_of_z / 6)  # three layers look
    torch.testing.assert_close(of_e, all_of_e)
    assert of_e.abs().sum() > 0


def test_bytenet_reads_the_column_of_its_step_and_zeros_beyond(source, target):
    """a|s| + b columns of each row's own length: 1.2 · 7 and 1.2 · 4, rounded up."""
    model = convolutional("bytenet2016")
    columns = model.encode(source).columns
    assert columns.shape == (3, 9, 12)
    counts = (columns != 0).any(-1).sum(-1).tolist()
    assert counts == [9, 5, 9]
    decoder, read = model.decoder, []
    decoder.layers[0].norms[0].register_forward_pre_hook(lambda _m, x: read.append(x[0]))
    longer = torch.cat((target, target), dim=1)
    model(source, longer)
    words = decoder.tokens.weight[longer]
    for row, n in enumerate(counts):
        for t in range(12):
            column = columns[row, t] if t < n else torch.zeros(12, dtype=torch.float64)
            torch.testing.assert_close(read[0][row, t], words[row, t] + column)


def test_a_text_beyond_the_table_of_positions_is_refused(source, target):
    long = target.repeat(1, 5)
    with pytest.raises(ShapeError, match="know 24 places, but the text has 30"):
        convolutional("convs2s2017")(source, long)
    assert convolutional("bytenet2016")(source, long).shape == (3, 30, V)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("convs2s2017", {"window": "causal"}, "a target has no future in its source"),
        ("convs2s2017", {"beta": "learned"}, "beta sharpens the score 'content', not 'dot'"),
        ("convs2s2017", {"score": "dott"}, "did you mean 'dot'"),
        ("bytenet2016", {"unfold": (1.2, -1.0)}, "needs some columns"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_a_line(name, changes, message):
    with pytest.raises(ConfigError, match=message) as told:
        convolutional(name, **changes)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        ("bytenet2016", "score=dot", "'bytenet2016' has no setting 'score'; it has .*unfold"),
        ("bytenet2016", "dilations=[]", "dilations"),
        ("convs2s2017", "kernel=0", "kernel=0: input should be greater than or equal to 1"),
        ("convs2s2017", "n_heads=2", "'convs2s2017' has no setting 'n_heads'; it has .*top_layers"),
    ],
)
def test_settings_that_a_family_does_not_have_are_refused_with_its_list(name, override, message):
    with pytest.raises(ConfigError, match=message):
        load_recipe(name, [override])


@pytest.mark.parametrize("unfold", [(0.0, 0.0), (math.nan, 1.0), (1.2, math.inf), (-1.0, 3.0)])
def test_a_source_needs_some_columns(unfold):
    with pytest.raises((ConfigError, ValueError), match="some columns"):
        convolutional("bytenet2016", unfold=unfold)
