"""How tests of the page address its parts."""

import json
from urllib.parse import quote

SOURCE = "a b c d"
ABLATE = {"kind": "ablate", "name": "decoder.cross", "layer": 0, "head": 1}
READY = "#view:not([aria-busy]) svg"


def link(**state):
    """A link's part after "#"; texts as they are, the rest as JSON."""
    shown = {k: v if isinstance(v, str) else json.dumps(v) for k, v in state.items()}
    return "#" + "&".join(f"{key}={quote(value)}" for key, value in shown.items())


def control(page, name):
    return page.locator(f'[data-control="{name}"]')
