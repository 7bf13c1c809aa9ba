"""Forms of a Transformer for decoding write what the model itself writes."""

import copy

import pytest
import torch
from tiny import tiny_config

from regard.decoding import static_search
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.decoding.sampling import Sampler, noise_for, sample
from regard.decoding.search import BeamSettings
from regard.decoding.static_search import StaticBeam, StaticGreedy
from regard.fast.quick import quickened
from regard.fast.transformer_cpu import CpuTransformer
from regard.fast.transformer_gpu import GpuTransformer
from regard.kernels.call import reference_only
from regard.models.presets import build
from regard.models.transformer import Transformer
from regard.text.specials import BEGIN_ID, END_ID

FORMS = [CpuTransformer, GpuTransformer]
PLAIN = [
    {},
    {"norm_first": True},
    {"bias": False, "norm_first": True},
    {"positions": "learned"},
    {"positions": "none", "score": "dot"},
    {"shared_vocab": False, "n_source_vocab": 17},
]
OTHER = [
    {"score": "additive"},
    {"score": "general"},
    {"window": "local_m"},
    {"windows": ("global", "block")},
    {"normaliser": "hard"},
    {"positions": "index"},
    {"join": "concat"},
    {"positions": "alibi"},
    {"positions": "rotary"},
    {"memory": "each"},
    {"cross_after": "feed_forward"},
    {"norm": "rms"},
    {"n_kv_heads": 1},
    {"tied_output": False},
]
N = 11


def model_of(seed=1, **changes):
    """Single precision; the first that ends some sentences and others not, in various words."""
    source, limits = work(torch.Generator().manual_seed(seed))
    for attempt in range(100):
        torch.manual_seed(100 * seed + attempt)
        model = Transformer(tiny_config(max_len=48, **changes)).eval()
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name.endswith(("to_out.weight", "outer.weight")):
                    weight *= 3  # else tokens repeat themselves
                if weight.dim() == 1:
                    weight += 0.3 * torch.randn_like(weight)  # norms and biases of their own
            model.decoder.embedding.tokens.weight[END_ID] *= 1 + attempt / 20
        found = greedy(model, source, limits=limits)
        words = {word for one in found for word in one.ids}
        if len(words) > 2 and 1 < sum(one.finished for one in found) < N - 1:
            return model
    raise AssertionError("no such model")


def work(rng, n=N):
    """Sources of all lengths, and a limit for each."""
    source = torch.randint(4, 13, (n, 9), generator=rng)
    lengths = torch.randint(1, 10, (n,), generator=rng)
    source[torch.arange(9) >= lengths[:, None]] = 0
    return source, torch.randint(1, 30, (n,), generator=rng)


