"""What a look says: its payload, its steps and its rollout."""

import json

import numpy as np
import pytest
from systems import SYSTEMS, has_blocks, untrained

import regard
from regard.core.errors import ConfigError
from regard.tasks.look import Look

every_system = pytest.mark.parametrize(("name", "changes"), SYSTEMS, ids=str)


@pytest.fixture(scope="module")
def look():
    return untrained("transformer").explain("a b c a", "d e")


@every_system
def test_the_payload_says_what_every_picture_needs(name, changes):
    look = untrained(name, **changes).explain("a b c", "d e")
    payload = json.loads(json.dumps(look.as_json(), allow_nan=False))
    assert list(payload) == [
        "source",
        "answer",
        "translation",
        "source_tokens",
        "target_tokens",
        "attentions",
        "axes",
        "sides",
        "edits",
        "probabilities",
        "alternatives",
    ]
    assert payload["answer"] == payload["translation"] == look.translation
    assert (payload["source"], payload["translation"], payload["edits"]) == ("a b c", "d e", [])
    assert set(payload["axes"]) == set(payload["attentions"])
    lengths = {"source": 4, "target": 3, "input": 3, "read": 7}
    lengths |= {f"{side}.slots": 1 + n // 3 for side, n in lengths.items()}
    for attention, axes in payload["axes"].items():
        weights = np.array(payload["attentions"][attention])  # (layers, H, T, S)
        assert weights.shape[2:] == (lengths[axes["rows"]], lengths[axes["columns"]])
        rows, columns = look.tokens_of(attention)
        assert weights.shape[2:] == (len(rows), len(columns))
        for side, tokens in ((axes["rows"], rows), (axes["columns"], columns)):
            kind = "slots" if side.endswith(".slots") else "tokens"
            assert payload["sides"][side] == {"kind": kind, "labels": list(tokens)}
    if "decoder.cross" in payload["axes"]:
        assert payload["axes"]["decoder.cross"] == {"rows": "target", "columns": "source"}


def test_slots_are_named_by_the_tokens_they_cover():
    look = untrained("dmca2018", n_layers=5).explain("a b c d e", "f g")
    assert list(look.attentions) == ["decoder.self", "decoder.self.compressed"]
    assert [len(layers) for layers in look.attentions.values()] == [3, 2]
    rows, columns = look.tokens_of("decoder.self")
    assert rows == ("f", "g", "</s>")
    assert columns == ("a", "b", "c", "d", "e", "</s>", "<s>", "f", "g")
    rows, slots = look.tokens_of("decoder.self.compressed")
    assert slots == ("null", "[0–2]", "[3–5]", "[6–8]")
    weights = look.weights("decoder.self.compressed", layer=1)  # (H, T, S)
    assert (weights[:, 0, :3] > 0).all()
    assert (weights[:, :2, 3] == 0).all()  # the slot ends with the last token that was read
    assert (weights[:, 2] > 0).all()
    blocks = look.weights("decoder.self", layer=0)  # of 4 positions
    assert (
        (blocks[0] > 0) == [[0] * 4 + [1, 1, 1, 0, 0], [0] * 4 + [1] * 4 + [0], [0] * 8 + [1]]
    ).all()
    assert look.steps("g", name="decoder.self.compressed", layer=1).columns == slots
    assert look.steps("g").name == "decoder.self"
    assert "[3–5]" in look.as_file("html")
    compressed = untrained("transformer", window="compressed").explain("a b c d", "f")
    assert list(compressed.attentions) == [
        f"{name}.compressed" for name in ("encoder.self", "decoder.self", "decoder.cross")
    ]
    assert compressed.tokens_of("decoder.cross.compressed")[1] == ("null", "[0–2]")


@every_system
def test_the_six_steps_follow_from_each_other(name, changes):
    look = untrained(name, **changes).explain("a b c", "d e")
    for attention, layers in look.attentions.items():
        rows, columns = look.tokens_of(attention)
        for layer, weights in enumerate(layers):
            for head, token in np.ndindex(*weights.shape[:2]):
                steps = look.steps(token, layer=layer, head=head, name=attention)
                assert (steps.row, steps.columns) == (rows[token], columns)
                np.testing.assert_array_equal(steps.weights, weights[head, token])
                weighted = steps.weights[:, None] * steps.values
                np.testing.assert_allclose(steps.weighted, weighted, rtol=1e-6)
                np.testing.assert_allclose(steps.weighted.sum(0), steps.sum, atol=1e-6)
                if steps.scale is not None:
                    np.testing.assert_allclose(steps.scaled, steps.scores * steps.scale, rtol=1e-6)
                assert (steps.weights[~steps.visible] == 0).all()
                if has_blocks(name):
                    part = look.records[attention][layer].to_out[head]
                    np.testing.assert_allclose(steps.projected, steps.sum @ part, rtol=1e-6)
                    assert steps.residual is steps.projected
                else:
                    assert steps.projected is steps.residual is None


def test_a_score_is_the_product_of_query_and_key(look):
    steps = look.steps("a", layer=1, head=2, name="encoder.self")
    np.testing.assert_allclose(steps.scores, steps.keys @ steps.query, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(steps.scaled, steps.scores / 2, rtol=1e-6)  # heads are 4 wide
    powers = np.exp(steps.scaled)
    np.testing.assert_allclose(steps.weights, powers / powers.sum(), rtol=1e-5)


def test_steps_as_json_have_the_agreed_names(look):
    steps = look.steps("e", layer=1, head=0, name="decoder.self")
    plain = json.loads(json.dumps(steps.as_json(), allow_nan=False))
    assert set(plain) - {"prior"} == set(
        "name layer head token row columns query keys scores scale scaled visible weights values "
        "weighted sum projected residual".split()
    )
    assert (plain["token"], plain["row"], plain["columns"]) == (1, "e", ["<s>", "d", "e"])
    assert plain["visible"] == [True, True, False]
    assert np.array(plain["weighted"]).shape == (3, 4)
    assert len(plain["projected"]) == 12


def test_scores_that_are_no_numbers_are_null():
    run = untrained("transformer", score="location", max_len=4)
    plain = run.explain("a b c d e", "f").steps(0).as_json()
    assert plain["scores"][4:] == [None, None]
    assert all(isinstance(score, float) for score in plain["scores"][:4])
    json.dumps(plain, allow_nan=False)


def test_a_word_stands_for_its_first_row(look):
    assert look.steps("a", name="encoder.self").token == 0
    assert look.steps("c", name="encoder.self").token == 2
    assert look.steps(3, name="encoder.self").row == "a"
    assert look.steps("</s>", name="encoder.self").token == 4


def test_without_a_name_the_word_says_who_asks(look):
    assert look.steps("d").name == "decoder.cross"
    assert look.steps("a").name == "encoder.self"  # only the source has it
    assert look.steps("</s>").name == "decoder.cross"
    assert look.steps(1).name == "decoder.cross"


def test_the_sign_for_a_space_may_be_left_out(look):
    pieces = Look(
        ("it", "▁it", "▁is", "</s>"),
        ("d", "e", "</s>"),
        "",
        {"encoder.self": look.attentions["encoder.self"]},
        records=look.records,
    )
    assert pieces.steps("it").token == 0
    assert pieces.steps("is").token == 2
    assert pieces.steps("▁it").token == 1


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"token": "x", "name": "decoder.cross"}, "no row of decoder.cross is 'x'.*rows are d e"),
        ({"token": 3, "name": "decoder.cross"}, "rows 0 to 2, not 3"),
        ({"token": -1}, "rows 0 to 2, not -1"),
        ({"token": 0, "head": 3}, "heads 0 to 2, not 3"),
        ({"token": 0, "layer": 2}, "layers 0 to 1, not 2"),
        ({"token": 0, "name": "decoder.cros"}, "did you mean 'decoder.cross'"),
    ],
)
def test_steps_of_what_is_not_there_are_refused(look, wanted, words):
    with pytest.raises(regard.ConfigError, match=words):
        look.steps(**wanted)


