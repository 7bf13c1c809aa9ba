"""The form of a language model that writes in place gives what the model itself gives."""

import copy

import pytest
import torch
from language_models import LLAMA, language_model

from regard.fast import language_model as static_decoder
from regard.fast import weights
from regard.fast.language_model import StaticLanguageModel
from regard.fast.quick import quickened
from regard.inspection.capture import watch
from regard.kernels.call import reference_only

VARIANTS = [
    {},
    *({"positions": name} for name in ("sinusoidal", "rotary", "none")),
    {"positions": "rotary", "rotary_base": 100.0, "n_kv_heads": 2},
    {"n_kv_heads": 1, "tied": False},
    {**LLAMA, "n_kv_heads": 2},
    *({"activation": name} for name in ("relu", "gelu_tanh", "silu", "swiglu")),
]
every_variant = pytest.mark.parametrize("changes", VARIANTS, ids=str)


@pytest.fixture
def ids(rng):
    return torch.randint(0, 13, (3, 15), generator=rng)


@pytest.fixture
def narrow(monkeypatch):
    """Rooms that are full soon."""
    monkeypatch.setattr(static_decoder, "FEWEST_POSITIONS", 1)
    monkeypatch.setattr(static_decoder, "FORESEEN", 1)


def exact(**changes):
    """A model in double precision, and its form, which no number is rounded in."""
    model = language_model(**changes).double()
    return model, StaticLanguageModel(model, torch.float64)


def stepped(cache, ids, n_read):
    """Logits after each token from the last that is read at once; (B, T - n_read + 1, V)."""
    found = [cache.begin(None, ids[:, :n_read])]
    found += [cache.step(ids[:, t]).clone() for t in range(n_read, ids.shape[1])]
    return torch.stack(found, dim=1)


@every_variant
@pytest.mark.parametrize("n_read", [1, 6])
@torch.inference_mode()
def test_stepping_equals_forward(ids, narrow, changes, n_read):
    model, form = exact(**changes)
    with form.session(3, n_read, 15 - n_read) as cache:
        before = cache.n_positions
        torch.testing.assert_close(stepped(cache, ids, n_read), model(ids)[:, n_read - 1 :])
        assert cache.n_positions == 16 > before


