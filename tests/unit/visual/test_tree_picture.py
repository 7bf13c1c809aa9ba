from xml.etree import ElementTree

from looks import EVIL, tree

from regard.visual.tree import tree_html, tree_svg, tree_text

SVG = "{http://www.w3.org/2000/svg}"


def boxes():
    groups = ElementTree.fromstring(tree_svg(tree())).findall(f"{SVG}g")
    return {one.find(f"{SVG}text").text: one for one in groups}


def test_the_text_puts_the_best_first_and_says_why_one_was_pruned():
    assert tree_text(tree()).splitlines() == [
        "<s>",
        "├ le -0.10",
        "│ └ chat -0.30 ★",
        "├ la -0.50",
        "│ └ rue -1.00 ■",
        f"└ {EVIL} -2.00 ✕  (third of 2)",
    ]


def test_every_hypothesis_has_a_box_in_the_column_of_its_step():
    found = boxes()
    assert list(found) == [
        "<s>", "le -0.10", f"{EVIL} -2.00 ✕", "la -0.50", "chat -0.30 ★", "rue -1.00 ■",
    ]  # fmt: skip
    xs = {name: one.find(f"{SVG}rect").get("x") for name, one in found.items()}
    assert xs["le -0.10"] == xs["la -0.50"] == xs[f"{EVIL} -2.00 ✕"]
    assert xs["chat -0.30 ★"] == xs["rue -1.00 ■"]
    assert float(xs["<s>"]) < float(xs["le -0.10"]) < float(xs["chat -0.30 ★"])


def test_in_a_step_they_stand_in_the_order_of_their_scores_the_pruned_below():
    ys = {name: float(one.find(f"{SVG}rect").get("y")) for name, one in boxes().items()}
    assert ys["le -0.10"] < ys["la -0.50"] < ys[f"{EVIL} -2.00 ✕"]
    assert ys["chat -0.30 ★"] < ys["rue -1.00 ■"] == ys["la -0.50"]
    assert ys["<s>"] == ys["le -0.10"] == ys["chat -0.30 ★"]


def test_pointing_at_a_box_tells_its_numbers():
    titles = {name: one.find(f"{SVG}title").text for name, one in boxes().items()}
    pruned = titles[f"{EVIL} -2.00 ✕"]
    assert pruned == f"{EVIL}: log-probability -2, score -2, pruned (third of 2)"


def test_there_is_a_line_from_each_hypothesis_to_the_one_it_continues():
    paths = ElementTree.fromstring(tree_svg(tree())).findall(f"{SVG}path")
    assert len(paths) == 5
    assert sum(path.get("stroke-dasharray") is not None for path in paths) == 1


def test_the_notebook_gets_the_picture_as_it_is():
    assert tree_svg(tree()) in tree_html(tree())
