"""A look as a page, a piece of a notebook and a live widget."""

import base64
import hashlib
import json
import re
import sys
from html import unescape

import pytest
from looks import EVIL, payload, steps, tree

import regard
from regard.visual import look_files
from regard.visual.look_files import json_text, look_fragment, look_html, module_text
from regard.visual.payload import Selected, packed_payload, packed_steps


def script_of(page):
    return re.search(r'<script type="module">(.*?)</script>', page, re.DOTALL)[1]


def test_the_policy_allows_this_one_script_and_nothing_from_outside():
    page = look_html(payload())
    digest = base64.b64encode(hashlib.sha256(script_of(page).encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}';" in policy
    assert "http" not in policy
    assert not re.findall(r'(?:src|href)="(?!data:)', page)


def test_no_sentence_can_end_the_data():
    evil = "</script><script>alert(1)</script><!--"
    page = look_html(payload((evil, EVIL), (evil,)), tree=tree())
    data = re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[1]
    assert "<" not in data
    assert json.loads(data)["source_tokens"] == [evil, EVIL, "</s>"]
    assert page.count("<script") == 2
    assert "<img" not in page
    assert json.loads(json_text("a<b\u2028")) == "a<b\u2028"


def test_the_module_is_one_piece():
    assert not re.search(r"^import ", module_text(), re.MULTILINE)
    assert "function show(" in module_text()
    assert "function drawMatrix(" in module_text()
    assert "</script" not in module_text()


def test_a_fragment_is_a_frame_that_holds_the_page():
    look = payload()
    fragment = look_fragment(look)
    assert fragment.startswith("<iframe ")
    assert 'sandbox="allow-scripts allow-downloads"' in fragment
    assert unescape(re.search(r'srcdoc="([^"]*)"', fragment)[1]) == look_html(look)
    assert " id=" not in look_html(look)


def test_a_system_that_does_not_attend_gets_a_page_as_well():
    look = {**payload(), "attentions": {}}
    assert "selected" not in look_html(look).split("application/json")[1].split("</script>")[0]


def test_the_widget_holds_the_packed_payload_and_the_drawing_module():
    pytest.importorskip("anywidget", reason="anywidget is not installed: no widget to test")
    look = payload()
    one = look_files.LookWidget(look, [steps(look, 0)])
    assert one.payload == {
        **packed_payload(look, Selected()),
        "steps": packed_steps([steps(look, 0)]),
    }
    assert "export default" in one._esm


def test_without_anywidget_the_error_says_how_to_get_it(monkeypatch):
    look_files._widget_class.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(regard.ConfigError, match=r"regard\[notebook\]"):
        look_files.LookWidget(payload())
