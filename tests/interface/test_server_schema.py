"""Whatever the OpenAPI schema allows, and what it forbids: an answer is found, never a 500."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error

import regard
from regard.server.app import make_app

TAKE_INPUT = [
    ("POST", "/translate"),
    ("POST", "/detect"),
    ("POST", "/api/explain"),
    ("POST", "/api/importance"),
    ("POST", "/api/read"),
    ("POST", "/api/beam"),
    ("POST", "/api/story"),
    ("POST", "/api/search"),
    ("GET", "/api/search/progress"),
    ("GET", "/api/stream"),
    ("GET", "/api/info"),
    ("GET", "/api/heads/progress"),
    ("GET", "/api/words"),
    ("GET", "/api/training/film"),
    ("GET", "/metrics"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{name}"),
]
TAKE_NOTHING = [
    ("GET", "/languages"),
    ("GET", "/healthz"),
    ("GET", "/api/drawing"),
    ("GET", "/api/training"),
]
SLOW = [("GET", "/api/heads")]
"""Measures for seconds, and has no input but the key."""
TRIES = [(*one, GenerationMode.POSITIVE) for one in (*TAKE_INPUT, *TAKE_NOTHING)]
TRIES += [(*one, GenerationMode.NEGATIVE) for one in TAKE_INPUT]


@pytest.fixture(scope="module")
def api(run_path):
    """The schema, read from an app that answers in this process."""
    app = make_app(regard.load(run_path, device="cpu"), loopback=False)
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def test_every_operation_is_tried(api):
    found = {(one.ok().method.upper(), one.ok().path) for one in api.get_all_operations()}
    assert found == {*TAKE_INPUT, *TAKE_NOTHING, *SLOW}


@pytest.mark.parametrize(("method", "path", "mode"), TRIES)
def test_no_request_breaks_the_server(api, method, path, mode):
    strategy = api[path][method].as_strategy(generation_mode=mode)

    @settings(
        max_examples=40,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def try_it(data):
        case = data.draw(strategy)
        case.validate_response(case.call(), checks=[not_a_server_error])

    try_it()
