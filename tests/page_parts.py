"""How tests of the page serve it, and address its parts."""

import json
import socket
import threading
import time
from contextlib import contextmanager
from urllib.parse import quote

import numpy as np
import uvicorn

SOURCE = "a b c d"
ABLATE = {"kind": "ablate", "name": "decoder.cross", "layer": 0, "head": 1}
READY = "#view:not([aria-busy]) svg"


def link(**state):
    """A link's part after "#"; texts as they are, the rest as JSON."""
    shown = {k: v if isinstance(v, str) else json.dumps(v) for k, v in state.items()}
    return "#" + "&".join(f"{key}={quote(value)}" for key, value in shown.items())


def control(page, name):
    return page.locator(f'[data-control="{name}"]')


@contextmanager
def served(app):
    """A real server, in a thread of its own -> its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def drawn(page, where="#view"):
    """(T, S) of the weights in the picture; NaN where nothing is drawn."""
    page.wait_for_selector(READY)
    cells = page.eval_on_selector_all(
        f"{where} [data-weight][data-t]",
        "all => all.map(({dataset: d}) => [+d.t, +d.s, +d.weight])",
    )
    assert cells
    n_rows, n_columns = (int(max(cell[i] for cell in cells)) + 1 for i in (0, 1))
    weights = np.full((n_rows, n_columns), np.nan)
    for t, s, weight in cells:
        weights[int(t), int(s)] = weight
    return weights


def same(weights, expected):
    np.testing.assert_allclose(weights, expected, atol=1e-6, rtol=0)
