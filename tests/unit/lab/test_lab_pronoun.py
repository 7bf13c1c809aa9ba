import pytest

import regard.lab.claims.pronoun as module
from regard import lab
from regard.core.errors import DataError
from regard.evaluation.attention import HeadChoice
from regard.lab.claims.pronoun import (
    ablation_costs,
    adjective,
    antecedent,
    pronoun_step,
    right_pronouns,
)

TINY = {"steps": 1, "n_train": 300}


@pytest.fixture(scope="module")
def trained():
    """A run that knows nothing, and sentences with pronouns."""
    return module._small_translator(*TINY.values(), 1)


@pytest.fixture
def opened(monkeypatch, trained):
    """The claim is put to that run."""
    monkeypatch.setattr(module, "_opened", lambda *_asked: trained)


@pytest.mark.usefixtures("opened")
def test_before_training_no_pronoun_is_right_and_no_head_is_needed():
    result = lab.pronoun(n_ablated=2)
    assert not result.verdict
    assert result.numbers["right pronouns"] < 0.6
    assert "pronouns come out right" in result.finding
    assert "the head that looks at the adjective is needed" in result.finding
    assert len(result.pictures) == 3
    assert "animal" in result.pictures[0]


@pytest.mark.slow
def test_the_small_training_learns_pronouns():
    run, pairs = module._small_translator(500, 40_000, 1)
    assert right_pronouns(run, pairs) > module.LEARNED


@pytest.mark.parametrize(
    ("labels", "looks", "cost", "right", "holds"),
    [
        (("layer 0 head 0", "layer 0 head 1"), 0.9, 0.2, 0.95, True),
        (("layer 0 head 0", "layer 0 head 0"), 0.9, 0.2, 0.95, False),
        (("layer 0 head 0", "layer 0 head 1"), 0.4, 0.2, 0.95, False),
        (("layer 0 head 0", "layer 0 head 1"), 0.9, 0.01, 0.95, False),
        (("layer 0 head 0", "layer 0 head 1"), 0.9, 0.2, 0.5, False),
    ],
)
@pytest.mark.usefixtures("opened")
def test_two_heads_must_look_and_both_be_needed(monkeypatch, labels, looks, cost, right, holds):
    choices = iter([HeadChoice(label, looks, looks, 0.1) for label in labels])
    monkeypatch.setattr(module, "_chosen", lambda *_asked: next(choices))
    monkeypatch.setattr(module, "ablation_costs", lambda *_asked: dict.fromkeys(labels, cost))
    monkeypatch.setattr(module, "right_pronouns", lambda *_asked: right)
    assert lab.pronoun().verdict is holds


def test_a_pronoun_is_right_where_it_is_the_most_probable_word(trained):
    run, pairs = trained
    some = pairs[:10]
    looks = [run.explain(pair.source, pair.target).written for pair in some]
    best = [
        run.tokenizers.target.tokens(run.tokenizers.target.encode(pair.target))[step]
        == look.alternatives[step][0].text
        for pair, look in zip(some, looks, strict=True)
        for step in [pronoun_step(run, pair)]
    ]
    assert right_pronouns(run, some) == sum(best) / len(best)


def test_its_step_is_that_of_il_or_elle(trained):
    run, pairs = trained
    written = [
        run.tokenizers.target.tokens(run.tokenizers.target.encode(pair.target))[
            pronoun_step(run, pair)
        ]
        for pair in pairs[:6]
    ]
    assert {*written} == {"il", "elle"}


def test_links_lead_from_it_to_what_it_stands_for_and_to_what_is_said_of_it(trained):
    pair = trained[1][0]
    words = pair.source.split()
    assert " ".join(words) == "the animal did not cross the street because it was too tired"
    assert [[words[i] for i in link] for link in antecedent(pair)] == [["it", "animal"]]
    assert [[words[i] for i in link] for link in adjective(pair)] == [["it", "tired"]]


def test_a_cost_is_what_the_right_pronoun_loses(trained):
    pair = trained[1][0]
    costs = ablation_costs(trained[0], [pair])
    look = trained[0].explain(pair.source, pair.target)
    step = look.target_tokens.index("il")
    edit = {"kind": "ablate", "name": "encoder.self", "layer": 1, "head": 2}
    whole, without = (
        trained[0].explain(pair.source, pair.target, edit=one).written.probabilities[step]
        for one in ((), edit)
    )
    assert costs["layer 1 head 2"] == pytest.approx(whole - without, abs=1e-6)
    assert set(costs) == {f"layer {i} head {h}" for i in (0, 1) for h in range(4)}


def test_a_run_of_another_world_is_refused(run_path):
    with pytest.raises(DataError, match="no run from English to French in the world sentences"):
        lab.pronoun(run=run_path)
