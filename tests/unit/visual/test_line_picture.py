from xml.etree import ElementTree

import numpy as np
from looks import EVIL, payload

from regard.visual.lines import lines
from regard.visual.payload import view

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture):
    """(title, colour and dash) of each line of a weight."""
    strokes = ElementTree.fromstring(picture).findall(f"{SVG}g[@fill='none']/{SVG}path")
    return [
        (one.find(f"{SVG}title").text, (one.get("stroke"), one.get("stroke-dasharray")))
        for one in strokes
    ]


def test_every_weight_from_the_threshold_on_is_a_line_with_its_number():
    one = view(payload(n_heads=8), "decoder.cross", 0)
    found = drawn(lines(one, threshold=0.25))
    expected = {
        f"head {h}: {one.rows[t]} → {one.columns[s]}: {one.weights[h, t, s]:.6g}"
        for h, t, s in np.argwhere(one.weights >= 0.25)
    }
    assert {title for title, _ in found} == expected
    assert any(EVIL in title for title, _ in found)


def test_each_head_has_a_colour_of_its_own():
    one = view(payload(n_heads=8), "decoder.cross", 0)
    found = drawn(lines(one, threshold=0.0))
    styles = {(title.split(":")[0], style) for title, style in found}
    assert len(styles) == 8
    assert len({style for _, style in styles}) == 8


def test_only_the_heads_asked_for_are_drawn():
    one = view(payload(), "decoder.cross", 0)
    assert {title.split(":")[0] for title, _ in drawn(lines(one, heads=[2], threshold=0.0))} == {
        "head 2"
    }
