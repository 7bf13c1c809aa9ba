"""A search under what-ifs is that of the edited model."""

import pytest
import torch
from systems import untrained

import regard
from regard.inspection.edits import Ablate, Force, NoPositions, Temperature, edited
from regard.tasks.edits import ForceToken, Swap

OF_THE_MODEL = [
    Ablate("decoder.cross", 1, 2),
    Force("encoder.self", 0, 1, 2),
    Temperature(30.0),
    NoPositions(),
]


@pytest.fixture(scope="module")
def run():
    return untrained("transformer")


@pytest.mark.parametrize("edit", [*OF_THE_MODEL, Swap(0, 2)], ids=str)
def test_one_beam_spells_what_the_edited_model_writes_and_then_all_is_as_before(run, edit):
    before = run.beam("a b c", n_beams=1)
    tree = run.beam("a b c", n_beams=1, edit=edit)
    assert tree.best == run.explain("a b c", edit=edit).target_tokens[: len(tree.best)]
    assert tree != before
    assert run.beam("a b c", n_beams=1) == before


@pytest.mark.parametrize("edit", OF_THE_MODEL, ids=str)
@torch.no_grad()
def test_every_probability_is_the_edited_models(run, edit):
    tree = run.beam("a b c", n_beams=3, edit=edit)
    read = torch.tensor([[*run.tokenizers.source.encode("a b c"), 2]])
    with edited(run.model, [edit]):
        for node in tree.nodes[1:40]:
            ids, at = [], tree.nodes[node.parent]
            while at.parent is not None:
                ids.insert(0, at.token_id)
                at = tree.nodes[at.parent]
            said = run.model(read, torch.tensor([[1, *ids]]))[0, -1].log_softmax(-1)
            assert node.log_prob == pytest.approx(said[node.token_id].item(), abs=1e-4)


def test_edits_may_be_json_and_several(run):
    as_json = [
        {"kind": "swap", "first": 0, "second": 1},
        {"kind": "temperature", "value": 9.0, "name": None},
    ]
    tree = run.beam("a b c", edit=as_json)
    assert tree == run.beam("b a c", edit=Temperature(9.0))
    assert tree != run.beam("b a c")


@pytest.mark.parametrize("n_beams", [1, 3])
def test_a_forced_token_is_given_with_all_before_it(run, n_beams):
    edit = ForceToken(2, "h")
    written = run.explain("a b c", edit=edit).target_tokens
    tree = run.beam("a b c", n_beams, edit=edit)
    assert tree.best[:3] == written[:3]
    assert {tree.path(node.id)[:3] for node in tree.nodes if node.step >= 3} == {written[:3]}
    if n_beams == 1:
        assert tree.best == written[: len(tree.best)]


@pytest.mark.parametrize("n_beams", [1, 3])
def test_a_forced_end_ends_the_search(run, n_beams):
    tree = run.beam("a b c", n_beams, edit=ForceToken(1, "</s>"))
    assert tree.best == run.explain("a b c", edit=ForceToken(1, "</s>")).target_tokens
    assert len(tree.best) == 2


def test_a_branch_is_continued_under_the_same_edits(run):
    edit = [ForceToken(1, "h"), Temperature(4.0)]
    tree = run.beam("a b c", 3, edit=edit)
    for step in (1, 3):  # before the forced token, and beyond it
        node = next(node for node in tree.nodes if node.step == step)
        other = run.beam("a b c", 3, prefix=tree.path(node.id), edit=edit)
        assert other.best[:step] == tree.path(node.id)
        assert other.best[1] == "h"


def test_what_stands_between_a_prefix_and_a_forced_token_the_model_writes(run):
    tree = run.beam("a b c", 2, prefix=["a"], edit=ForceToken(2, "h"))
    plain = run.beam("a b c", 1, prefix=["a"]).best
    assert tree.best[:3] == (*plain[:2], "h")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"edit": {"kind": "swap", "first": 0, "second": 9}}, "swap.second: .* words 0 to 2"),
        ({"edit": ForceToken(40, "a")}, "force_token.position: .* not 40"),
        ({"edit": ForceToken(-1, "a")}, "force_token.position: .* not -1"),
        ({"edit": ForceToken(-1, "a"), "prefix": ["b"]}, "force_token.position: .* not -1"),
        ({"edit": ForceToken(0, "z")}, "force_token.token: the model cannot say 'z'"),
        ({"edit": ForceToken(0, "a"), "prefix": ["b"]}, "is to be 'a', but the prefix has 'b'"),
        ({"edit": Force("encoder.self", 0, 0, 4)}, "encoder.self has keys 0 to 3, not 4"),
        ({"edit": Force("decoder.self", 0, 0, 12)}, "decoder.self has keys 0 to 11, not 12"),
        ({"edit": Ablate("decoder.cross", 0, 3)}, "heads 0 to 2, not 3"),
    ],
    ids=str,
)
def test_what_is_wrong_with_an_edit_is_told_and_leaves_nothing_behind(run, wanted, words):
    before = run.beam("a b c")
    with pytest.raises(regard.ConfigError, match=words):
        run.beam("a b c", **wanted)
    assert run.beam("a b c") == before


def test_a_key_that_some_hypothesis_reached_may_be_forced(run):
    run.beam("a b c", edit=Force("decoder.self", 0, 0, 11))  # the tree is twelve tokens deep
