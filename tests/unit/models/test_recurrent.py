"""What recurrent translators show, and each decoder against an unrolled version of its paper."""

import pytest
import torch
from families import RECURRENT

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.inspection.capture import watch
from regard.models.presets import PRESETS, ModelSettings, build, resolve
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.training.flops import count_forward, flop_formula


def preset(name, **changes):
    settings = ModelSettings(preset=name, d_model=6, **{"max_len": 20, "half_width": 2, **changes})
    config = resolve(settings, n_source_vocab=13, n_target_vocab=13, shared_vocab=True)
    torch.manual_seed(1)
    return build(config).double().eval()


every_system = pytest.mark.parametrize(("name", "changes"), RECURRENT, ids=str)


@every_system
def test_attention_is_visible_step_by_step(source, target, name, changes):
    model = preset(name, **changes)
    with watch(model) as views:
        model(source, target)
    if model.config.score is None:
        assert views == {}
        return
    weights = views["decoder.cross", 0].weights()
    assert weights.shape == (3, 1, 6, 7)
    assert (weights[1, :, :, 4:] == 0).all()
    if model.config.window != "local_p":
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 6, dtype=torch.float64))
    if model.config.window == "local_m":  # around the position of the target that asks
        near = (torch.arange(6)[:, None] - torch.arange(7)).abs() <= model.config.half_width
        assert ((weights[0, 0] > 0) == near).all()


@every_system
def test_the_flop_formula_counts_unrolled_cells(name, changes):
    model = preset(name, **changes)
    formula = flop_formula(model)
    assert formula.forward(15, 11) == pytest.approx(count_forward(model, 15, 11), rel=1e-9)


def test_flops_of_an_lstm_are_those_of_its_products():
    model = preset("sutskever2014")
    d, s, t, v = 6, 5, 7, 13
    layers = 2 * (2 * 4 * d * d + 2 * 4 * d * d)  # two layers, two products a step each
    assert count_forward(model, s, t) == (s + t) * layers + 2 * t * d * v


def test_reversing_reads_the_source_from_its_end(source, target):
    turned, straight = preset("sutskever2014"), preset("sutskever2014", reverse_source=False)
    straight.load_state_dict(turned.state_dict())
    flipped = source.clone()
    for row, length in enumerate((7, 4, 7)):
        flipped[row, :length] = source[row, :length].flip(0)
    torch.testing.assert_close(turned(source, target), straight(flipped, target))
    assert not torch.allclose(turned(source, target), straight(source, target))


def test_luongs_input_feeding_is_the_unrolled_graph(source, target):
    """Embeddings beside the last attentional state, two LSTM layers, general score, tanh."""
    model = preset("luong2015")
    decoder = model.decoder
    memory = model.encode(source)
    values = memory.keys_values.v[:, 0]
    h, c = list(memory.last.h.unbind(1)), list(memory.last.c.unbind(1))
    fed = torch.zeros(3, 6, dtype=torch.float64)
    inner = decoder.recurrence.inner
    for t in range(6):
        x = torch.cat((decoder.tokens.weight[target[:, t]], fed), dim=-1)
        for layer in range(2):
            gates = x @ getattr(inner, f"weight_ih_l{layer}").T + getattr(
                inner, f"bias_ih_l{layer}"
            )
            gates = gates + h[layer] @ getattr(inner, f"weight_hh_l{layer}").T
            gates = gates + getattr(inner, f"bias_hh_l{layer}")
            i, f, g, o = gates.chunk(4, dim=-1)
            c[layer] = f.sigmoid() * c[layer] + i.sigmoid() * g.tanh()
            h[layer] = x = o.sigmoid() * c[layer].tanh()
        scores = torch.einsum("bd,de,bse->bs", x, decoder.cross_attention.score.weight, values)
        weights = scores.masked_fill(source == 0, -torch.inf).softmax(dim=-1)
        context = torch.einsum("bs,bsd->bd", weights, values)
        fed = torch.tanh(torch.cat((context, x), dim=-1) @ decoder.join.weight.T)
        logits = fed @ decoder.to_logits.weight.T + decoder.to_logits.bias
        torch.testing.assert_close(model(source, target)[:, t], logits)


