"""Memory-networks against the paper's equations written out, what is seen of them, and costs."""

import pytest
import torch
from families import MEMORY_NETWORKS, SOFT_MEMORY
from lstmn import find, paper_score, plus, read, sigmoid, times

from regard.checkpoints.run_folder import RunFolder, load_model, save_model
from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.inspection.capture import watch
from regard.models.presets import PRESETS, ModelSettings, build, resolve
from regard.training.flops import count_forward, flop_formula

FUSIONS = ["shallow", "deep"]
LENGTHS = (7, 4, 7)
"""Real tokens of each row of ``source``."""


def made(fusion, score="additive", **changes):
    wanted = {"d_model": 6, "max_len": 20, "fusion": fusion, "score": score, **changes}
    settings = ModelSettings(preset="cheng2016", **wanted)
    config = resolve(settings, n_source_vocab=13, n_target_vocab=13, shared_vocab=True)
    torch.manual_seed(1)
    return build(config).double().eval()


both_fusions = pytest.mark.parametrize("fusion", FUSIONS)
every_soft_system = pytest.mark.parametrize("changes", [of for _, of in SOFT_MEMORY], ids=str)
every_system = pytest.mark.parametrize("changes", [of for _, of in MEMORY_NETWORKS], ids=str)


def tensor(lists):
    return torch.tensor(lists, dtype=torch.float64)


# ------------------------------------------------------------------ the paper


def encoded(model, ids):
    """One source by loops: both tapes, and where the encoder looked."""
    encoder = model.encoder
    words = encoder.tokens.weight[ids].tolist()
    own = encoder.self_attention
    return read(words, encoder.cell, paper_score(own.score, own.words))


def shallow_by_loops(model, hidden, words):
    """Logits, and where the decoder looked on its own tape and on the encoder's."""
    decoder, own = model.decoder, model.decoder.self_attention
    states, _, looked = read(words, decoder.cell, paper_score(own.score, own.words))
    # Outside, h alone asks. The word is zeros, so that it does not matter which matrix it meets.
    outer = paper_score(decoder.cross_attention.score, own.words)
    logits, crossed = [], []
    for h in states:
        ((context,), _, (weights,)) = find([[0.0] * 6], hidden, hidden, asked_by(outer, h))
        crossed.append(weights)
        out = times(decoder.to_logits.weight.tolist(), [*context, *h])
        logits.append(plus(out, decoder.to_logits.bias.tolist()))
    return logits, looked, crossed


def asked_by(score, h):
    return lambda x, _last, key, j: score(x, h, key, j)


def deep_by_loops(model, hidden, memory, words):
    """The same, with r ∘ α̃ brought into the decoder's memory."""
    decoder, own = model.decoder, model.decoder.self_attention
    inter = paper_score(decoder.cross_attention.score, decoder.asks)
    found, contents, crossed = find(words, hidden, memory, inter)
    brought = []
    for gamma, alpha, x in zip(found, contents, words, strict=True):
        sums = plus(times(decoder.gate.weight.tolist(), [*gamma, *x]), decoder.gate.bias.tolist())
        brought.append([sigmoid(a) * b for a, b in zip(sums, alpha, strict=True)])
    states, _, looked = read(words, decoder.cell, paper_score(own.score, own.words), brought)
    weight, bias = decoder.to_logits.weight.tolist(), decoder.to_logits.bias.tolist()
    return [plus(times(weight, h), bias) for h in states], looked, crossed


@both_fusions
def test_a_step_by_step_version_gives_the_same_logits_and_weights(source, target, fusion):
    model = made(fusion)
    with watch(model) as views:
        logits = model(source, target)
    assert set(views) == {(name, 0) for name in ("encoder.self", "decoder.self", "decoder.cross")}
    weights = {name: view.weights() for (name, _), view in views.items()}
    for row, length in enumerate(LENGTHS):
        hidden, memory, read_at = encoded(model, source[row, :length])
        words = model.decoder.tokens.weight[target[row]].tolist()
        if fusion == "deep":
            wanted, wrote_at, crossed = deep_by_loops(model, hidden, memory, words)
        else:
            wanted, wrote_at, crossed = shallow_by_loops(model, hidden, words)
        torch.testing.assert_close(logits[row], tensor(wanted))
        for name, looked in (("encoder.self", read_at), ("decoder.self", wrote_at)):
            for t, one in enumerate(looked):
                torch.testing.assert_close(weights[name][row, 0, t, :t], tensor(one))
        torch.testing.assert_close(weights["decoder.cross"][row, 0, :, :length], tensor(crossed))


# ------------------------------------------------------------------ laws


