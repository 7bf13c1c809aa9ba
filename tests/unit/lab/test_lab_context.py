import pytest
import torch

from regard import lab
from regard.lab.claims.context import (
    KINDS,
    TITLES,
    WORDS,
    TitleModel,
    _by_kind,
    _Meanings,
    _near,
    _told_apart,
    sentences,
    told_sentences,
    trained,
)


def test_after_attention_each_meaning_has_its_vector():
    result = lab.context(steps=250, n_models=2, heads=(1,))
    assert result.verdict
    assert result.numbers["cosine of the two meanings before"] == pytest.approx([1, 1])
    assert max(result.numbers["cosine of the two meanings after"]) < 0.5
    assert result.numbers["share nearer to its own meaning"] == [1, 1]


def test_a_word_that_sees_only_itself_has_one_vector():
    result = lab.context(attentive=False, steps=5, n_models=2, heads=(1,))
    assert not result.verdict
    assert result.numbers["cosine of the two meanings after"] == pytest.approx([1, 1])
    assert result.numbers["share nearer to its own meaning"] == [0.5, 0.5]


def test_several_heads_tell_the_meanings_apart_as_well():
    result = lab.context(steps=250, n_models=1, heads=(4, 2))
    assert result.verdict
    assert result.numbers["heads"] == [4, 2]
    assert result.numbers["by heads: models that tell the meanings apart"] == [1, 1]
    assert "head 3" in result.pictures[1]
    assert "head 3" not in result.pictures[2]


def test_several_heads_that_see_only_themselves_do_not():
    assert not lab.context(attentive=False, steps=5, n_models=1, heads=(2,)).verdict


@pytest.mark.parametrize(
    "found",
    [_Meanings(0.9, 0.0, 1.0), _Meanings(1.0, 0.6, 1.0), _Meanings(1.0, 0.0, 0.9)],
)
def test_meanings_are_apart_only_if_all_three_numbers_say_so(found):
    assert _told_apart(_Meanings(1.0, 0.0, 1.0))
    assert not _told_apart(found)


def test_only_what_a_word_sees_can_change_its_vector():
    ids, other = (told_sentences(kind, 1, seed=0, met=True) for kind in KINDS)
    for attentive in (True, False):
        model = TitleModel(attentive=attentive)
        assert torch.equal(model.before(ids)[:, 0], model.before(other)[:, 0])
        assert torch.allclose(model(ids)[:, 0], model(other)[:, 0]) == (not attentive)


def test_sentences_hold_a_title_and_take_out_a_word_of_the_same_kind(rng):
    told = 0
    for sentence, taken in zip(*(x.tolist() for x in sentences(300, rng)), strict=True):
        title, *words = (WORDS[i] for i in sentence)
        assert title in TITLES
        kind = next(words for words in KINDS.values() if WORDS[taken] in words)
        assert WORDS[taken] not in words
        assert sum(word in kind for word in words) == sum(
            word in both for word in words for both in KINDS.values()
        )
        told += any(word in kind for word in words)
    assert 0.65 < told / 300 < 0.85


@pytest.mark.parametrize("kind", KINDS)
def test_words_never_met_stand_beside_other_titles_only(rng, kind):
    ids, taken = sentences(500, rng)
    ours = ids[:, 0] == 0
    known = set(ids[ours, 1].tolist()) | set(taken[ours].tolist())
    others = set(ids[~ours, 1].tolist())
    for met in (True, False):
        told = told_sentences(kind, 50, seed=0, met=met)
        assert (told[:, 0] == 0).all()
        found = set(told[:, 1].tolist())
        assert {WORDS[i] for i in found} <= set(KINDS[kind])
        assert found <= others
        assert found <= known if met else found.isdisjoint(known)


def test_cosines_are_sorted_by_kind():
    model = TitleModel(attentive=True)
    vector = 3 * model.words(torch.tensor([WORDS.index("camera")]))
    near = _near(model, vector)
    assert near[0, -1].item() == pytest.approx(1)
    assert _by_kind(near)[0].tolist() == pytest.approx(
        [near[0, :6].mean().item(), near[0, 6:].mean().item()]
    )


def test_training_is_the_same_for_a_seed_and_leaves_the_generator_alone():
    state = torch.random.get_rng_state()
    first, again = (trained(attentive=True, steps=2, seed=1) for _ in range(2))
    assert torch.equal(first.words.weight, again.words.weight)
    assert torch.equal(torch.random.get_rng_state(), state)
