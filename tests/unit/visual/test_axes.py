"""Looks whose sides are no words: patches, frames and nodes, through every renderer."""

import json

import numpy as np
import pytest

from regard.core.errors import ConfigError, ShapeError
from regard.visual.look_files import look_file, look_html
from regard.visual.matrix import look_text
from regard.visual.payload import Axis, Selected, axes_of, drawn

PATCHES = Axis.patches(2, 3, before=["[CLS]"])


@pytest.fixture
def look():
    """A captioner's look: two words at a picture of 2 × 3 patches behind a class token."""
    weights = np.random.default_rng(0).dirichlet(np.ones(7), size=(1, 2, 2))  # (layers, H, T, S)
    return {
        "source": "",
        "answer": "a cat",
        "translation": "a cat",
        "source_tokens": list(PATCHES),
        "target_tokens": ["a", "cat"],
        "attentions": {"decoder.cross": weights.tolist()},
        "axes": {"decoder.cross": {"rows": "target", "columns": "source"}},
        "sides": {"source": PATCHES.as_json()},
        "edits": [],
    }


@pytest.mark.parametrize(
    "axis",
    [Axis(("a", "b")), PATCHES, Axis.frames(3, seconds=0.02), Axis(("n1", "n2"), "nodes")],
    ids=lambda axis: axis.kind,
)
def test_an_axis_comes_back_from_json(axis):
    assert Axis.from_json(json.loads(json.dumps(axis.as_json()))) == axis
    assert (len(axis), list(axis), axis[-1]) == (len(axis.labels), [*axis.labels], axis.labels[-1])


def test_patches_and_frames_have_names():
    assert PATCHES.labels == ("[CLS]", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    assert PATCHES.n_before == 1
    assert Axis.frames(3, seconds=0.02).labels == ("0.00s", "0.02s", "0.04s")
    assert Axis.frames(2).labels == ("0", "1")


def test_a_grid_must_fit_its_labels_and_belongs_to_patches():
    with pytest.raises(ShapeError, match="needs more than 3 labels"):
        Axis(("a", "b", "c"), "patches", (2, 2))
    with pytest.raises(ConfigError, match="patches alone have a grid"):
        Axis(("a", "b"), "tokens", (1, 2))
    with pytest.raises(ConfigError, match="not of 'pixels'"):
        Axis(("a",), "pixels")


def test_the_sides_of_a_payload_outrank_its_tokens(look):
    rows, columns = axes_of(look, "decoder.cross")
    assert (rows, columns) == (Axis(("a", "cat")), PATCHES)


def test_a_row_that_looks_at_patches_is_drawn_as_their_picture(look):
    one = drawn(look, Selected(token=1, head=0))
    wanted = np.array(look["attentions"]["decoder.cross"])[0, 0, 1, 1:].reshape(2, 3)
    np.testing.assert_array_equal(one.weights, wanted)
    assert (one.rows, one.columns) == (("0", "1"), ("0", "1", "2"))
    assert one.title == "decoder.cross, layer 0, head 0, cat → patches"
    assert drawn(look, Selected()).weights.shape == (2, 7)


def test_every_form_shows_the_patches(look):
    for label in PATCHES:
        assert label in look_file(look, "svg")
        assert label in look_file(look, "csv")
        assert label in look_html(look)
    first = look_file(look, "csv", selected=Selected(token=0)).splitlines()[0]
    assert first == '"decoder.cross, layer 0, mean of 2 heads, a → patches",0,1,2'
    assert "C" in look_text(look).plain  # written downwards
