from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from regard import lab
from regard.core.errors import DataError
from regard.lab.claims import relations as module
from regard.lab.claims.relations import (
    KINDS,
    Tree,
    encoder_weights,
    fixed_offset,
    own_trees,
    read_trees,
)
from regard.lab.translators import sentences_translator

ROWS = """# text = From the AP comes this story
1-2\tFromthe\t_\t_\t_\t_\t_\t_\t_\t_
1\tFrom\tfrom\tADP\tIN\t_\t3\tcase\t_\t_
2\tthe\tthe\tDET\tDT\t_\t3\tdet\t_\t_
3\tAP\tAP\tPROPN\tNNP\t_\t4\tobl\t_\t_
4\tcomes\tcome\tVERB\tVBZ\t_\t0\troot\t_\t_
5\tthis\tthis\tDET\tDT\t_\t6\tdet\t_\t_
6\tstory\tstory\tNOUN\tNN\t_\t4\tnsubj:pass\t_\t_
"""
FROM_THE_AP = (
    ("preposition", 2, 0),
    ("determiner", 1, 2),
    ("determiner", 4, 5),
    ("subject", 5, 3),
)


@pytest.fixture
def heads(monkeypatch):
    """A model with two heads: one looks where grammar says, as far as ``knows`` is true of a kind;
    the other looks at the word after."""
    known = {one.words: one for one in islice(own_trees(1), 400)}

    def weights(_run, words, knows):
        right = np.eye(len(words), k=1)
        for kind, a, b in known[tuple(words)].relations:
            right[a] = right[a] * 0.1 + 5 * knows(kind) * np.eye(len(words))[b]
        return {"layer 0 head 0": right, "layer 0 head 1": np.eye(len(words), k=1)}

    def use(knows):
        monkeypatch.setattr(module, "encoder_weights", lambda *asked: weights(*asked, knows))

    reader = SimpleNamespace(fits=lambda *_texts: True)
    monkeypatch.setattr(module, "opened_translator", lambda *_asked: reader)
    return use


def test_heads_that_know_grammar_beat_every_offset(heads):
    heads(lambda _kind: True)
    result = lab.relations(n_trees=150)
    assert result.verdict
    assert [result.numbers[f"{kind}: best head"] for kind in KINDS] == [1, 1, 1, 1]
    assert result.numbers["object: which head"] == "layer 0 head 0"
    assert 0.5 < result.numbers["determiner: fixed offset"] < 1


def test_one_relation_that_no_head_finds_turns_the_verdict(heads):
    heads(lambda kind: kind != "object")
    result = lab.relations(n_trees=150)
    assert not result.verdict
    assert result.finding.count("better than an offset") == 1
    assert "a head finds the object better than an offset" in result.finding


def test_a_head_that_is_ahead_by_luck_is_not_better(heads):
    """Of few sentences a head may find one object more than the offset does."""
    heads(lambda _kind: True)
    tied = lab.relations(n_trees=150)
    assert tied.numbers["object: head ahead by, 95 %"][0] > 0
    few = module._found("object", *seen_in(heads, 60, knows_one=True))
    assert few.head.test > few.offset
    assert not few.ahead.positive


def test_a_lead_by_luck_turns_the_verdict(heads, monkeypatch):
    heads(lambda _kind: True)
    found = module._found
    luck = module.Difference(0.1, -0.1, 0.3)
    monkeypatch.setattr(module, "_found", lambda *asked: found(*asked)._replace(ahead=luck))
    assert not lab.relations(n_trees=60).verdict


def seen_in(heads, n, *, knows_one):
    """Sentences for choosing and for scoring; a head looks at the offset's word but in one."""
    trees = [one for one in islice(own_trees(1), 4 * n) if one.links("object", upward=True)][:n]
    offset = module.best_offset([one.links("object", True) for one in trees])

    def weights(tree, right):
        found = np.eye(len(tree.words), k=offset)
        for a, b in tree.links("object", True) if right else ():
            found[a] = np.eye(len(tree.words))[b]
        return found

    missed = next(
        i for i, one in enumerate(trees)
        if i % 2 and module.share_at(offset, [one.links("object", True)]) == 0
    )  # fmt: skip
    seen = [
        module.Seen(one, {"layer 0 head 0": weights(one, knows_one and i == missed)})
        for i, one in enumerate(trees)
    ]
    return seen[::2], seen[1::2]


def test_the_trees_of_the_world_know_who_does_what():
    trees = {" ".join(one.words): one for one in islice(own_trees(3), 30)}
    tree = trees["the proud men find my eggs in the church"]
    told = {(kind, tree.words[a], tree.words[b]) for kind, a, b in tree.relations}
    assert told == {
        ("determiner", "the", "men"),
        ("subject", "men", "find"),
        ("determiner", "my", "eggs"),
        ("object", "eggs", "find"),
        ("preposition", "church", "in"),
    }
    assert tree.links("object", upward=True) == [(5, 3)]
    assert tree.links("object", upward=False) == [(3, 5)]


def test_a_treebank_is_read(tmp_path):
    path = tmp_path / "some.conllu"
    path.write_text(ROWS + "\n" + "1\tHush\thush\tVERB\t_\t_\t0\troot\t_\t_\n\n" + ROWS)
    tree = Tree(("From", "the", "AP", "comes", "this", "story"), FROM_THE_AP)
    assert list(read_trees(path)) == [tree, tree]  # a sentence without our relations is left out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("the cat sat", "has 10 columns, found 1"),
        (ROWS.replace("\t4\tnsubj", "\t9\tnsubj"), "word 6 depends on word 9"),
    ],
)
def test_what_is_no_treebank_is_refused(tmp_path, text, told):
    path = tmp_path / "some.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=told):
        list(read_trees(path))


def test_a_kind_that_no_sentence_has_is_missed(heads, tmp_path, monkeypatch):
    heads(lambda _kind: True)
    monkeypatch.setattr(module, "own_trees", lambda _seed: iter([]))
    with pytest.raises(DataError, match="no subject to look for"):
        lab.relations()


def test_the_best_offset_is_chosen_on_one_set_and_scored_on_another():
    valid = [[(0, 1), (3, 4)], [(2, 0)]]
    assert fixed_offset(valid, [[(0, 1), (5, 4)], [(1, 3), (1, 2)]]) == pytest.approx(2 / 3)


def test_weights_stand_between_words_and_leave_the_end_out():
    run, _ = sentences_translator(1, 300, 1)
    words = ("the", "dog", "sees", "the", "cat")
    weights = encoder_weights(run, words)
    look = run.explain(" ".join(words)).weights("encoder.self", 1)
    np.testing.assert_allclose(weights["layer 1 head 2"], look[2, :5, :5], rtol=1e-5)
