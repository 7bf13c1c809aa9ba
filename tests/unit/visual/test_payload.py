"""Reading the payload and packing it."""

import base64
import zlib

import numpy as np
import pytest
from looks import payload, steps

import regard
from regard.visual import payload as payloads
from regard.visual.look_files import look_html
from regard.visual.payload import (
    Selected,
    axes_of,
    choice_lines,
    main_attention,
    packed,
    packed_payload,
    packed_steps,
    probability_line,
    selected_view,
    view,
)


def labels(look, name):
    return tuple(axis.labels for axis in axes_of(look, name))


def test_the_axes_say_whose_tokens_rows_and_columns_are():
    look = payload(("a", "b"), ("x",))
    assert labels(look, "encoder.self") == (("a", "b", "</s>"), ("a", "b", "</s>"))
    assert labels(look, "decoder.self") == (("x", "</s>"), ("<s>", "x"))
    assert labels(look, "decoder.cross") == (("x", "</s>"), ("a", "b", "</s>"))
    said = {**look, "axes": {"decoder.cross": {"rows": "source", "columns": "input"}}}
    assert labels(said, "decoder.cross") == (("a", "b", "</s>"), ("<s>", "x"))
    assert labels({**look, "axes": {}}, "decoder.self") == (("x", "</s>"), ("<s>", "x"))


def test_the_last_layer_of_the_cross_attention_is_the_default():
    look = payload(n_layers=3)
    one = selected_view(look, Selected())
    assert (one.name, one.layer) == ("decoder.cross", 2)
    np.testing.assert_array_equal(one.head(1), look["attentions"]["decoder.cross"][2][1])
    heads = np.array(look["attentions"]["decoder.cross"][2])
    np.testing.assert_allclose(one.head(None), heads.mean(0))
    assert one.title(None) == "decoder.cross, layer 2, mean of 3 heads"
    assert one.title(1) == "decoder.cross, layer 2, head 1"


def test_no_probability_is_rounded_up_to_certainty():
    look = payload(("a",), ("x",))
    assert probability_line({**look, "probabilities": [0.99999, 0.5]}) == "x > 99.9 %, </s> 50.0 %"
    choices = [{"text": "yes", "probability": 0.99999}, {"text": "no", "probability": 1e-5}]
    outcome = {"kind": "label", "places": [{"rows": [], "choices": choices}]}
    assert choice_lines({**look, "outcome": outcome}) == ["yes > 99.9 %, no < 0.1 %"]


def test_what_is_not_there_is_named_with_what_is():
    look = payload(n_layers=2, n_heads=3)
    with pytest.raises(regard.ConfigError, match="did you mean 'decoder.cross'"):
        view(look, "decoder.crss")
    with pytest.raises(regard.ConfigError, match="layers 0 to 1, not 2"):
        view(look, "decoder.self", 2)
    with pytest.raises(regard.ConfigError, match="heads 0 to 2, not 3"):
        view(look, "decoder.self", 0).head(3)
    with pytest.raises(regard.ConfigError, match="does not attend"):
        main_attention({"attentions": {}})


def unpacked(one):
    raw = zlib.decompress(base64.b64decode(one["data"]))
    numbers = np.frombuffer(raw, "u1")
    if one["bits"] == 32:
        numbers = np.ascontiguousarray(numbers.reshape(4, -1).T).view("<f4")
    else:
        numbers = numbers / 255
    return numbers.reshape(one["shape"])


def test_floats_come_back_exactly_and_bytes_to_half_a_step():
    weights = np.random.default_rng(0).random((2, 3, 5), dtype=np.float32)
    np.testing.assert_array_equal(unpacked(packed(weights)), weights)
    np.testing.assert_allclose(unpacked(packed(weights, bits=8)), weights, atol=0.5 / 255 + 1e-7)


def test_few_weights_are_all_exact():
    look = payload()
    result = packed_payload(look, Selected())
    for name, layers in look["attentions"].items():
        for layer, one in zip(layers, result["attentions"][name], strict=True):
            assert one["bits"] == 32
            np.testing.assert_array_equal(unpacked(one), np.float32(layer))
    assert result["selected"] == {
        "name": "decoder.cross",
        "layer": 1,
        "head": None,
        "token": None,
    }


def test_of_many_weights_only_the_selected_layer_is_exact(monkeypatch):
    monkeypatch.setattr(payloads, "EXACT_WEIGHTS", 10)
    result = packed_payload(payload(), Selected("encoder.self", 0))["attentions"]
    exact = [
        (name, i) for name in result for i, one in enumerate(result[name]) if one["bits"] == 32
    ]
    assert exact == [("encoder.self", 0)]


def test_steps_share_their_keys_and_lose_no_number():
    look = payload()
    given = [steps(look, token) for token in range(3)]
    (group,) = packed_steps(given)
    assert (group["name"], group["layer"], group["head"]) == ("decoder.cross", 1, 0)
    np.testing.assert_allclose(unpacked(group["keys"]), given[0]["keys"], rtol=1e-6)
    for key in ("query", "weights", "sum", "projected"):
        np.testing.assert_allclose(unpacked(group[key]), [one[key] for one in given], rtol=1e-6)
    scores = unpacked(group["scores"])
    assert np.isnan(scores[:, -1]).all()
    np.testing.assert_allclose(scores[:, :-1], [one["scores"][:-1] for one in given], rtol=1e-6)
    assert "scaled" not in group
    assert group["residual"] == "projected"
    np.testing.assert_array_equal(unpacked(group["visible"]), [one["visible"] for one in given])


def test_what_does_not_follow_from_the_rest_is_kept():
    given = {**steps(payload(), 0), "scale": None, "scaled": [1.0, 2.0, 3.0, 4.0]}
    (group,) = packed_steps([{**given, "residual": [0.5] * 7}])
    np.testing.assert_array_equal(unpacked(group["scaled"]), [[1, 2, 3, 4]])
    np.testing.assert_array_equal(unpacked(group["residual"]), [[0.5] * 7])


def test_heads_beyond_the_room_are_left_out_but_never_the_first(monkeypatch):
    look = payload()
    given = [steps(look, token, head=head) for head in range(3) for token in range(3)]
    assert [group["head"] for group in packed_steps(given)] == [0, 1, 2]
    monkeypatch.setattr(payloads, "STEP_NUMBERS", 1)
    assert [group["head"] for group in packed_steps(iter(given))] == [0]


def test_two_hundred_tokens_of_base_stay_below_five_megabytes():
    """Near-uniform and sharp weights alike: 18 attentions of 8 heads, 200 x 200 each."""
    words = [f"word{i}" for i in range(199)]
    look = payload(words, words, n_layers=1, n_heads=8, sharp=1.0)
    look["attentions"] = {
        name: [np.array(layers[0])] * 6 for name, layers in look["attentions"].items()
    }
    given = [steps(look, token, layer=5, d=64, d_model=512) for token in range(200)]
    assert len(look_html(look, given)) < 5e6
