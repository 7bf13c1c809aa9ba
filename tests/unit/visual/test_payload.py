import numpy as np
import pytest
from looks import payload

import regard
from regard.visual.payload import Selected, main_attention, selected_view, tokens_of, view


def test_the_axes_say_whose_tokens_rows_and_columns_are():
    look = payload(("a", "b"), ("x",))
    assert tokens_of(look, "encoder.self") == (("a", "b", "</s>"), ("a", "b", "</s>"))
    assert tokens_of(look, "decoder.self") == (("x", "</s>"), ("<s>", "x"))
    assert tokens_of(look, "decoder.cross") == (("x", "</s>"), ("a", "b", "</s>"))
    said = {**look, "axes": {"decoder.cross": {"rows": "source", "columns": "input"}}}
    assert tokens_of(said, "decoder.cross") == (("a", "b", "</s>"), ("<s>", "x"))
    assert tokens_of({**look, "axes": {}}, "decoder.self") == (("x", "</s>"), ("<s>", "x"))


def test_the_last_layer_of_the_cross_attention_is_the_default():
    look = payload(n_layers=3)
    one = selected_view(look, Selected())
    assert (one.name, one.layer) == ("decoder.cross", 2)
    np.testing.assert_array_equal(one.head(1), look["attentions"]["decoder.cross"][2][1])
    heads = np.array(look["attentions"]["decoder.cross"][2])
    np.testing.assert_allclose(one.head(None), heads.mean(0))
    assert one.title(None) == "decoder.cross, layer 2, mean of 3 heads"
    assert one.title(1) == "decoder.cross, layer 2, head 1"


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
