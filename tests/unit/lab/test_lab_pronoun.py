import pytest

import regard.lab.claims.pronoun as module
from regard import lab
from regard.core.errors import DataError
from regard.evaluation.attention import HeadChoice
from regard.lab.claims.pronoun import ablation_costs, adjective, antecedent
from regard.lab.translators import sentences_translator

TINY = {"steps": 1, "n_train": 300}


@pytest.fixture(scope="module")
def trained():
    return sentences_translator(*TINY.values(), 1)


def test_before_training_no_head_is_needed(trained):
    result = lab.pronoun(**TINY, n_ablated=2)
    assert not result.verdict
    assert "the head that looks at the adjective is needed" in result.finding
    assert len(result.pictures) == 3
    assert "animal" in result.pictures[0]


@pytest.mark.parametrize(
    ("labels", "looks", "cost", "holds"),
    [
        (("layer 0 head 0", "layer 0 head 1"), 0.9, 0.2, True),
        (("layer 0 head 0", "layer 0 head 0"), 0.9, 0.2, False),
        (("layer 0 head 0", "layer 0 head 1"), 0.4, 0.2, False),
        (("layer 0 head 0", "layer 0 head 1"), 0.9, 0.01, False),
    ],
)
@pytest.mark.usefixtures("trained")
def test_two_heads_must_look_and_both_be_needed(monkeypatch, labels, looks, cost, holds):
    choices = iter([HeadChoice(label, looks, looks, 0.1) for label in labels])
    monkeypatch.setattr(module, "_chosen", lambda *_asked: next(choices))
    monkeypatch.setattr(module, "ablation_costs", lambda *_asked: dict.fromkeys(labels, cost))
    assert lab.pronoun(**TINY).verdict is holds


def test_links_lead_from_it_to_what_it_stands_for_and_to_what_is_said_of_it(trained):
    pair = trained.data.splits["pronouns"][0]
    words = pair.source.split()
    assert " ".join(words) == "the animal did not cross the street because it was too tired"
    assert [[words[i] for i in link] for link in antecedent(pair)] == [["it", "animal"]]
    assert [[words[i] for i in link] for link in adjective(pair)] == [["it", "tired"]]


def test_a_cost_is_what_the_right_pronoun_loses(trained):
    pair = trained.data.splits["pronouns"][0]
    costs = ablation_costs(trained.run, [pair])
    look = trained.run.explain(pair.source, pair.target)
    step = look.target_tokens.index("il")
    edit = {"kind": "ablate", "name": "encoder.self", "layer": 1, "head": 2}
    whole, without = (
        trained.run.explain(pair.source, pair.target, edit=one).written.probabilities[step]
        for one in ((), edit)
    )
    assert costs["layer 1 head 2"] == pytest.approx(whole - without, abs=1e-6)
    assert set(costs) == {f"layer {i} head {h}" for i in (0, 1) for h in range(4)}


def test_a_run_of_another_world_is_refused(run_path):
    with pytest.raises(DataError, match="no run from English to French in the world sentences"):
        lab.pronoun(run=run_path)
