"""Captions that somebody else wrote: what they claim, and what their words are about."""

import pytest

from regard.data.worlds.scene_language import looked_for, spoken
from regard.data.worlds.scene_pixels import SHAPES
from regard.data.worlds.scenes import build_scenes


@pytest.fixture(scope="module")
def scenes():
    return build_scenes(n_train=1, n_test=30)["test"]


@pytest.mark.parametrize("language", ["en", "fr"])
def test_captions_of_the_world_are_understood_again(scenes, language):
    for one in scenes:
        for caption in one.captions[language]:
            assert spoken(caption.text, one.scene, language) == caption


def test_false_captions_are_about_nothing_and_nonsense_is_no_caption(scenes):
    scene = scenes[0].scene
    assert spoken("a red the star", scene, "en") is None
    assert spoken("un cercle rouge", scene, "en") is None
    shapes = {one.shape for one in scene.objects}
    absent = next(one for one in SHAPES if one not in shapes)
    found = spoken(f"a {absent}", scene, "en")
    assert found is not None
    assert found.about == ((), ())
    assert not found.claim.is_true(scene)


def test_words_that_are_seen_in_a_place():
    assert {"red", "circle", "crosses"} <= looked_for("en")
    assert {"thing", "big", "striped", "left", "a"}.isdisjoint(looked_for("en"))
    assert {"rouge", "rouges", "vertes", "étoile", "croix"} <= looked_for("fr")
    assert {"forme", "petite", "gauche"}.isdisjoint(looked_for("fr"))
