"""Scenes: what is said of them is true, and every word knows the objects it is about."""

from dataclasses import replace

import numpy as np
import pytest

from regard.data.worlds.scene_language import (
    Claim,
    Description,
    caption,
    claim_of,
)
from regard.data.worlds.scene_pixels import (
    COLOURS,
    SHAPES,
    Scene,
    SceneObject,
    boxes,
    coverage,
    paint,
    visible,
)
from regard.data.worlds.scene_questions import ANSWERS
from regard.data.worlds.scenes import HELD_OUT, LEAST_SEEN, build_scenes
from regard.data.worlds.stable_random import StableRandom
from regard.text.words import split

WORDS = {**{name: ("shape", name) for name in SHAPES}, **{c: ("colour", c) for c in COLOURS}}


@pytest.fixture(scope="module")
def splits():
    return build_scenes(n_train=400, n_test=60)


def thing(shape="circle", colour="red", *, big=False, striped=False, x=0.5, y=0.5):
    return SceneObject(shape, colour, big, striped, x, y, 0.17 if big else 0.09, 0.0)


def test_a_seed_makes_the_same_scenes_and_pixels_every_time(splits):
    again = build_scenes(n_train=400, n_test=60)
    assert {name: [r.scene for r in some] for name, some in again.items()} == {
        name: [r.scene for r in some] for name, some in splits.items()
    }
    first = splits["train"][0]
    assert np.array_equal(first.pixels(), again["train"][0].pixels())
    other = build_scenes(seed=1, n_train=400, n_test=60)
    assert not {r.scene for r in other["train"]} & {r.scene for r in splits["train"]}


def test_splits_share_no_scene_and_keep_their_combinations(splits):
    seen = [repr(record.scene.objects) for some in splits.values() for record in some]
    assert len(seen) == len({*seen}) == 400 + 3 * 60
    for name, some in splits.items():
        held_out = [
            any((one.colour, one.shape) in HELD_OUT for one in record.scene.objects)
            for record in some
        ]
        assert all(held_out) if name == "combinations" else not any(held_out)
    assert {c for c, _ in HELD_OUT} == {*COLOURS}
    assert {s for _, s in HELD_OUT} == {*SHAPES}
    trained = {(o.colour, o.shape) for r in splits["train"] for o in r.scene.objects}
    assert trained == {(c, s) for c in COLOURS for s in SHAPES} - HELD_OUT


def test_scenes_have_one_to_five_objects_that_can_be_seen(splits):
    numbers = [len(record.scene.objects) for record in splits["train"]]
    assert {*numbers} == {1, 2, 3, 4, 5}
    for record in splits["train"][:100]:
        together = record.masks().sum(axis=(1, 2))
        alone = [visible(Scene((one,), 0)).sum() for one in record.scene.objects]
        assert (together >= LEAST_SEEN * np.array(alone)).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_differ_from_all_others_and_fit_into_their_circle(shape):
    cover = coverage(thing(shape, big=True), 64)
    for other in set(SHAPES) - {shape}:
        apart = np.abs(cover - coverage(thing(other, big=True), 64)).sum()
        assert apart > 0.08 * cover.sum(), other
    y, x = np.mgrid[:64, :64]
    far = np.hypot((x + 0.5) / 64 - 0.5, (y + 0.5) / 64 - 0.5) > 0.17 * 1.45
    assert cover[far].max() == 0
    assert cover.max() == 1


