"""Learning from rewards, against all outputs enumerated.

The oracle writes out every target of a tiny vocabulary, its probability by plain forwards in which
what is never sampled is left out, and takes the gradient of Σ P(y) · r(y).
"""

import sys
from itertools import product

import pytest
import torch
from systems import system

from regard.data.examples import Example
from regard.data.pair_batches import collate_pairs
from regard.decoding.sampling import Sampler, noise_for, sample
from regard.models.captioner import CaptioningConfig
from regard.models.presets import ModelSettings, build, presets_for, resolve_for
from regard.models.settings import SequenceConfig
from regard.tasks.rewards import SampledTexts
from regard.tasks.translating import SourceBatch
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID
from regard.training.expected_reward import ExpectedReward, Samples, reward_loss, target_log_probs
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss
from regard.training.update import Update

N_VOCAB, LIMIT = 6, 2
WORDS = (3, 4, 5)
SOURCE = (4, 5, 3)
OUTPUTS = [(END_ID,), *((word, END_ID) for word in WORDS), *product(WORDS, repeat=LIMIT)]
"""All that can be sampled: what ends, and what the limit cuts off."""


def shaken(preset):
    model = system(preset, n_vocab=N_VOCAB, dropout=0.0).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn_like(weight)  # else all tokens are alike
    return model.train()


CAPTIONERS = {
    "tell": {"decoder": "tell", "encoder": "conv"},
    "attend, batch norm": {"encoder": "stem", "positions": "sinusoidal", "query": "current"},
    "transformer": {"preset": "transformer-captioner", "n_layers": 1, "n_heads": 2, "d_ff": 16},
}
PICTURES = torch.randint(0, 256, (3, 3, 16, 16), generator=torch.Generator().manual_seed(2))


def captioner(kind):
    """In training, its batch norms having seen some pictures."""
    settings = {"preset": "show-attend-tell2015", "d_model": 12, "dropout": 0.0, "max_len": 24}
    settings = ModelSettings(**{**settings, **CAPTIONERS[kind]})
    sizes = {"n_target_vocab": N_VOCAB, "image_size": 16}
    torch.manual_seed(1)
    model = build(resolve_for("captioning", CaptioningConfig, settings, **sizes)).double().train()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn_like(weight)
        model.encode(PICTURES.double() / 255)
    return model


def reward(ids):
    """Something that differs for every output."""
    return sum((t + 1) * (token - 1) for t, token in enumerate(ids)) % 7 / 7


REWARDS = torch.tensor([reward(ids) for ids in OUTPUTS], dtype=torch.float64)


def batch(n=1):
    return collate_pairs([Example(SOURCE, (5, 4))] * n)


def probabilities(model, source=None):
    """(Y,): of every output, by plain forwards, one softmax a token over what may be sampled."""
    source, found = batch().source if source is None else source, []
    may = [i for i in range(N_VOCAB) if i not in (PAD_ID, BEGIN_ID)]
    for ids in OUTPUTS:
        logits = model(source, torch.tensor([[BEGIN_ID, *ids[:-1]]]))[0]
        each = [logits[t, may].softmax(dim=0)[may.index(token)] for t, token in enumerate(ids)]
        found.append(torch.stack(each).prod())
    return torch.stack(found)


def gradient(value, model):
    found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    return torch.cat([x.flatten() for x in found if x is not None])


def padded(outputs):
    rows = [[BEGIN_ID, *ids, *[PAD_ID] * (LIMIT - len(ids))] for ids in outputs]
    return torch.tensor(rows)


def objective(draw, **settings):
    settings = TrainSettings(max_steps=1, objective="gleu", init="some/run", **settings)
    return ExpectedReward(settings, TokenLoss(settings), draw)


@pytest.mark.parametrize("preset", presets_for(SequenceConfig))
def test_samples_have_the_log_probability_of_a_plain_forward(preset):
    model = shaken(preset).eval()
    found = target_log_probs(model, batch().source, padded(OUTPUTS))
    wanted = probabilities(model)
    torch.testing.assert_close(found, wanted.log(), rtol=0, atol=1e-9)
    assert wanted.sum().item() == pytest.approx(1, abs=1e-9)
    got = gradient((found * REWARDS).sum(), model)
    torch.testing.assert_close(got, gradient((wanted.log() * REWARDS).sum(), model))


