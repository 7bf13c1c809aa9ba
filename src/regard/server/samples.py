"""One request for each path, as one would type it: what ``/docs`` shows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from regard.server.service import Service

Sample = Mapping[str, Any]
"""Fields to send, in the body or in the address."""
STREAMS = ("/api/stream", "/api/generate")


def samples(service: Service) -> dict[str, Sample]:
    """Path → fields that this very run can answer; a path that takes none has none."""
    source, target = service.languages
    text = service.sample
    return {
        "/translate": {"q": text, "source": source, "target": target},
        "/detect": {"q": text},
        "/api/words": {"begins": ""},
        "/api/explain": {"source": text, "edits": [{"kind": "temperature", "value": 2}]},
        "/api/beam": {"source": text, "n_beams": 2},
        "/api/stream": {"source": text},
    }


def curl(method: str, path: str, sample: Sample, *, host: str, key: bool) -> str:
    """The command; with ``key`` the place of the server's key is shown."""
    words = ["curl"]
    inside = {name for name in sample if f"{{{name}}}" in path}
    path = path.format(**{name: sample[name] for name in inside}) if inside else path
    sample = {name: value for name, value in sample.items() if name not in inside}
    if path in STREAMS:
        words += ["-N"]  # as it comes, not at the end
    if key:
        words += ["-H", "Authorization: Bearer KEY"]
    if method == "post":
        body = json.dumps(sample, ensure_ascii=False)
        sent = ["-H", "Content-Type: application/json", "-d", body]
        return shlex.join([*words, *sent, f"{host}{path}"])
    asked = f"?{urlencode(sample)}" if sample else ""
    return shlex.join([*words, f"{host}{path}{asked}"])
