"""A look that is live in Jupyter, by anywidget: the drawing is the same as on every page of ours.

``LookWidget(payload)`` shows a payload; setting ``widget.payload`` to another one draws it anew.
What is chosen in it comes back as ``widget.selected``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from regard.core.errors import ConfigError
from regard.visual.html import module_text
from regard.visual.packing import packed_payload, packed_steps
from regard.visual.payload import Payload, Selected

_RENDER = """
export default {
  render({ model, el }) {
    const draw = () => {
      const box = document.createElement("div");
      el.replaceChildren(box);
      show(box, model.get("payload"), (selected) => {
        model.set("selected", selected);
        model.save_changes();
      });
    };
    model.on("change:payload", draw);
    draw();
    return () => model.off("change:payload", draw);
  },
};
"""


def LookWidget(  # noqa: N802 - to the user it is a class; it is made on first use
    payload: Payload, steps: Iterable[Mapping[str, Any]] = ()
) -> Any:
    """An anywidget of a look's payload (``look.as_json()``), with the steps of some tokens."""
    packed = packed_payload(payload, Selected())
    return _widget_class()(payload={**packed, "steps": packed_steps(steps)})


@cache
def _widget_class() -> Any:
    """Made when first needed: anywidget is an extra that most do without."""
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise ConfigError(
            "the live widget needs anywidget, which is not installed; "
            "pip install 'regard[notebook]', or show the look itself, which needs nothing"
        ) from error

    class _LookWidget(anywidget.AnyWidget):  # type: ignore[misc, unused-ignore]
        _esm = module_text() + _RENDER
        payload = traitlets.Dict().tag(sync=True)
        selected = traitlets.Dict().tag(sync=True)

    return _LookWidget