@every_system
def test_what_is_seen_gives_what_was_computed(source, target, changes):
    """Weights times values are h̃ and c̃; the cell makes the next entry of the tape of them."""
    model = made(**changes)
    before = model(source, target)
    with watch(model) as views:
        assert torch.equal(model(source, target), before)
    for name, shape in (("encoder.self", (7, 7)), ("decoder.self", (6, 6))):
        weights = views[name, 0].weights()
        assert weights.shape == (3, 1, *shape)
        sums = torch.ones(3, 1, shape[0], dtype=torch.float64)
        sums[:, :, 0] = 0  # the first step sees an empty tape
        torch.testing.assert_close(weights.sum(-1), sums)
        assert (weights.triu() == 0).all()
    assert (views["encoder.self", 0].weights()[1, :, :, 4:] == 0).all()
    cross = views["decoder.cross", 0].weights()
    assert cross.shape == (3, 1, 6, 7)
    assert (cross[1, :, :, 4:] == 0).all()
    torch.testing.assert_close(cross.sum(-1), torch.ones(3, 1, 6, dtype=torch.float64))

    (seen,) = views["encoder.self", 0].calls
    h, c = (views["encoder.self", 0].weights() @ seen.v)[:, 0].chunk(2, dim=-1)
    words = model.encoder.tokens(source)
    h, c = model.encoder.cell(model.encoder.cell.words(words), h, c)
    real = source != 0
    torch.testing.assert_close(torch.cat((h, c), dim=-1)[real], seen.v[:, 0][real])


@both_fusions
def test_steps_are_seen_as_one_run_is(source, target, fusion):
    model = made(fusion)
    with watch(model) as whole:
        model(source, target)
    with watch(model) as stepped:
        memory = model.encode(source)
        state = model.start(memory)
        for t in range(6):
            _, state = model.step(target[:, t], memory, state)
    assert len(stepped["decoder.self", 0].calls) == 6
    for key, view in whole.items():
        torch.testing.assert_close(stepped[key].weights(), view.weights())


# ------------------------------------------------------------------ costs and learning


@pytest.mark.parametrize(
    ("fusion", "score"), [("shallow", "additive"), ("deep", "additive"), ("deep", "dot")]
)
def test_the_flop_formula_counts_every_step(fusion, score):
    model = made(fusion, score)
    formula = flop_formula(model)
    assert formula.forward(15, 11) == pytest.approx(count_forward(model, 15, 11), rel=1e-9)


def products(fusion, d, s, t, v):
    """FLOPs of the matrix products, counted by hand."""

    def lstmn(n):
        words = 2 * n * d * 5 * d  # four gates and a query from each word
        asks = 2 * (n - 1) * d * d  # the first step has nobody to ask
        looks = n * (n - 1) // 2 * (2 * d + 2 * 2 * d)  # vᵀtanh, then h̃ and c̃
        gates, keys = 2 * n * d * 4 * d, 2 * n * d * d
        return words + asks + looks + gates + keys

    source_keys, cross_asks, cross_scores = 2 * s * d * d, 2 * t * d * d, 2 * t * s * d
    common = lstmn(s) + lstmn(t) + source_keys + cross_asks + cross_scores
    if fusion == "shallow":
        return common + 2 * t * s * d + 2 * t * 2 * d * v
    fused = 2 * t * d * d + 2 * t * s * 2 * d + 2 * t * 2 * d * d  # query, γ̃ and α̃, gate r
    return common + fused + 2 * t * d * v


@both_fusions
def test_flops_are_those_of_the_products(fusion):
    assert count_forward(made(fusion), 5, 7) == products(fusion, d=6, s=5, t=7, v=13)


@every_soft_system
def test_every_parameter_has_a_gradient(source, target, changes):
    model = made(**changes)
    model(source, target).pow(2).sum().backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path
        assert parameter.grad.abs().sum() > 0, path


@both_fusions
def test_it_learns_a_few_pairs_by_heart(source, target, fusion):
    model = made(fusion, d_model=16).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(60):
        optimizer.zero_grad()
        logits = model(source, target[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    assert loss < 0.1
    assert torch.equal(logits.argmax(-1), target[:, 1:])


@both_fusions
def test_it_is_saved_and_loaded(source, target, tmp_path, fusion):
    model = made(fusion).float()
    save_model(RunFolder(tmp_path), model.config, model.state_dict())
    again = load_model(RunFolder(tmp_path))
    assert again.config == model.config
    assert torch.equal(again(source, target), model(source, target))


# ------------------------------------------------------------------ settings


def test_the_preset_has_the_sizes_of_the_other_recurrent_systems():
    widths = {size: given["d_model"] for size, given in PRESETS["cheng2016"].sizes.items()}
    assert widths == {size: given["d_model"] for size, given in PRESETS["luong2015"].sizes.items()}
    config = resolve(
        ModelSettings(preset="cheng2016"), n_source_vocab=9, n_target_vocab=9, shared_vocab=True
    )
    assert (config.fusion, config.score) == ("deep", "additive")


@pytest.mark.parametrize("name", ["luong2015", "transformer"])
def test_other_systems_know_no_fusion(name):
    with pytest.raises(ConfigError, match=rf"model.fusion='deep': preset '{name}' has no setting"):
        parse(ModelSettings, {"preset": name, "fusion": "deep"}, "model")