@every_variant
@torch.inference_mode()
def test_so_does_stepping_as_a_gpu_does_it(ids, changes, monkeypatch):
    """Rows rounded up to recorded sizes, and the sub-layers for few rows."""
    monkeypatch.setattr(weights, "can_pack", lambda _: False)
    model = language_model(**changes)
    with StaticLanguageModel(model, torch.float32).session(3, 6, 9) as cache:
        cache.ahead = True
        found = stepped(cache, ids, 6)
    torch.testing.assert_close(found, model(ids)[:, 5:], atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_rows_leave_and_the_others_go_on(ids, narrow):
    model, form = exact(**LLAMA, n_kv_heads=2)
    with form.session(3, 5, 10) as cache:
        cache.begin(None, ids[:, :5])
        cache.step(ids[:, 5])
        kept = torch.tensor([0, 2])
        cache.select(kept)
        for t in range(6, 15):
            found = cache.step(ids[kept, t])
        torch.testing.assert_close(found, model(ids)[kept, -1])


@torch.inference_mode()
def test_a_room_begins_anew_with_each_text(ids):
    model, form = exact(**LLAMA)
    with form.session(3, 5, 10) as cache:
        stepped(cache, ids, 5)
    with form.session(2, 3, 4) as again:
        assert again is cache
        torch.testing.assert_close(stepped(again, ids[1:, :7], 3), model(ids[1:, :7])[:, 2:])


def test_each_who_asks_gets_another_room(narrow):
    _, form = exact()
    with form.session(1, 3, 4) as one, form.session(1, 3, 4) as other:
        assert one is not other
    with form.session(1, 3, 4) as first, form.session(1, 3, 4) as second:
        assert {first, second} == {one, other}
    with form.session(2, 3, 4) as larger:
        assert larger not in (one, other)
    with form.session(1, 3, 4) as last:
        assert last is larger


def test_a_room_is_given_back_whatever_happens(narrow):
    _, form = exact()
    with pytest.raises(ZeroDivisionError), form.session(1, 3, 4) as cache:
        1 / 0  # noqa: B018
    with form.session(1, 3, 4) as again:
        assert again is cache


def test_long_texts_are_written_by_fewer_at_once(monkeypatch):
    _, form = exact(n_kv_heads=2)  # 3 layers, keys and values, 2 heads of 6: 72 numbers a token
    monkeypatch.setattr(static_decoder, "MOST_NUMBERS", 7_200)
    assert form.most_rows(10, 15) == 4
    assert form.most_rows(500, 500) == 1


def test_what_is_kept_is_the_same_until_weights_change(ids):
    model = language_model(**LLAMA)
    form = quickened(model)
    assert isinstance(form, StaticLanguageModel)
    assert quickened(model) is form
    assert quickened(model, torch.float32) is form
    with torch.no_grad():
        model.norm.weight.mul_(2.0)
    changed = quickened(model)
    assert changed is not form
    with torch.inference_mode(), changed.session(3, 15, 1) as cache:
        torch.testing.assert_close(cache.begin(None, ids), model(ids)[:, -1], atol=1e-4, rtol=1e-4)


def test_training_outdates_what_is_kept():
    model = language_model()
    form = quickened(model)
    assert quickened(model.train()) is model
    assert quickened(model.eval()) is not form


def test_the_model_itself_writes_where_there_is_no_such_form():
    model = language_model()
    with watch(model):
        assert quickened(model) is model
    with reference_only():
        assert quickened(model) is model
    assert quickened(model) is not model
    assert quickened(language_model(positions="alibi")).__class__.__name__ == "LanguageModel"
    double = language_model().double()
    assert quickened(double) is double


@pytest.mark.parametrize(
    "changes",
    [
        {"score": "additive"},
        {"window": "local_m"},
        {"windows": ("global", "compressed")},
        {"norm_first": False},
        {"join": "concat", "positions": "sinusoidal"},
    ],
    ids=str,
)
def test_what_the_cache_does_not_compute_is_left_to_the_model(changes):
    model = language_model(**changes)
    assert quickened(model) is model


def test_a_copy_has_nothing_of_the_original():
    model = language_model()
    form = quickened(model)
    other = copy.deepcopy(model)
    assert quickened(other) is not form
    assert quickened(other).model is other


def test_half_precision_stays_near(ids):
    model = language_model(**LLAMA)
    form = quickened(model, torch.bfloat16)
    if form is model:
        pytest.skip("no bf16 kernels here")
    with torch.inference_mode(), form.session(3, 6, 9) as cache:
        off = stepped(cache, ids, 6) - model(ids)[:, 5:]
        assert cache.logits.dtype == torch.float32
    assert off.abs().max() < 0.05 * model(ids).abs().max()


@torch.inference_mode()
def test_a_room_that_grew_records_in_memory_of_its_own(ids, narrow, monkeypatch):
    """Torch lets a pool go with the last recording in it, and growing drops them all."""
    pools = []

    class Noted(static_decoder.Graphed):
        def __init__(self, work, *, changes, pool):
            super().__init__(work, changes=changes, pool=pool)
            pools.append(pool)

    monkeypatch.setattr(static_decoder, "Graphed", Noted)
    monkeypatch.setattr(static_decoder, "shared_pool", lambda _: object())
    with exact()[1].session(3, 6, 9) as cache:
        before = cache.n_positions
        stepped(cache, ids, 6)
        assert cache.n_positions > before
    assert len(pools) == len(set(map(id, pools))) > 1


@torch.inference_mode()
def test_trying_out_the_last_step_stays_within_a_learned_table():
    """A recording tries its work out more than once, and the table ends before the cache."""
    model = language_model(max_len=8)
    with StaticLanguageModel(model, torch.float32).session(1, 7, 2) as cache:
        cache.begin(None, torch.ones(1, 7, dtype=torch.long))
        for _ in range(3):
            cache._work(1)
        assert int(cache.position) == 7
