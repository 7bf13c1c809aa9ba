import sys

import pytest
from looks import payload, steps

import regard
from regard.visual import widget
from regard.visual.packing import packed_payload, packed_steps
from regard.visual.payload import Selected


def test_the_widget_holds_the_packed_payload_and_the_drawing_module():
    pytest.importorskip("anywidget", reason="anywidget is not installed: no widget to test")
    look = payload()
    one = widget.LookWidget(look, [steps(look, 0)])
    assert one.payload == {
        **packed_payload(look, Selected()),
        "steps": packed_steps([steps(look, 0)]),
    }
    assert "export default" in one._esm


def test_without_anywidget_the_error_says_how_to_get_it(monkeypatch):
    widget._widget_class.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(regard.ConfigError, match=r"regard\[notebook\]"):
        widget.LookWidget(payload())