@pytest.mark.parametrize("kind", CAPTIONERS)
def test_a_captioner_in_training_learns_what_it_sampled_in_evaluation(kind):
    """Whatever other pictures a batch has: a batch norm that learns would mix them."""
    model, pixels = captioner(kind), PICTURES.double() / 255
    before = {name: x.clone() for name, x in model.named_buffers()}
    found = target_log_probs(model, pixels, padded(OUTPUTS * 3)).view(3, -1)
    got = gradient((found * REWARDS).sum(), model)
    assert all(x.equal(before[name]) for name, x in model.named_buffers())
    assert all(one.training for one in model.modules())
    model.eval()
    wanted = torch.stack([probabilities(model, one[None]) for one in pixels])
    torch.testing.assert_close(found, wanted.log(), rtol=0, atol=1e-9)
    torch.testing.assert_close(got, gradient((wanted.log() * REWARDS).sum(), model))


@pytest.mark.parametrize("preset", ["transformer", "gnmt2016", "moe2017", "convs2s2017"])
def test_samples_that_are_read_in_parts_teach_the_same(preset, monkeypatch):
    """Experts draw noise, here and wherever the backward pass reads a part again: none of it."""
    model = shaken(preset)
    some = batch(5).source.clone()
    some[1:3] = some[1:3].flip(1)
    drawn = padded([OUTPUTS[i % len(OUTPUTS)] for i in range(15)])
    rewards = torch.arange(15.0, dtype=torch.float64)

    def learned():
        log_probs = target_log_probs(model, some, drawn)
        n_kept = sum(x.numel() for x in kept)
        return log_probs.detach(), gradient((log_probs * rewards).sum(), model), n_kept

    kept = []
    monkeypatch.setattr(sys.modules[ExpectedReward.__module__], "PART", 100)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        whole = learned()
        kept.clear()
        monkeypatch.setattr(sys.modules[ExpectedReward.__module__], "PART", 1)  # of two sources
        parts = learned()
    torch.testing.assert_close(parts[:2], whole[:2], rtol=1e-9, atol=1e-11)
    assert parts[2] < whole[2] / 5


@pytest.mark.parametrize("k", [2, 3])
def test_over_all_draws_the_gradient_is_that_of_the_expected_reward(k):
    """Every tuple of k samples, weighted with its chance: the baseline adds no bias."""
    model = shaken("luong2015")
    chances = probabilities(model)
    wanted = gradient((chances * REWARDS).sum(), model)
    log_probs = target_log_probs(model, batch().source, padded(OUTPUTS))
    total = 0.0
    for drawn in product(range(len(OUTPUTS)), repeat=k):
        drawn = list(drawn)
        loss = reward_loss(log_probs[drawn], REWARDS[drawn][None])
        total = total + chances.detach()[drawn].prod() * loss
    torch.testing.assert_close(-gradient(total, model), wanted, rtol=1e-8, atol=1e-12)
    assert -total.item() == pytest.approx((chances * REWARDS).sum().item())


RIGHT = [("5 4",), ("3",), *[("5 4",)] * 198]


def drawing(reward, n, right=RIGHT):
    say = lambda ids: " ".join(map(str, ids))  # noqa: E731
    return SampledTexts(n=n, reward=reward, sources=sources, references=right, say=say)


def sources(_model, batch):
    limits = torch.full((len(batch.source),), LIMIT)
    return SourceBatch(batch.source, limits, batch.numbers)


@pytest.mark.parametrize("preset", ["transformer", "bahdanau2015"])
def test_many_samples_come_near_the_gradient_of_the_expected_reward(preset):
    model = shaken(preset)
    chances = probabilities(model)
    wanted = gradient((chances * REWARDS).sum(), model)
    known = {" ".join(str(i) for i in ids if i != END_ID): reward(ids) for ids in OUTPUTS}
    loss = objective(drawing(lambda said, _: known[said], 40), likelihood_weight=0.0)
    losses, n = loss(model, batch(200)), 200
    mean = losses.sums["rl"].item() / n
    assert mean == pytest.approx(-(chances * REWARDS).sum().item(), abs=0.01)
    found = -gradient(losses.total, model) / n
    assert torch.cosine_similarity(found, wanted, dim=0) > 0.99
    assert found.norm().item() == pytest.approx(wanted.norm().item(), rel=0.1)


def test_each_source_is_compared_with_its_own_samples():
    model = shaken("luong2015")
    ids = padded([OUTPUTS[5], OUTPUTS[1], OUTPUTS[8], OUTPUTS[0]])
    rewards = torch.tensor([[0.5, 0.25], [1.0, 0.0]], dtype=torch.float64)
    draw = lambda *_: Samples(batch(2).source, ids, rewards)  # noqa: E731
    losses = objective(draw, likelihood_weight=0.3, label_smoothing=0.0)(model, batch(2))
    assert losses.sums["rl"].item() == pytest.approx(-(0.375 + 0.5))
    assert losses.counts == {"likelihood": 6, "rl": 2}
    right = TokenLoss(TrainSettings(max_steps=1, label_smoothing=0.0))(model, batch(2)).total
    assert losses.sums["likelihood"].item() == pytest.approx(0.3 * right.item(), rel=1e-5)
    log_probs = target_log_probs(model, batch(2).source, ids)
    gains = torch.tensor([0.125, -0.125, 0.5, -0.5], dtype=torch.float64)
    wanted = gradient(-(gains * log_probs).sum() + 0.3 * right, model)
    torch.testing.assert_close(gradient(losses.total, model), wanted, rtol=1e-4, atol=1e-6)