@pytest.mark.parametrize("form", ["csv", "svg", "tex"])
def test_one_head_is_saved_and_named(look, tmp_path, form):
    path = tmp_path / f"head.{form}"
    look.save(path, name="decoder.self", layer=0, head=1)
    assert "decoder.self, layer 0, head 1" in path.read_text()
    look.save(path)
    assert "decoder.cross, layer" in path.read_text()


@pytest.mark.parametrize("form", ["csv", "pdf", "json"])
def test_a_head_that_is_not_there_is_not_saved(look, tmp_path, form):
    with pytest.raises(ConfigError, match="heads 0 to"):
        look.save(tmp_path / f"head.{form}", head=99)
    assert not [*tmp_path.iterdir()]


def test_a_system_without_attention_has_no_steps():
    with pytest.raises(regard.ConfigError, match="does not attend"):
        untrained("sutskever2014").explain("a b", "c").steps("c")


def test_rollout_follows_a_self_attention_and_nothing_else(look):
    for name, n in (("encoder.self", 5), ("decoder.self", 3)):
        map_ = look.rollout(name)
        assert map_.shape == (n, n)
        np.testing.assert_allclose(map_.sum(-1), 1)
    assert (np.triu(look.rollout("decoder.self"), 1) == 0).all()  # nothing comes from the future
    with pytest.raises(regard.ConfigError, match="'decoder.cross' is not; .*encoder.self"):
        look.rollout("decoder.cross")
    with pytest.raises(regard.ConfigError, match="this system has none"):
        untrained("luong2015").explain("a b", "c").rollout("decoder.cross")


def test_the_weights_of_one_head_are_a_row_a_target_token(look):
    heads = look.weights("decoder.cross", layer=0)
    np.testing.assert_array_equal(look.weights("decoder.cross", layer=0, head=1), heads[1])
    with pytest.raises(regard.RegardError, match=f"has heads 0 to {len(heads) - 1}, not -1"):
        look.weights("decoder.cross", head=-1)


def test_a_look_that_is_printed_names_its_what_ifs():
    run, edit = untrained("transformer"), {"kind": "ablate", "name": "decoder.cross", "layer": 0}
    plain, edited = (str(run.explain("a b", "d", edit=one)) for one in ((), {**edit, "head": 1}))
    line = "what if: ablate decoder.cross, layer 0, head 1"
    assert line not in plain
    assert edited.splitlines()[:4].count(line) == 1
