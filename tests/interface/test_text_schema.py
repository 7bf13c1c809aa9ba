"""Whatever the OpenAPI schema of a run that reads one text allows or forbids: never a 500."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from text_runs import short_run

import regard
from regard.server.app import make_app

PATHS = {
    "classification": ["/api/classify", "/api/embed", "/api/nearest", "/api/explain"],
    "masked": ["/api/fill", "/api/explain"],
    "answers": ["/api/answer", "/api/explain"],
    "language": ["/api/generate", "/api/explain"],
}
TRIES = [
    (kind, path, mode)
    for kind, paths in PATHS.items()
    for path in paths
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
]


@pytest.fixture(scope="module")
def apis(tmp_path_factory):
    """The schema of each kind, read from an app that answers in this process."""
    known = {}

    def api(kind):
        if kind not in known:
            run = regard.load(short_run(kind, tmp_path_factory.mktemp(kind)), device="cpu")
            app = make_app(run, loopback=False)
            known[kind] = schemathesis.openapi.from_asgi("/openapi.json", app)
        return known[kind]

    return api


@pytest.mark.parametrize(("kind", "path", "mode"), TRIES)
def test_no_request_breaks_the_server(apis, kind, path, mode):
    strategy = apis(kind)[path]["POST"].as_strategy(generation_mode=mode)

    @settings(
        max_examples=20,
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
