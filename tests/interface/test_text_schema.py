"""Whatever the OpenAPI schema of a run of any kind allows or forbids: never a 500."""

from functools import partial

import pytest
import schemathesis
from chats import chat_folder
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from picture_runs import captioning_run, counting_run
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from text_runs import short_run

import regard
from regard.server.app import make_app
from regard.server.heads import HeadMeasuring
from regard.server.held_out import HeldOutReading
from regard.tasks.search import held_out_texts

PATHS = {
    "classification": ["/api/classify", "/api/embed", "/api/nearest", "/api/explain"],
    "masked": ["/api/fill", "/api/explain"],
    "answers": ["/api/answer", "/api/explain"],
    "language": ["/api/generate", "/api/explain"],
}
OTHERS = {"talker": chat_folder, "pictures": counting_run, "captions": captioning_run}
"""Runs that are no short runs of texts: what makes them in a folder."""
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
            made = OTHERS.get(kind, partial(short_run, kind))
            run = regard.load(made(tmp_path_factory.mktemp(kind)), device="cpu")
            app = make_app(run, loopback=False)
            known[kind] = schemathesis.openapi.from_asgi("/openapi.json", app)
        return known[kind]

    return api


@pytest.mark.parametrize(("kind", "path", "mode"), TRIES)
def test_no_request_breaks_the_server(apis, kind, path, mode):
    never_fails(apis(kind)[path]["POST"], mode, n=20)


@pytest.mark.parametrize("kind", [*PATHS, *OTHERS])
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_path_of_any_run_breaks_the_server(apis, kind, mode, monkeypatch):
    """Every path that the schema names, those of other projects' clients among them."""

    async def measured(_self):
        return b"{}"

    async def texts(reading):
        return held_out_texts(regard.load(reading.words[0], device="cpu"))

    monkeypatch.setattr(HeadMeasuring, "result", measured)  # by a process of its own, for seconds
    monkeypatch.setattr(HeldOutReading, "texts", texts)
    tried = set()
    for found in apis(kind).get_all_operations():
        operation = found.ok()
        tried.add(operation.path)
        if operation.path in PATHS.get(kind, ()):
            continue
        takes = operation.body or operation.query or operation.path_parameters
        if mode is GenerationMode.POSITIVE or takes:
            never_fails(operation, mode, n=4)
    assert {"/healthz", "/metrics", "/api/info", "/api/heads", "/api/explain"} <= tried


def never_fails(operation, mode, n):
    """Try so many requests that the schema allows, or forbids."""
    strategy = operation.as_strategy(generation_mode=mode)

    @settings(
        max_examples=n,
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
