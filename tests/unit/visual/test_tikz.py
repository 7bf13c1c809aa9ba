"""Heat maps for LaTeX slides."""

from regard.visual.tikz import matrix_tikz


def test_every_cell_is_as_dark_as_its_weight_and_says_it():
    text = matrix_tikz([[0.25, 0.75], [1.0, 0.0]], ["le", "chat"], ["the", "cat"], title="a_b")
    assert text.startswith(r"\begin{tikzpicture}")
    assert text.endswith("\\end{tikzpicture}\n")
    assert text.count(r"\fill[regard") == 4
    assert r"\fill[regard,opacity=0.750] (1,0) rectangle (2,-1);" in text
    assert r"\node[font=\tiny,text=white] at (1.5,-0.5) {0.75};" in text
    assert r"\node[font=\tiny,text=black] at (0.5,-0.5) {0.25};" in text
    assert r"{a\_b}" in text
    assert text.count("{") == text.count("}")


def test_what_latex_lacks_is_defined_inside():
    text = matrix_tikz([[1.0]], ["中"], ["%"], title="t")
    assert text.index(r"\providecommand{\regardchar}") < text.index(r"\regardchar{中}")
    assert r"{\%}" in text