def equal(found, wanted):
    assert [(one.ids, one.finished) for one in found] == [(o.ids, o.finished) for o in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
        assert mine.score == pytest.approx(theirs.score, abs=1e-4)


def flat(found):
    return [one for best in found for one in best]


@pytest.fixture(params=["cpu", "in place", "as if recorded"])
def form(request, monkeypatch):
    """As if recorded: steps of few sizes, looked at one step later; but nothing is recorded."""
    recorded = request.param == "as if recorded"
    monkeypatch.setattr(static_search, "are_captured", lambda _cache: recorded)
    return CpuTransformer if request.param == "cpu" else GpuTransformer


@pytest.mark.parametrize("changes", PLAIN, ids=str)
def test_greedy_search_writes_the_same(rng, form, changes):
    model = model_of(**changes)
    ready = form(model, torch.float32)
    ended = set()
    for n in (N, 1, 40):  # the cache is used again, then too small
        source, limits = work(rng, n)
        wanted = greedy(model, source, limits=limits)
        equal(greedy(ready, source, limits=limits), wanted)
        ended |= {one.finished for one in wanted}
    assert ended == {True, False}


@pytest.mark.parametrize("stop", ["exact", "first"])
@pytest.mark.parametrize("changes", PLAIN, ids=str)
def test_beam_search_writes_the_same(rng, form, changes, stop):
    model = model_of(**changes)
    ready = form(model, torch.float32)
    for n, alpha in ((N, 0.8), (1, 0.8), (20, 0.0)):
        source, limits = work(rng, n)
        how = {"limits": limits, "n_beams": 3, "n_best": 2, "length_penalty": alpha, "stop": stop}
        equal(flat(beam_search(ready, source, **how)), flat(beam_search(model, source, **how)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("changes", PLAIN, ids=str)
def test_stepping_in_place_equals_forward(rng, form, changes):
    model = model_of(**changes)
    source, _ = work(rng)
    target = torch.randint(4, 13, (N, 12), generator=rng)
    target[:, 0] = BEGIN_ID
    with torch.inference_mode():
        full = model(source, target)
        cache = form(model, torch.float32).cache(N, 16, 256, 1)
        cache.read(source)
        cache.owners[:] = torch.arange(N)
        for t in range(12):
            cache.ids[:], cache.positions[:] = target[:, t], t
            torch.testing.assert_close(cache.step(N), full[:, t], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_sinusoids_go_on_beyond_the_table(rng, form):
    model = model_of()
    source, _ = work(rng, 2)
    limits = torch.tensor([100, 80])
    equal(
        greedy(form(model, torch.float32), source, limits=limits),
        greedy(model, source, limits=limits),
    )


def test_a_learned_table_does_not_and_says_so_as_ever(rng):
    model = model_of(positions="learned")
    with torch.no_grad():
        model.decoder.embedding.tokens.weight[END_ID] = 0.0
    source, _ = work(rng, 2)
    with pytest.raises(Exception, match="learned positions know 48 places"):
        greedy(quickened(model), source, limits=torch.tensor([60, 60]))


@pytest.mark.parametrize("form", FORMS)
def test_bf16_is_near(rng, form):
    model = model_of()
    source, _ = work(rng)
    with torch.inference_mode():
        caches = [
            form(model, dtype).cache(N, 16, 256, 1) for dtype in (torch.float32, torch.bfloat16)
        ]
        for cache in caches:
            cache.read(source)
            cache.owners[:] = torch.arange(N)
            cache.ids[:], cache.positions[:] = BEGIN_ID, 0
        wide, narrow = (cache.step(N).float() for cache in caches)
    assert not torch.equal(wide, narrow)
    assert (wide - narrow).abs().max() < 0.05 * wide.abs().max()


@pytest.mark.parametrize("n_beams", [1, 3])
def test_a_step_beyond_the_last_does_no_harm(rng, n_beams):
    """Whoever records a step tries it out before, also in the last position there is."""
    source, _ = work(rng, 4)
    with torch.inference_mode():
        cache = GpuTransformer(model_of(), torch.float32).cache(4 * n_beams, 8, 64, n_beams)
        if n_beams == 1:
            search = StaticGreedy(cache)
            search.limits[:] = 8
        else:
            search = StaticBeam(cache, BeamSettings(n_beams, 1, 0.6))
            search.search.limits[:] = 8
        search.begin(source)
        for _ in range(8):
            search.work(4)
        assert search.ended.all()
        kept = [part.clone() for part in search.changes()[-3:]]
        for _ in range(2):
            search.work(4)
        assert all(map(torch.equal, kept, search.changes()[-3:]))


def test_searches_that_cannot_stay_are_served_by_the_model(rng):
    model = model_of()
    source, limits = work(rng)
    noise = noise_for(limits.tolist(), torch.Generator().manual_seed(3))
    draws = [
        sample(one, source, limits=limits, sampler=Sampler(noise))
        for one in (quickened(model), model)
    ]
    equal(*draws)
    prefixes = [(5, 6)[: row % 3] for row in range(len(source))]
    begun = [
        beam_search(one, source, limits=limits.clamp(min=3), n_beams=2, prefixes=prefixes)
        for one in (quickened(model), model)
    ]
    equal(*map(flat, begun))
    many = beam_search(quickened(model), source, limits=limits, n_beams=9)  # more than half of 13
    equal(flat(many), flat(beam_search(model, source, limits=limits, n_beams=9)))


def test_quick_is_kept_until_the_weights_change(rng):
    model = model_of()
    source, limits = work(rng)
    first = quickened(model)
    assert isinstance(first, CpuTransformer)
    assert quickened(model) is first
    before = greedy(first, source, limits=limits)
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.inner.weight *= -2  # leaves a trace
    after = greedy(quickened(model), source, limits=limits)
    equal(after, greedy(model, source, limits=limits))
    assert [one.ids for one in before] != [one.ids for one in after]


@pytest.mark.parametrize("form", FORMS)
def test_an_updated_form_is_as_good_as_a_new_one(rng, form):
    model, other = model_of(seed=1, positions="learned"), model_of(seed=2, positions="learned")
    source, limits = work(rng)
    with torch.inference_mode():
        ready = form(model, torch.float32)
        before = greedy(ready, source, limits=limits)
        ready.update(other)
    wanted = greedy(other, source, limits=limits)
    equal(greedy(ready, source, limits=limits), wanted)
    assert [one.ids for one in before] != [one.ids for one in wanted]


def test_training_outdates_it_even_if_the_optimiser_leaves_no_trace(rng):
    model = model_of()
    source, limits = work(rng)
    before = greedy(quickened(model), source, limits=limits)
    model.train()
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=rng)
    torch.optim.Adam(model.parameters(), lr=0.5, fused=True).step()
    model.eval()
    after = greedy(quickened(model), source, limits=limits)
    equal(after, greedy(model, source, limits=limits))
    assert [one.ids for one in before] != [one.ids for one in after]


@pytest.mark.parametrize("changes", OTHER, ids=str)
def test_other_models_are_their_own_quick_form(changes):
    model = build(tiny_config(**changes)).eval()
    assert quickened(model) is model


def test_it_steps_aside_where_something_else_is_wanted():
    model = model_of()
    assert quickened(model.double()) is model  # no kernels for float64
    assert quickened(model.float()) is not model
    assert quickened(model.train()) is model
    model.eval()
    with reference_only():
        assert quickened(model) is model
    view = model.decoder.layers[1].cross_attention.view
    handle = view.register_forward_hook(lambda *_: None)
    assert quickened(model) is model  # somebody watches
    handle.remove()
    assert quickened(model) is not model


def test_copies_of_a_model_have_no_part_in_it(rng):
    model = model_of()
    first = quickened(model)
    again = copy.deepcopy(model)
    assert quickened(again) is not first
    source, limits = work(rng)
    equal(greedy(quickened(again), source, limits=limits), greedy(first, source, limits=limits))
    assert not any("kept" in name for name in model.state_dict())


def test_a_fused_optimiser_outdates_it_without_a_word_of_training(rng):
    model = model_of()
    source, limits = work(rng)
    quickened(model)
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=rng)
    torch.optim.Adam(model.parameters(), lr=0.5, fused=True).step()
    equal(greedy(quickened(model), source, limits=limits), greedy(model, source, limits=limits))


def test_sources_are_padded_no_further_than_learned_positions_go():
    learned, free = (
        GpuTransformer(build(tiny_config(positions=name, max_len=20)), torch.float32)
        for name in ("learned", "sinusoidal")
    )
    assert [learned._padded(n) for n in (1, 16, 17, 20)] == [16, 16, 20, 20]
    assert [free._padded(n) for n in (1, 16, 17, 20)] == [16, 16, 32, 32]


@torch.inference_mode()
def test_a_source_of_padding_alone_gives_what_the_model_gives(rng):
    model = model_of()
    source, limits = work(rng)
    source[1] = model.config.pad_id
    equal(greedy(quickened(model), source, limits=limits), greedy(model, source, limits=limits))