def test_a_star_is_the_polygon_of_its_ten_corners():
    """By an oracle: a point is inside if a ray to the right crosses the outline an odd time."""
    cover = coverage(thing("star", big=True), 64)
    angles = np.pi * np.arange(10) / 5
    radii = np.where(np.arange(10) % 2 == 0, 1.1, 0.45) * 0.17
    corners = np.stack((0.5 + radii * np.sin(angles), 0.5 - radii * np.cos(angles)), axis=1)
    for row, column in np.ndindex(64, 64):
        if 0 < cover[row, column] < 1:
            continue
        x, y = (column + 0.5) / 64, (row + 0.5) / 64
        crossings = 0
        for (x1, y1), (x2, y2) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            if (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
                crossings += 1
        assert crossings % 2 == cover[row, column]


def test_a_picture_shows_colours_where_the_masks_say_and_noise_elsewhere():
    scene = Scene((thing(x=0.3, big=True), thing("square", "blue", x=0.45, y=0.6, big=True)), 7)
    picture, masks = paint(scene), visible(scene)
    assert picture.shape == (64, 64, 3)
    assert picture.dtype == np.uint8
    for mask, one in zip(masks, scene.objects, strict=True):
        middle = np.median(picture[mask].astype(int), axis=0)
        assert np.abs(middle - COLOURS[one.colour][0]).max() < 12
    rest = picture[~masks.any(axis=0)].astype(float)
    assert 5 < rest.std() < 40
    assert abs(rest.mean() - 128) < 30
    assert not (masks[0] & masks[1]).any()


@pytest.mark.parametrize("size", [32, 96, 224])
def test_other_sizes_show_the_same_scene(splits, size):
    for record in splits["train"][:20]:
        other = replace(record, size=size)
        small, large = boxes(record.masks()), boxes(other.masks())
        assert np.abs(small - large).max() < 2.5 / min(size, 64)
        assert other.pixels().shape == (size, size, 3)


def test_boxes_are_tight(splits):
    for record in splits["train"][:50]:
        masks = record.masks()
        for mask, box in zip(masks, boxes(masks), strict=True):
            left, top, right, bottom = (box * 64).round().astype(int)
            inside = np.zeros_like(mask)
            inside[top:bottom, left:right] = True
            assert (mask <= inside).all()
            sides = mask[top], mask[bottom - 1], mask[:, left], mask[:, right - 1]
            assert all(side.any() for side in sides)


@pytest.mark.parametrize("language", ["en", "fr"])
def test_captions_are_true_and_say_their_claim(splits, language):
    for some in splits.values():
        for record in some[:60]:
            captions = record.captions[language]
            assert len({one.text for one in captions}) == 5
            for one in captions:
                assert one.claim.is_true(record.scene)
                assert claim_of(one.text, language) == one.claim
                assert len(one.about) == len(split(one.text))


def test_both_languages_say_the_same(splits):
    for record in splits["train"][:50]:
        english, french = record.captions["en"], record.captions["fr"]
        assert [one.claim for one in english] == [one.claim for one in french]


def test_words_are_about_the_objects_that_they_describe(splits):
    for record in splits["train"]:
        for said in (*record.captions["en"], *record.questions):
            for word, about in zip(split(said.text), said.about, strict=True):
                name = word.removesuffix("s") if word not in WORDS else word
                name = "cross" if word == "crosses" else name
                if name in WORDS and about:
                    kind, value = WORDS[name]
                    assert {getattr(record.scene.objects[i], kind) for i in about} == {value}
                if word in ("small", "big"):
                    sizes = {record.scene.objects[i].big for i in about}
                    assert sizes == {word == "big"}


def test_what_is_false_is_found_out():
    scene = Scene((thing(x=0.2), thing("star", "blue", big=True, x=0.8)), 0)
    for text, holds in {
        "a small red circle is left of a big blue star": True,
        "a big blue star is to the right of a circle": True,
        "a red circle is right of a blue star": False,
        "a big red circle": False,
        "there is a blue circle": False,
        "two things": True,
        "there are three things": False,
        "there are two circles": False,
        "a circle and a circle": False,
        "the picture shows a red circle and a blue star": True,
    }.items():
        claim = claim_of(text, "en")
        assert claim is not None, text
        assert claim.is_true(scene) is holds, text


@pytest.mark.parametrize(
    "text",
    ["", "a red", "red circle", "a circle red", "a circle is left of", "two circle", "a dog"],
)
def test_what_is_no_caption_has_no_claim(text):
    assert claim_of(text, "en") is None


def test_french_agrees_and_contracts():
    def said(claim, scene):
        draw = StableRandom(3)
        return {caption(claim, scene, "fr", draw).text for _ in range(60)}

    star = Description("star", "white", big=False, striped=True)
    ring = Description("ring", "green")
    scene = Scene((thing("star", "white", striped=True, x=0.2), thing("ring", "green", x=0.8)), 0)
    left = said(Claim("relation", star, ring, "left"), scene)
    assert "une petite étoile blanche rayée est à gauche d'un anneau vert" in left
    two = Scene((thing("cross", "purple", x=0.2), thing("cross", "purple", x=0.8)), 0)
    assert "deux croix violettes" in said(Claim("count", Description("cross", "purple"), n=2), two)


def test_questions_have_right_answers():
    """By an oracle that reads the words of the question."""
    kinds = set()
    for record in build_scenes(n_train=300, n_test=5)["train"]:
        for asked in record.questions:
            kinds.add(asked.kind)
            assert asked.answer in ANSWERS
            assert answered(asked.text, record.scene.objects) == asked.answer, asked
    assert kinds == {"is there", "how many", "colour", "shape", "relation", "compare"}


def answered(text, objects):
    """The answer to a question, found word by word."""
    words = split(text)[:-1]

    def fit(some):
        found = list(objects)
        for word in some:
            single = {"crosses": "cross"}.get(word, word.removesuffix("s"))
            if word in COLOURS:
                found = [one for one in found if one.colour == word]
            elif word in SHAPES or single in SHAPES:
                name = word if word in SHAPES else single
                found = [one for one in found if one.shape == name]
            elif word in ("small", "big"):
                found = [one for one in found if one.big == (word == "big")]
        return found

    if words[:2] == ["is", "there"]:
        return "yes" if fit(words[2:]) else "no"
    if words[:2] == ["how", "many"]:
        return str(len(fit(words[2:-2])))
    if words[0] == "what":
        (one,) = fit(words[3:])
        return one.colour if words[1] == "colour" else one.shape
    if words[:3] == ["are", "there", "more"]:
        at = words.index("than")
        return "yes" if len(fit(words[3:at])) > len(fit(words[at:])) else "no"
    second = len(words) - 1 - words[::-1].index("the")
    (a,), (b,) = fit(words[:second]), fit(words[second:])
    holds = {
        "left": a.x < b.x, "right": a.x > b.x, "above": a.y < b.y, "over": a.y < b.y,
        "below": a.y > b.y, "under": a.y > b.y,
    }  # fmt: skip
    return "yes" if next(v for k, v in holds.items() if k in words) else "no"


def test_answers_are_balanced():
    answers = {}
    for record in build_scenes(n_train=600, n_test=5)["train"]:
        for asked in record.questions:
            answers.setdefault(asked.kind, []).append(asked.answer)
    for kind in ("is there", "relation"):
        assert 0.4 < answers[kind].count("yes") / len(answers[kind]) < 0.6
    for kind in ("colour", "shape"):
        most = max(answers[kind].count(one) for one in {*answers[kind]})
        assert most < 0.25 * len(answers[kind])
