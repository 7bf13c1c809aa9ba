"""Facts that are stated, and attention on the sentences that say them."""

import numpy as np
import pytest

from regard.core.errors import DataError
from regard.data.worlds.documents import build_documents
from regard.evaluation.attention import Watched
from regard.evaluation.facts import FACT_ATTENTION, facts, one_hop_facts, two_hop_facts

RIGHT = "mira is a cook. mira lives in lomham in velmark. mira works for tritex of korby."
WRONG = {
    "a wrong town": (RIGHT.replace("lomham", "lomby"), 4 / 5, 2 / 3, 1.0),
    "a wrong region": (RIGHT.replace("velmark", "velland"), 4 / 5, 1.0, 1 / 2),
    "two professions": (f"{RIGHT} mira is a poet.", 4 / 5, 2 / 3, 1.0),
    "said twice": (f"{RIGHT} mira is a cook.", 1.0, 1.0, 1.0),
    "somebody else": (RIGHT.replace("mira", "tavo"), 0.0, 0.0, 0.0),
    "nothing": ("", 0.0, 0.0, 0.0),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_share_of_facts_that_are_stated(case):
    said, every, one_hop, two_hop = WRONG[case]
    assert facts([said], [RIGHT]) == pytest.approx(every)
    assert one_hop_facts([said], [RIGHT]) == pytest.approx(one_hop)
    assert two_hop_facts([said], [RIGHT]) == pytest.approx(two_hop)


def test_facts_of_all_texts_count_alike():
    short = "mira is a cook."
    assert facts([RIGHT, ""], [RIGHT, short]) == pytest.approx(5 / 6)


def test_summaries_of_the_world_state_their_facts():
    documents = build_documents(length=140, n_train=1, n_test=5)["test"]
    said = [one.target for one in documents]
    assert facts(said, said) == two_hop_facts(said, said) == 1.0


def test_a_reference_without_facts_is_refused():
    with pytest.raises(DataError, match="no fact of the world documents"):
        facts([RIGHT], ["a summary of something else"])


def test_attention_on_facts_is_the_mean_mass_on_their_positions():
    rng = np.random.default_rng(0)
    documents, expected = [], []
    for n_words in (5, 7):
        weights = rng.dirichlet(np.ones(n_words), size=2)
        links = ((0, 0), (3, 0), (4, 1))  # row 0 should look at words 0 and 3, row 1 at 4
        documents.append(Watched({"good": weights, "bad": np.zeros((2, n_words))}, links))
        expected += [weights[0, 0] + weights[0, 3], weights[1, 4]]
    found = FACT_ATTENTION.chosen(documents, documents)
    assert (found.label, found.test) == ("good", pytest.approx(np.mean(expected)))


def test_shuffled_weights_have_the_mass_of_chance():
    weights = np.zeros((1, 50))
    weights[0, 3] = 1.0
    one = [Watched({"sharp": weights}, ((3, 0), (4, 0)))] * 40
    found = FACT_ATTENTION.chosen(one, one)
    assert found.test == 1.0
    assert found.baseline == pytest.approx(2 / 50, abs=0.02)


def test_no_facts_no_attention_on_them():
    with pytest.raises(DataError, match="needs facts"):
        FACT_ATTENTION.by_head([Watched({"a": np.ones((1, 2))}, ())])
