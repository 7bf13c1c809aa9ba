"""What if? Every edit changes what it says and only that; afterwards the model is as before."""

import numpy as np
import pytest
import torch
from systems import untrained

import regard
from regard.inspection.edits import Ablate, Force, NoPositions, Temperature
from regard.tasks.edits import ForceToken, Swap, as_json, edit_from

EDITS = [
    {"kind": "ablate", "name": "decoder.cross", "layer": 1, "head": 2},
    {"kind": "force", "name": "encoder.self", "layer": 0, "head": 1, "key": 2},
    {"kind": "temperature", "value": 0.5, "name": None},
    {"kind": "temperature", "value": 3.0, "name": "decoder.self"},
    {"kind": "no_positions"},
    {"kind": "swap", "first": 0, "second": 2},
    {"kind": "force_token", "position": 1, "token": "h"},
]
OBJECTS = [
    Ablate("decoder.cross", 1, 2),
    Force("encoder.self", 0, 1, 2),
    Temperature(0.5),
    Temperature(3.0, "decoder.self"),
    NoPositions(),
    Swap(0, 2),
    ForceToken(1, "h"),
]


@pytest.fixture
def run():
    return untrained("transformer", norm_first=True)


def parts(look):
    return {
        (name, layer): weights
        for name, layers in look.attentions.items()
        for layer, weights in enumerate(layers)
    }


def same(one, other, *where):
    return all(np.allclose(parts(one)[at], parts(other)[at], atol=1e-6) for at in where)


def test_json_and_objects_mean_the_same():
    assert list(map(edit_from, EDITS)) == OBJECTS
    assert list(map(as_json, OBJECTS)) == EDITS
    assert edit_from({"kind": "temperature", "value": 2}) == Temperature(2.0)


@pytest.mark.parametrize("edit", EDITS, ids=str)
@pytest.mark.parametrize("target", [None, "d e f"])
def test_every_edit_is_told_and_leaves_the_model_as_it_was(run, edit, target):
    before = run.explain("a b c", target)
    weights = {name: value.clone() for name, value in run.model.state_dict().items()}
    edited = run.explain("a b c", target, edit=edit)
    assert edited.as_json()["edits"] == [edit]
    assert edited.as_json() == run.explain("a b c", target, edit=edit_from(edit)).as_json()
    assert edited.as_json()["attentions"] != before.as_json()["attentions"]
    after = run.explain("a b c", target)
    assert after.as_json() == before.as_json()
    assert all(torch.equal(value, weights[name]) for name, value in run.model.state_dict().items())


def test_an_ablated_head_adds_nothing_and_what_came_before_it_is_as_it_was(run):
    plain = run.explain("a b c", "d e")
    look = run.explain("a b c", "d e", edit=Ablate("decoder.cross", 0, 1))
    assert (look.weights("decoder.cross")[1] == 0).all()
    assert (look.steps(0, head=1).projected == 0).all()
    for head in (0, 2):
        np.testing.assert_array_equal(
            look.weights("decoder.cross")[head], plain.weights("decoder.cross")[head]
        )
    assert same(look, plain, ("encoder.self", 0), ("encoder.self", 1), ("decoder.self", 0))
    assert not same(look, plain, ("decoder.self", 1))


def test_a_forced_head_looks_at_one_key(run):
    plain = run.explain("a b c", "d e")
    look = run.explain("a b c", "d e", edit=Force("decoder.cross", 1, 0, key=2))
    steps = look.steps("e", layer=1, head=0)
    assert steps.weights.tolist() == [0, 0, 1, 0]
    assert steps.visible.tolist() == [False, False, True, False]
    assert same(look, plain, ("encoder.self", 1), ("decoder.self", 1), ("decoder.cross", 0))


def test_a_temperature_changes_the_scale_where_it_is_named(run):
    plain = run.explain("a b c", "d e")
    look = run.explain(
        "a b c", "d e", edit={"kind": "temperature", "value": 10, "name": "decoder.cross"}
    )
    assert look.steps(0).scale == pytest.approx(plain.steps(0).scale / 10)
    assert look.weights("decoder.cross").std() < plain.weights("decoder.cross").std()
    assert same(look, plain, ("encoder.self", 0), ("encoder.self", 1), ("decoder.self", 0))


def test_without_positions_order_is_gone_from_the_encoder(run):
    one = run.explain("a b c", "d", edit=NoPositions())
    other = run.explain("b a c", "d", edit=NoPositions())
    swapped = one.weights("encoder.self", 1)[:, [1, 0, 2, 3]][:, :, [1, 0, 2, 3]]
    np.testing.assert_allclose(swapped, other.weights("encoder.self", 1), atol=1e-6)
    told = run.explain("a b c", "d").weights("encoder.self", 1)[:, [1, 0, 2, 3]][:, :, [1, 0, 2, 3]]
    assert not np.allclose(told, run.explain("b a c", "d").weights("encoder.self", 1), atol=1e-3)


@pytest.mark.parametrize(
    ("source", "pair", "expected"),
    [
        ("a b c", (0, 2), "c b a"),
        ("a b c", (2, 0), "c b a"),
        ("l'animal dort.", (1, 2), "l'dort animal."),
        ("a  b, c", (1, 3), "a  c, b"),
    ],
)
def test_swapping_moves_two_words_and_nothing_else(source, pair, expected):
    assert Swap(*pair)(source) == expected


def test_a_swapped_source_is_read_as_if_it_had_been_written_so(run):
    look = run.explain("a b c", edit={"kind": "swap", "first": 1, "second": 2})
    assert look.source_tokens == ("a", "c", "b", "</s>")
    assert look.source == "a c b"
    assert {**look.as_json(), "edits": []} == run.explain("a c b").as_json()


