import pytest
import torch
from language_models import LLAMA, language_model

import regard
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.decoding.protocol import ControlIds
from regard.fast import language_model as static_decoder
from regard.fast import weights
from regard.fast.language_model import StaticLanguageModel, TextCache
from regard.fast.quick import quickened
from regard.tasks import generation as generating
from regard.tasks.generation import GenerationConfig, generate, stream

CPU = torch.device("cpu")
PROMPTS = [[5, 3, 9], [7], [4, 4, 8], [6, 2, 10, 11, 3], [12, 1, 5]]


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def how(end_ids=(), hidden_ids=(), **config):
    return GenerationConfig(control=ControlIds(frozenset(end_ids), tuple(hidden_ids)), **config)


def written(model, prompts, seed=0, ended=None, **config):
    found = generate(model, prompts, how(**config), rng=rng(seed), device=CPU, ended=ended)
    return [one for (one,) in found]


@torch.no_grad()
def by_forward(model, prompt, n, end_ids=()):
    """The most probable token after all before it, again and again."""
    ids, log_prob = list(prompt), 0.0
    for _ in range(n):
        log_probs = model(torch.tensor([ids]))[0, -1].log_softmax(dim=-1)
        ids.append(int(log_probs.argmax()))
        log_prob += float(log_probs.max())
        if ids[-1] in end_ids:
            return tuple(ids[len(prompt) : -1]), log_prob, True
    return tuple(ids[len(prompt) :]), log_prob, False


@pytest.mark.parametrize("changes", [{}, {**LLAMA, "n_kv_heads": 2}], ids=["gpt", "llama"])
def test_greedy_continuing_is_taking_the_argmax_of_forward_again_and_again(changes):
    model = language_model(**changes)
    first = by_forward(model, PROMPTS[0], 9)[0]
    end = first[4]  # so that a text ends before its limit
    found = written(model, PROMPTS, max_new=9, end_ids=frozenset({end}), temperature=0.0)
    assert not all(one.finished for one in found)
    assert any(one.finished for one in found)
    for prompt, one in zip(PROMPTS, found, strict=True):
        ids, log_prob, finished = by_forward(model, prompt, 9, {end})
        assert (one.ids, one.finished) == (ids, finished)
        assert one.log_prob == pytest.approx(log_prob, abs=1e-4)


def test_what_shares_a_batch_changes_no_text():
    model = language_model()
    together = written(model, PROMPTS, max_new=8, temperature=1.3)
    one_by_one = rng()
    alone = [
        generate(
            model, [p], GenerationConfig(max_new=8, temperature=1.3), rng=one_by_one, device=CPU
        )[0][0]
        for p in PROMPTS
    ]
    assert [one.ids for one in together] == [one.ids for one in alone]
    assert len({one.ids for one in together}) > 1


def test_a_text_that_ends_leaves_the_others_as_they_were():
    model = language_model()
    prompts = [PROMPTS[0], PROMPTS[2], PROMPTS[4]]
    whole = written(model, prompts, max_new=8)
    end = whole[1].ids[2]
    cut = written(model, prompts, max_new=8, end_ids=frozenset({end}))
    for one, other in zip(whole, cut, strict=True):
        n = one.ids.index(end) if end in one.ids else 8
        assert other.ids == one.ids[:n]
        assert other.finished == (end in one.ids)
    assert len(cut[1].ids) == 2


def test_seeds_decide_and_greedy_search_needs_none():
    model = language_model()
    assert written(model, PROMPTS, seed=3, max_new=6) == written(model, PROMPTS, seed=3, max_new=6)
    assert written(model, PROMPTS, seed=3, max_new=6) != written(model, PROMPTS, seed=4, max_new=6)
    first, second = (written(model, PROMPTS, s, max_new=6, temperature=0.0) for s in (3, 4))
    assert first == second


def test_cutting_to_the_most_probable_token_is_greedy():
    model = language_model()
    greedy = written(model, PROMPTS, max_new=6, temperature=0.0)
    assert written(model, PROMPTS, max_new=6, top_k=1) == greedy
    assert [one.ids for one in written(model, PROMPTS, max_new=6, top_p=1e-9)] == [
        one.ids for one in greedy
    ]


def test_hidden_ids_are_never_chosen():
    model = language_model()
    found = written(model, [[5]] * 40, max_new=12, hidden_ids=(0, 7, 3), temperature=3.0)
    chosen = {number for one in found for number in one.ids}
    assert chosen == set(range(13)) - {0, 7, 3}


def test_the_context_is_filled_to_the_last_token_and_no_further():
    model = language_model()  # reads 17
    prompts = [[5] * 17, [5] * 15, [5]]
    found = written(model, prompts, max_new=30, context=17, temperature=0.0)
    assert [len(one.ids) for one in found] == [1, 3, 17]
    assert not any(one.finished for one in found)


def test_a_prompt_beyond_the_context_is_refused_with_both_lengths():
    with pytest.raises(DataError, match="prompt of 18 tokens, but the context holds 17"):
        written(language_model(), [[5] * 18], max_new=3, context=17)
    with pytest.raises(DataError, match="at least one token"):
        written(language_model(), [[]], max_new=3)


def test_who_asks_may_end_a_text():
    model = language_model()
    found = written(model, PROMPTS, max_new=9, ended=lambda row, ids: len(ids) == row + 1)
    assert [len(one.ids) for one in found] == [1, 2, 3, 4, 5]
    assert all(one.finished for one in found)


