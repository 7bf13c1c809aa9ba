"""A patch of a picture is painted grey before the model reads it."""

import numpy as np
import pytest
from picture_runs import counting_run, scene

import regard
from regard.core.errors import ConfigError
from regard.tasks.edits import (
    Ablate,
    Occlude,
    as_json,
    edit_from,
    occluded,
    of_model,
    refuse_patches,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return regard.load(counting_run(tmp_path_factory.mktemp("counting")), device="cpu")


def test_one_patch_is_grey_and_nothing_else_changes():
    pixels = np.arange(6 * 9 * 3, dtype=np.uint8).reshape(6, 9, 3)
    found = Occlude(1, 2)(pixels, (2, 3))
    grey = np.zeros((6, 9), bool)
    grey[3:, 6:] = True
    assert len(np.unique(found[grey])) == 1
    assert np.array_equal(found[~grey], pixels[~grey])
    assert pixels[5, 8, 2] == 161  # what was given stays


@pytest.mark.parametrize("edit", [Occlude(2, 0), Occlude(0, 3), Occlude(-1, 0)])
def test_a_patch_that_there_is_not_is_refused(edit):
    with pytest.raises(ConfigError, match=r"occlude\.(row|column): the picture has"):
        occluded(np.zeros((6, 9, 3), np.uint8), (2, 3), [edit])


def test_it_is_json_and_no_edit_of_the_model():
    one = Occlude(1, 2)
    assert as_json(one) == {"kind": "occlude", "row": 1, "column": 2}
    assert edit_from(as_json(one)) == one
    ablate = Ablate("encoder.self", 0, 0)
    assert of_model([one, ablate]) == [ablate]
    with pytest.raises(ConfigError, match="reads texts"):
        refuse_patches([ablate, one])


def test_a_look_under_it_is_that_of_the_painted_picture(run):
    edits = [{"kind": "occlude", "row": 0, "column": 1}, {"kind": "occlude", "row": 3, "column": 3}]
    look = run.explain(scene(), edit=edits)
    painted = scene()
    for rows, columns in ((slice(0, 8), slice(8, 16)), (slice(24, 32), slice(24, 32))):
        painted[rows, columns] = look.picture[rows, columns]
        assert np.ptp(look.picture[rows, columns]) == 0
    assert np.array_equal(look.picture, painted)
    other = run.explain(painted)
    np.testing.assert_allclose(look.weights("encoder.self", 1), other.weights("encoder.self", 1))
    assert look.outcome == other.outcome != run.explain(scene()).outcome
    assert look.edits == tuple(edits)


def test_words_cannot_be_changed_where_there_are_none(run):
    for edit in (
        {"kind": "swap", "first": 0, "second": 1},
        {"kind": "force_token", "position": 0, "token": "a"},
    ):
        with pytest.raises(ConfigError, match="swap and force_token change words"):
            run.explain(scene(), edit=edit)
