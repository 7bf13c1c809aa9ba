"""Modules and style sheets as one file each."""

import re

import pytest

from regard.server import pages
from regard.server.bundle import bundled_page, bundled_script

FILES = {
    "a.js": 'import { one, two as second } from "./b.js";\nconsole.log(one, second);\n',
    "b.js": 'import { own } from "./c.js";\nexport const one = own();\nexport function two() {}\n',
    "c.js": "const one = 3; // another module has this name, too\n"
    "export async function own() {\n  return one;\n}\n",
    "x.css": "a { b: c }\n",
    "y.css": "d { e: f }\n",
}
PAGE = """<link rel="stylesheet" href="/static/x.css">
<link rel="stylesheet" href="/static/y.css">
<script type="module" src="/static/a.js"></script>
"""


def test_modules_stand_in_the_order_of_their_imports_each_with_names_of_its_own():
    assert bundled_script("a", FILES.__getitem__) == (
        "const $c = (() => {\n"
        "const one = 3; // another module has this name, too\n"
        "async function own() {\n  return one;\n}\n"
        "return { own };\n})();\n"
        "const $b = (() => {\n"
        "const { own } = $c;\nconst one = own();\nfunction two() {}\n"
        "return { one, two };\n})();\n"
        "const $a = (() => {\n"
        "const { one, two: second } = $b;\nconsole.log(one, second);\n"
        "return {  };\n})();\n"
    )


@pytest.mark.parametrize(
    "text", ['import * as all from "./b.js";\n', "export default 3;\n", 'await import("./b.js");\n']
)
def test_what_cannot_be_joined_is_refused_with_its_module(text):
    with pytest.raises(ValueError, match=r"a\.js has"):
        bundled_script("a", {**FILES, "a.js": text}.__getitem__)


def test_modules_that_import_each_other_are_refused():
    files = {"a.js": 'import { b } from "./b.js";\n', "b.js": 'import { a } from "./a.js";\n'}
    with pytest.raises(ValueError, match="import each other"):
        bundled_script("a", files.__getitem__)


def test_a_page_loads_one_script_and_one_style_sheet_whose_names_tell_their_content():
    html, (script, style) = bundled_page(PAGE, FILES.__getitem__)
    assert html == (
        f'<link rel="stylesheet" href="/static/{style.name}">\n'
        f'<script type="module" src="/static/{script.name}"></script>\n'
    )
    assert style.text == "a { b: c }\nd { e: f }\n"
    _, (other, same) = bundled_page(PAGE, {**FILES, "c.js": "export const own = 3;\n"}.__getitem__)
    assert other.name != script.name
    assert same.name == style.name


@pytest.mark.parametrize("name", ["index.html", "watch.html"])
def test_every_page_has_the_head_that_all_share_and_loads_its_style_first(name):
    html = pages.page_html(name)
    shared = (pages.PAGE / "head.html").read_text(encoding="utf-8")
    assert html.count(shared) == 1
    assert "<!--" not in html
    assert html.index(shared) < html.index("<title>")
    _, (_, style) = bundled_page(html, pages.page_file)
    assert style.text.startswith(pages.page_file("theme.css") + pages.page_file("page.css"))


def test_modules_come_in_the_order_of_their_imports_in_every_process():
    """A set of names has another order in another process; a page written twice is one page."""
    names = [f"m{i}" for i in range(20)]
    files = {f"{name}.js": f"export const {name} = 1;\n" for name in names}
    imports = "".join(f'import {{ {name} }} from "./{name}.js";\n' for name in names)
    made = bundled_script("all", {**files, "all.js": imports}.__getitem__)
    assert re.findall(r"^const \$(\w+) = \(", made, re.MULTILINE) == [*names, "all"]
