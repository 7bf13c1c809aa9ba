import re
from xml.etree import ElementTree

from regard.visual.matrix import matrix

SVG = "{http://www.w3.org/2000/svg}"


def drawn(weights, rows, columns):
    return ElementTree.fromstring(matrix(weights, rows, columns, title="a <b>"))


def test_every_cell_tells_its_number_and_is_as_strong():
    root = drawn([[0.25, 0.75, 0.0], [1.0, 0.0, 0.125]], ["x", "y"], ["p", "q", "r"])
    cells = root.findall(f"{SVG}rect")
    assert [cell.find(f"{SVG}title").text for cell in cells] == [
        "x → p: 0.250", "x → q: 0.750", "x → r: 0.000",
        "y → p: 1.000", "y → q: 0.000", "y → r: 0.125",
    ]  # fmt: skip
    assert [float(cell.get("fill-opacity")) for cell in cells] == [0.25, 0.75, 0, 1, 0, 0.125]


def test_rows_go_down_and_columns_across():
    cells = drawn([[0.1, 0.2], [0.3, 0.4]], ["x", "y"], ["p", "q"]).findall(f"{SVG}rect")
    places = [(float(cell.get("x")), float(cell.get("y"))) for cell in cells]
    assert places[0][0] == places[2][0] < places[1][0] == places[3][0]
    assert places[0][1] == places[1][1] < places[2][1] == places[3][1]


def test_tokens_are_text_whatever_they_say():
    picture = matrix([[1.0]], ["<script>alert(1)</script>"], ["&"], title="t")
    assert "<script>" not in picture
    names = [text.text for text in ElementTree.fromstring(picture).findall(f"{SVG}text")]
    assert set(names) == {"t", "&", "<script>alert(1)</script>"}


def test_sixty_tokens_do_not_overlap():
    names = [f"word{i}" for i in range(60)]
    root = drawn([[0.0] * 60] * 60, names, names)
    cells = root.findall(f"{SVG}rect")
    assert len({(cell.get("x"), cell.get("y")) for cell in cells}) == 3600
    width = float(re.search(r"0 0 (\d+)", root.get("viewBox"))[1])
    assert width > 60 * 25
