"""The beam of a run as a tree with words."""

import json

import pytest
import torch
from systems import ATTENDING, NOT_ATTENDING, untrained

import regard


@pytest.mark.parametrize("preset", [*ATTENDING, *NOT_ATTENDING])
def test_the_best_path_spells_the_translation(preset):
    run = untrained(preset)
    tree = run.beam("a b c", n_beams=3)
    (best,) = run.hypotheses(["a b c"], beam=3)[0]
    assert tree.best == tuple(run.tokenizers.target.tokens(best.ids)) + ("</s>",) * best.finished
    assert run.beam("a b c", n_beams=3) == tree


def test_the_json_is_as_agreed():
    tree = untrained("transformer").beam("a b c")
    plain = json.loads(json.dumps(tree.as_json(), allow_nan=False))
    assert plain["n_beams"] == 4
    root, *others = plain["nodes"]
    assert (root["id"], root["parent"], root["step"], root["token"]) == (0, None, 0, "<s>")
    assert [node["id"] for node in plain["nodes"]] == list(range(len(plain["nodes"])))
    keys = "id parent step token log_prob score state why".split()
    assert all(list(node) == keys for node in plain["nodes"])
    assert {node["state"] for node in others} <= {"open", "pruned", "finished", "best"}
    assert all(node["step"] == plain["nodes"][node["parent"]]["step"] + 1 for node in others)
    assert max(sum(n["step"] == t and n["state"] == "open" for n in others) for t in range(12)) <= 4


@torch.no_grad()
def test_scores_are_found_again_by_a_plain_forward():
    run = untrained("bahdanau2015")
    tree = run.beam("a b c", n_beams=2)
    read = torch.tensor([[*run.tokenizers.source.encode("a b c"), 2]])
    for node in tree.nodes[1:]:
        ids, at = [], node
        while at.parent is not None:
            ids.insert(0, at.token_id)
            at = tree.nodes[at.parent]
        said = run.model(read, torch.tensor([[1, *ids[:-1]]]))[0].log_softmax(-1)
        assert node.log_prob == pytest.approx(said[-1, ids[-1]].item(), abs=1e-4)
        total = sum(said[t, token].item() for t, token in enumerate(ids))
        assert node.total == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("n_beams", [1, 3])
def test_a_branch_that_is_continued_comes_first(n_beams):
    run = untrained("transformer")
    tree = run.beam("a b c", n_beams=3)
    pruned = next(n for n in tree.nodes if n.state == "pruned" and n.step == 2)
    branch = tree.path(pruned.id)
    assert len(branch) == 2
    other = run.beam("a b c", n_beams=n_beams, prefix=branch)
    assert other.best[:2] == branch
    assert {other.path(n.id)[:2] for n in other.nodes if n.step >= 2} == {branch}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"n_beams": 0}, "n_beams must be at least 1"),
        ({"prefix": ["a", "z"]}, "prefix: the model cannot say 'z'"),
        ({"prefix": ["a", "</s>"]}, "cannot be continued"),
        ({"prefix": "a b"}, "prefix: give a list of tokens"),
    ],
)
def test_mistakes_are_told(wanted, words):
    with pytest.raises(regard.ConfigError, match=words):
        untrained("luong2015").beam("a b", **wanted)


def test_nothing_has_no_tree():
    with pytest.raises(regard.DataError, match="empty"):
        untrained("luong2015").beam(" ")