def test_tokens_come_one_by_one():
    model = language_model()
    (whole,) = written(model, PROMPTS[:1], max_new=5)
    coming = stream(model, PROMPTS[0], GenerationConfig(max_new=5), rng=rng(), device=CPU)
    assert next(coming) == whole.ids[0]
    assert list(coming) == list(whole.ids[1:])


def test_nothing_is_made_of_no_prompts():
    assert written(language_model(), [], max_new=3) == []


def test_impossible_manners_are_refused():
    with pytest.raises(ConfigError, match="max_new must be at least 1: 0"):
        GenerationConfig(max_new=0)
    with pytest.raises(ConfigError, match="temperature"):
        GenerationConfig(max_new=1, temperature=-1.0)


def test_damaged_weights_are_told():
    model = language_model()
    with torch.no_grad():
        model.norm.weight.fill_(torch.nan)
    with pytest.raises(CheckpointError, match="not numbers"):
        written(model, PROMPTS, max_new=3)


@pytest.fixture(params=[False, True], ids=["after", "ahead"])
def in_caches(request, monkeypatch):
    """Rooms that are full soon, and steps that are begun late or early, as on a GPU."""
    monkeypatch.setattr(static_decoder, "FEWEST_POSITIONS", 4)
    monkeypatch.setattr(static_decoder, "FORESEEN", 2)
    monkeypatch.setattr(
        TextCache, "ahead", property(lambda _: request.param, lambda *_: None), False
    )
    if request.param:
        monkeypatch.setattr(weights, "can_pack", lambda _: False)


@pytest.mark.parametrize("temperature", [0.0, 1.3])
@pytest.mark.parametrize("changes", [{}, {**LLAMA, "n_kv_heads": 2}], ids=["gpt", "llama"])
def test_writing_in_place_changes_no_text(in_caches, changes, temperature):
    model = language_model(**changes)
    config = {"max_new": 9, "hidden_ids": (2, 6), "temperature": temperature}
    config["end_ids"] = frozenset({written(model, PROMPTS, **config)[0].ids[4]})
    wanted = written(model, PROMPTS, **config)
    found = written(quickened(model), PROMPTS, **config)
    assert len({(len(one.ids), one.finished) for one in wanted}) > 1
    for one, other in zip(found, wanted, strict=True):
        assert (one.ids, one.finished) == (other.ids, other.finished)
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_texts_that_are_written_in_turn_do_not_disturb_each_other(in_caches):
    form = quickened(language_model(**LLAMA))
    config = GenerationConfig(max_new=7)
    streams = [stream(form, p, config, rng=rng(i), device=CPU) for i, p in enumerate(PROMPTS)]
    in_turn = list(zip(*streams, strict=True))
    for i, prompt in enumerate(PROMPTS):
        ((alone,),) = generate(form, [prompt], config, rng=rng(i), device=CPU)
        assert alone.ids == tuple(step[i] for step in in_turn)


def test_a_text_that_nobody_reads_to_its_end_gives_its_room_back():
    form = quickened(language_model())
    coming = stream(form, PROMPTS[0], GenerationConfig(max_new=7), rng=rng(), device=CPU)
    next(coming)
    assert form._caches == []
    coming.close()
    assert len(form._caches) == 1


def test_no_more_texts_are_written_at_once_than_there_is_room_for(monkeypatch):
    model = language_model()
    wanted = written(model, PROMPTS, max_new=6)
    sizes = []
    monkeypatch.setattr(StaticLanguageModel, "most_rows", lambda *_: 2)
    begin = TextCache.begin
    monkeypatch.setattr(
        TextCache, "begin", lambda self, none, ids: sizes.append(len(ids)) or begin(self, none, ids)
    )
    found = written(quickened(model), PROMPTS, max_new=6)
    assert [one.ids for one in found] == [one.ids for one in wanted]
    assert sizes == [2, 1, 1, 1]
    assert max(sizes) < generating.MOST_ROWS


def test_what_is_longer_than_learned_positions_is_refused_in_place_too():
    model = language_model()  # reads 17
    assert len(written(quickened(model), [[5] * 15], max_new=3)[0].ids) == 3
    for one in (model, quickened(model)):
        with pytest.raises(regard.ShapeError, match="know 17 places, but the text has 18"):
            written(one, [[5] * 15], max_new=4, temperature=0.0)


def test_how_long_other_prompts_are_changes_no_draw():
    model = language_model()
    first, second = (
        written(model, [[5] * n, [7, 3]], max_new=12, context=17, temperature=2.0)[1]
        for n in (3, 16)  # the latter has room for two tokens only
    )
    assert first.ids == second.ids


def test_no_more_numbers_are_drawn_than_the_context_has_room_for():
    found = written(language_model(), [[5], [7, 3]], max_new=10**12, context=17)
    assert [len(one.ids) for one in found] == [17, 16]


def test_what_nobody_waits_for_stops_at_the_next_token():
    asked = []
    found = generate(
        language_model(),
        PROMPTS,  # of three lengths, so three groups
        GenerationConfig(max_new=9, temperature=0.0),
        rng=rng(),
        device=CPU,
        dropped=lambda: asked.append(1) or len(asked) > 3,
    )
    assert [len(one.ids) for (one,) in found] == [3, 0, 3, 0, 3]
    assert not any(one.finished for (one,) in found)
