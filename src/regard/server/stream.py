"""``/api/stream``: the translation as it is decoded, token by token, as server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import torch
from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.steps import next_log_probs
from regard.runs.forcing import one_source
from regard.runs.kinds.translator import Run
from regard.server.events import Event, streamed
from regard.server.limits import MAX_CHARACTERS
from regard.server.lines import joined, lines_of, spoken
from regard.server.service import Service
from regard.text.specials import BEGIN_ID, END_ID


def stream_routes(service: Service) -> APIRouter:
    """The path, for one run."""
    router = APIRouter(prefix="/api", tags=["look inside"])

    @router.get(
        "/stream",
        summary="Greedy search, each token as it is found, line by line.",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def stream(
        source: Annotated[
            str, Query(min_length=1, max_length=MAX_CHARACTERS, description="A sentence a line.")
        ],
    ) -> StreamingResponse:
        service.check_lines([source])
        events = written(service.run, source)
        return await streamed(service.worker, events, "GET /api/stream")

    return router


@torch.inference_mode()
def written(run: Run, source: str) -> Iterator[Event]:
    """``token`` after ``token``, then ``done``: what greedy search does, step by step.

    ``text`` is the translation so far. ``done`` also has the words that the model does not know,
    and what else a reader should know about the translation.
    """
    said: list[str] = []
    found: list[Hypothesis] = []
    lines = spoken([source])
    for line in lines:
        before = _so_far(source, said)
        ids: list[int] = []
        for number in _greedy(run, run.tokenizers.source.encode(line)):
            ids.append(number)
            token = run.tokenizers.target.tokens([number])[0]
            yield "token", {"token": token, "text": before + run.tokenizers.target.decode(ids)}
        found.append(Hypothesis(ids=tuple(ids), log_prob=0.0, score=0.0, finished=True))
        said.append(run.text(line, found[-1]))
    yield (
        "done",
        {
            "translation": joined([source], said)[0],
            "unknown": [word for line in lines for word in run.unknown_words(line)],
            "notes": run.doubts(lines, found).lines(),
        },
    )


def _so_far(source: str, said: list[str]) -> str:
    """The lines that are translated, and an empty one for each that has nothing in it."""
    left = iter(said)
    begun: list[str] = []
    for line in lines_of(source):
        text = next(left, None) if line.strip() else ""
        if text is None:
            break
        begun.append(text + "\n")
    return "".join(begun)


def _greedy(run: Run, read: list[int]) -> Iterator[int]:
    """The ids of the target, without the end token."""
    if not read:
        return
    model = run.model
    source, limits = one_source(model, read, run.recipe.decode.max_len, run.device)
    memory = model.encode(source)
    state = model.start(memory)
    last = torch.tensor([BEGIN_ID], device=run.device)
    for _ in range(int(limits)):
        logits, state = model.step(last, memory, state)
        last = next_log_probs(logits).argmax(dim=-1)  # (1,)
        if int(last) == END_ID:
            return
        yield int(last)
