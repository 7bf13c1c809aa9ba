"""One request for each path of a run that reads one text: what ``/docs`` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.server.text_service import TextService
from regard.server.texts.examples import examples


def text_samples(service: TextService) -> Mapping[str, Mapping[str, Any]]:
    """Path → fields that this very run can answer; a path that takes none has none."""
    first = next(iter(examples(service.run)), {"text": "a text"})
    text, others = first["text"], first.get("other", "another text").split("\n")
    named = {"model": service.name}
    look = {"source": text, "edits": [{"kind": "temperature", "value": 2}]}
    return {
        "/v1/models/{name}": {"name": service.name},
        "/v1/completions": {**named, "prompt": text, "max_tokens": 8},
        "/v1/chat/completions": {**named, "messages": [{"role": "user", "content": text}]},
        "/v1/embeddings": {**named, "input": text},
        "/api/classify": first,
        "/api/fill": first,
        "/api/answer": {"question": text, "text": first.get("other", text)},
        "/api/embed": {"texts": [text]},
        "/api/nearest": {"text": text, "others": others},
        "/api/generate": {"prompt": text, "max_tokens": 8},
        "/api/words": {"begins": ""},
        "/api/explain": look if service.run.task == "similarity" else {**look, **_second(first)},
    }


def _second(example: Mapping[str, str]) -> dict[str, str]:
    return {"other": example["other"]} if "other" in example else {}