def by_hand(run, source, prefix, n):
    """Written on from a prefix by plain forward passes, at most n tokens."""
    read = torch.tensor([[*run.tokenizers.source.encode(source), 2]])
    ids = [1, *prefix]
    while len(ids) - 1 < n:
        logits = run.model(read, torch.tensor([ids]))[0, -1].clone()
        logits[:2] = -torch.inf
        if (best := int(logits.argmax())) == 2:
            break
        ids.append(best)
    return run.tokenizers.target.tokens(ids[1:])


@pytest.mark.parametrize("preset", ["transformer", "bahdanau2015", "cheng2016"])
@torch.no_grad()
def test_a_forced_token_stands_where_it_should_and_the_rest_is_decoded_on(preset):
    run = untrained(preset)
    plain = run.explain("a b c")
    position = min(2, len(plain.target_tokens) - 1)  # perhaps where it would have ended
    token = next(one for one in "abcdefgh" if one != plain.target_tokens[position])
    look = run.explain("a b c", edit=ForceToken(position, token))
    assert look.target_tokens[:position] == plain.target_tokens[:position]
    assert look.target_tokens[position] == token
    prefix = run.tokenizers.target.encode(" ".join([*plain.target_tokens[:position], token]))
    assert list(look.target_tokens[:-1]) == by_hand(run, "a b c", prefix, 12)


def test_of_a_given_target_only_what_comes_before_a_forced_token_is_kept(run):
    look = run.explain("a b c", "d e f", edit=ForceToken(1, "a"))
    assert look.target_tokens[:2] == ("d", "a")


def test_several_tokens_may_be_forced(run):
    edits = [ForceToken(2, "b"), ForceToken(0, "a")]
    look = run.explain("a b c", "d e f", edit=edits)
    assert look.target_tokens[0] == "a"
    assert look.target_tokens[2] == "b"
    assert [edit["position"] for edit in look.edits] == [2, 0]  # told as they were given


def test_the_end_can_be_forced(run):
    look = run.explain("a b c", "d e f", edit=ForceToken(1, "</s>"))
    assert look.target_tokens == ("d", "</s>")


@pytest.mark.parametrize("beam", [1, 3])
def test_without_a_target_the_edited_model_writes_it(beam):
    run = untrained("transformer", decode={"beam": beam})
    edits = [{"kind": "no_positions"}, {"kind": "temperature", "value": 30.0}]
    look = run.explain("a b c", edit=edits)
    plain = run.explain("a b c")
    assert look.translation != plain.translation
    assert (
        look.as_json()["attentions"]
        == (run.explain("a b c", look.translation, edit=edits).as_json()["attentions"])
    )


def test_a_head_of_the_decoder_can_be_forced_to_a_key_that_is_not_there_at_first(run):
    look = run.explain("a b c", edit=Force("decoder.self", 0, 0, key=2))
    assert (look.weights("decoder.self")[0, :2] == 0).all()
    assert (look.weights("decoder.self")[0, 2:, 2] == 1).all()


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"kind": "ablat"}, "unknown edit 'ablat' .did you mean 'ablate'.*force_token"),
        ({"name": "decoder.cross"}, 'an edit is an object with a "kind", one of ablate'),
        ("ablate", 'object with a "kind"'),
        ({"kind": "ablate", "name": "decoder.cross", "layer": 0}, "ablate.head is missing"),
        (
            {"kind": "ablate", "name": "decoder.cross", "layer": "0", "head": 0},
            "ablate.layer='0': input should be a valid integer",
        ),
        (
            {"kind": "swap", "first": 0, "secnd": 1},
            "unknown setting 'swap.secnd' .did you mean 'second'.+; swap.second is missing",
        ),
        ({"kind": "swap", "first": 0, "second": 9}, "swap.second: .* words 0 to 2, not 9"),
        ({"kind": "swap", "first": -1, "second": 1}, "swap.first: .* words 0 to 2, not -1"),
        ({"kind": "swap", "first": 1, "second": 1}, "name two words"),
        ({"kind": "temperature", "value": 0}, "temperature must be from"),
        ({"kind": "temperature", "value": float("inf")}, "value: expected a finite number"),
        ({"kind": "temperature", "value": 1, "name": "decoder"}, "no attention is concerned"),
        ({"kind": "ablate", "name": "decoder.cross", "layer": 0, "head": 3}, "heads 0 to 2, not 3"),
        (
            {"kind": "force", "name": "decoder.cross", "layer": 0, "head": 0, "key": 4},
            "keys 0 to 3, not 4",
        ),
        (
            {"kind": "force", "name": "decoder.self", "layer": 0, "head": 0, "key": 3},
            "keys 0 to 2, not 3",
        ),
        ({"kind": "force_token", "position": 4, "token": "a"}, "position: .*tokens 0 to 2.*not 4"),
        ({"kind": "force_token", "position": -1, "token": "a"}, "position: .*not -1"),
        ({"kind": "force_token", "position": 0, "token": "z"}, "token: the model cannot say 'z'"),
        ({"kind": "force_token", "position": 0, "token": "<pad>"}, "cannot say '<pad>'"),
    ],
    ids=str,
)
def test_mistakes_are_told_with_their_field(run, edit, words):
    with pytest.raises(regard.ConfigError, match=words):
        run.explain("a b c", "d e", edit=edit)
    run.explain("a b c", "d e")


def test_a_recurrent_system_has_no_positions_to_remove():
    with pytest.raises(regard.ConfigError, match="no_positions: this system has no positions"):
        untrained("luong2015").explain("a b", edit={"kind": "no_positions"})
