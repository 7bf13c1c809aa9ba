from xml.etree import ElementTree

from regard.visual.bars import bars
from regard.visual.stack import stack


def test_pictures_stand_below_each_other_each_in_its_own_size():
    parts = [bars({"a": 1.0}, title="one"), bars({"a": 1.0, "b": 2.0}, title="two")]
    whole = ElementTree.fromstring(stack(parts, label="both"))
    inner = [one for one in whole.iter() if one.tag.endswith("svg") and one is not whole]
    places = [(float(one.get("y")), float(one.get("height"))) for one in inner]
    assert places[0][0] == 0
    assert places[1][0] >= places[0][1]
    assert float(whole.get("viewBox").split()[3]) == sum(places[1])


def test_no_picture_makes_an_empty_one():
    assert ElementTree.fromstring(stack([], label="none")).get("viewBox") == "0 0 1 1"