def test_a_constant_reward_teaches_nothing():
    model = shaken("transformer")
    loss = objective(drawing(lambda *_: 0.7, 5), likelihood_weight=0.0)
    losses = loss(model, batch())
    assert losses.sums["rl"].item() == pytest.approx(-0.7)
    assert gradient(losses.total, model).abs().max() < 1e-7


def test_the_seed_of_the_batch_decides_what_is_drawn():
    model, seen = shaken("luong2015"), []
    inner = drawing(lambda *_: 0.0, 6)

    def draw(model, batch, rng):
        assert not model.training  # searches want a model without dropout
        seen.append(inner(model, batch, rng).ids.tolist())
        return inner(model, batch, rng)

    loss = objective(draw)
    for seed in (1, 2, 3, 2):
        torch.manual_seed(seed)
        loss(model, batch())
    assert model.training
    assert seen[0] != seen[1] != seen[2]
    assert seen[3] == seen[1]


def test_samples_are_those_of_a_search_with_all_rows_in_it():
    """One search for all samples, which end where the model ends them or at the limit."""
    model = shaken("transformer")
    rng = torch.Generator().manual_seed(3)
    samples = drawing(lambda said, right: float(said == right), 30)(model.eval(), batch(2), rng)
    source = batch(2).source.repeat_interleave(30, dim=0)
    noise = noise_for([LIMIT] * 60, torch.Generator().manual_seed(3))
    limits = torch.full((60,), LIMIT)
    found = sample(model, source, limits=limits, sampler=Sampler(noise))
    wanted = [(*one.ids, END_ID) if one.finished else one.ids for one in found]
    assert {*wanted} <= {*OUTPUTS}
    assert samples.ids.tolist() == padded(wanted).tolist()
    right = [(5, 4)] * 30 + [(3,)] * 30
    earned = [float(one.ids == ids) for one, ids in zip(found, right, strict=True)]
    assert samples.rewards.flatten().tolist() == earned
    assert 0 < sum(earned) < 60


def test_a_sample_earns_what_the_nearest_right_text_gives():
    model, rng = shaken("transformer").eval(), torch.Generator().manual_seed(3)
    said = []

    def close(text, right):
        said.append((text, right))
        return {"5 4": 0.25, "3": 0.75, "4": 0.125}[right]

    found = drawing(close, 2, right=[("5 4", "3", "4"), ("4",)])(model, batch(2), rng)
    assert found.rewards.tolist() == [[0.75, 0.75], [0.125, 0.125]]
    assert [right for _, right in said] == ["5 4", "3", "4"] * 2 + ["4"] * 2
    assert found.source.equal(batch(2).source)


@pytest.mark.parametrize("preset", ["moe2017", "gnmt2016"])
def test_an_update_has_its_named_losses_beside_those_of_experts(preset):
    model, seen = shaken(preset), []
    settings = TrainSettings(max_steps=1, objective="gleu", init="some/run")
    loss = ExpectedReward(settings, TokenLoss(settings), drawing(lambda said, _: len(said) / 3, 4))
    before = [weight.detach().clone() for weight in model.parameters()]
    Update(model, loss, settings, torch.device("cpu"))([batch(3)], 0.01, seen.append)
    balance = {"importance", "load"} if preset == "moe2017" else set()
    assert seen[0].losses.sums.keys() == {"likelihood", "rl"} | balance
    changed = [not one.equal(two) for one, two in zip(before, model.parameters(), strict=True)]
    assert sum(changed) > len(changed) / 2


def test_experts_are_rewarded_for_what_they_sampled_not_for_noise():
    model = shaken("moe2017")
    seen, sampled = [], drawing(lambda said, _: float(len(said)), 3)

    def draw(model, batch, rng):
        found = sampled(model, batch, rng)
        with torch.no_grad():
            seen.append(target_log_probs(model, batch.source, found.ids))
        return found

    told = []
    with pytest.MonkeyPatch.context() as patch:
        module = sys.modules[ExpectedReward.__module__]
        kept = module.reward_loss
        patch.setattr(module, "reward_loss", lambda p, r: told.append(p.detach()) or kept(p, r))
        model.train()
        objective(draw)(model, batch(2))
    torch.testing.assert_close(told[0], seen[0])