def test_bahdanaus_decoder_is_the_unrolled_graph(source, target):
    """s_{t-1} asks; the GRU reads word and context; maxout over pairs; s_0 from reading back."""
    model = preset("bahdanau2015")
    decoder = model.decoder
    memory = model.encode(source)
    values, _ = model.encoder(source, source != 0)
    score = decoder.cross_attention.score
    s = torch.tanh(decoder.begin(memory.last.h[:, 1]))
    for t in range(6):
        word = decoder.tokens.weight[target[:, t]]
        asked = (s @ score.w_query)[:, None] + values @ score.w_key
        scores = (asked.tanh() * score.v).sum(-1).masked_fill(source == 0, -torch.inf)
        context = torch.einsum("bs,bsd->bd", scores.softmax(dim=-1), values)
        deep = decoder.from_state(s) + decoder.from_word(word) + decoder.from_context(context)
        logits = decoder.to_logits(torch.maximum(deep[:, 0::2], deep[:, 1::2]))
        torch.testing.assert_close(model(source, target)[:, t], logits)
        s, _ = decoder.cell(decoder.cell.words(word), decoder.cell.context(context), s, None)


def test_the_backward_state_that_begins_saw_the_first_word_last(source):
    """Changing only the last real word changes every forward state after it, not before."""
    model = preset("bahdanau2015")
    states, last = model.encoder(source, source != 0)
    torch.testing.assert_close(last.h[:, 1], states[:, 0, 6:])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_decoder_begins_with_what_is_made_of_both_directions(source, cell):
    model = preset("luong2015", bidirectional=True, cell=cell)
    memory = model.encode(source)
    begun, begin = model.start(memory).cell, model.decoder.begin
    for layer in range(2):
        both = torch.cat((memory.last.h[:, 2 * layer], memory.last.h[:, 2 * layer + 1]), dim=-1)
        torch.testing.assert_close(begun.h[:, layer], torch.tanh(begin.h(both)))
    if cell == "lstm":
        both = torch.cat((memory.last.c[:, 2], memory.last.c[:, 3]), dim=-1)
        torch.testing.assert_close(begun.c[:, 1], begin.c(both))


def test_cs224ns_decoder_reads_words_off_both(source, target):
    model = preset("cs224n2019")
    memory = model.encode(source)
    values = memory.keys_values.v[:, 0]
    h, _ = model.decoder.recurrence(model.decoder.tokens(target), None, memory.last)
    scores = torch.einsum("btd,bsd->bts", h, values)
    weights = scores.masked_fill((source == 0)[:, None], -torch.inf).softmax(dim=-1)
    both = torch.cat((weights @ values, h), dim=-1)
    torch.testing.assert_close(model(source, target), model.decoder.to_logits(both))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder": "luong"}, "give a score"),
        ({"decoder": "bahdanau", "score": "dot", "n_layers": 2}, "n_layers must be 1"),
        ({"decoder": "luong", "score": "dot", "bidirectional": True}, "are 512 wide, the"),
        ({"decoder": "plain", "input_feeding": True}, "no attentional state"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        RecurrentConfig(n_source_vocab=9, n_target_vocab=9, **changes)


def test_widths_that_do_not_fit_are_refused_by_name():
    settings = ModelSettings(preset="bahdanau2015", score="dot")
    with pytest.raises(ConfigError, match="'dot' needs states of one width"):
        resolve(settings, n_source_vocab=9, n_target_vocab=9, shared_vocab=True)


def test_settings_of_another_family_are_refused():
    with pytest.raises(ConfigError, match=r"model\.n_heads=4: .* it has preset, size, .*score"):
        parse(ModelSettings, {"preset": "luong2015", "n_heads": 4}, "model")


def test_gradients_reach_every_parameter(source, target):
    for name in (name for name in PRESETS if PRESETS[name].family == "recurrent"):
        model = preset(name)
        assert isinstance(model, RecurrentTranslator)
        model(source, target).pow(2).sum().backward()
        for path, parameter in model.named_parameters():
            assert parameter.grad is not None, (name, path)
            assert parameter.grad.abs().sum() > 0, (name, path)


@pytest.mark.parametrize("name", ["luong2015", "graves2014", "sutskever2014"])
def test_a_fresh_model_hears_its_source(name, monkeypatch):
    """What it writes next depends on the source more than with torch's weights."""

    def heard():
        torch.manual_seed(3)
        settings = ModelSettings(preset=name, d_model=48)
        model = build(resolve(settings, n_source_vocab=40, n_target_vocab=40, shared_vocab=True))
        sources, target = torch.randint(4, 40, (16, 9)), torch.randint(4, 40, (1, 5)).expand(16, 5)
        with torch.no_grad():
            return model.eval()(sources, target).std(dim=0).mean()

    now = heard()
    monkeypatch.setattr("regard.models.recurrent.begin_orthogonal", lambda _recurrence: None)
    monkeypatch.setattr("torch.nn.init.xavier_uniform_", lambda weight, _gain=1.0: weight)
    assert now > 1.5 * heard()
