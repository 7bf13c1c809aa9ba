"""What a run says of texts: ``/api/classify``, ``/api/fill``, ``/api/answer``, ``/api/embed``, ….

A run has the paths that it can answer.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from functools import partial

import torch
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from regard.decoding.continuing import Dropped
from regard.runs.kinds.answerer import Answerer
from regard.runs.kinds.classifier import Classifier
from regard.runs.kinds.encoder_run import EncoderRun
from regard.runs.kinds.filler import Filler
from regard.runs.kinds.writer import Writer
from regard.runs.writing.pen import seeded
from regard.server.errors import RefusedError, as_json, json_response
from regard.server.explain import unknown_words
from regard.server.schemas import (
    AnswerRequest,
    ClassifyRequest,
    EmbedRequest,
    FillRequest,
    GenerateRequest,
    NearestRequest,
)
from regard.server.service import Service
from regard.server.streaming import EVENT_STREAM, Event, Stream, stream_response


def verb_routes(service: Service) -> APIRouter:
    """The paths for one run."""
    router = APIRouter(prefix="/api", tags=["texts"])
    run = service.run
    if isinstance(run, Classifier):
        _add_classify(router, service, run)
    if isinstance(run, Filler):
        _add_fill(router, service, run)
    if isinstance(run, EncoderRun):
        _add_vectors(router, service, run)
    if isinstance(run, Answerer):
        _add_answer(router, service, run)
    if isinstance(run, Writer):
        _add_generate(router, service, run)
    return router


def _add_classify(router: APIRouter, service: Service, run: Classifier) -> None:
    @router.post("/classify", summary="The label of a text, and how likely each label is.")
    async def classify(asked: ClassifyRequest) -> Response:
        service.check_read(asked.text, asked.other)
        return json_response(await service.worker.call(partial(_classified, run, asked)))


def _classified(run: Classifier, asked: ClassifyRequest) -> bytes:
    text = asked.text if asked.other is None else (asked.text, asked.other)
    (shares,) = run.probabilities(run.inputs([text]))
    labels = [
        {"label": label, "probability": float(share)}
        for share, label in sorted(zip(shares, run.labels.names, strict=True), reverse=True)
    ]
    unknown = unknown_words(run, asked.text, asked.other)
    return as_json({**labels[0], "labels": labels, "unknown": unknown})


def _add_fill(router: APIRouter, service: Service, run: Filler) -> None:
    @router.post("/fill", summary="What may stand where a text says <mask>.")
    async def fill(asked: FillRequest) -> Response:
        return json_response(await service.worker.call(partial(_filled, run, asked)))


def _filled(run: Filler, asked: FillRequest) -> bytes:
    found = run.fill(asked.text, asked.n)
    masks = [[guess._asdict() for guess in guesses] for guesses in found.masks]
    unknown = unknown_words(run, asked.text)
    return as_json({"text": found.text, "masks": masks, "unknown": unknown})


def _add_vectors(router: APIRouter, service: Service, run: EncoderRun) -> None:
    @router.post("/embed", summary="A vector of length 1 for each text.")
    async def embed(asked: EmbedRequest) -> Response:
        service.check_texts(asked.texts)
        return json_response(await service.worker.call(partial(_embedded, run, asked)))

    @router.post("/nearest", summary="Texts by how near they are to one: cosines, nearest first.")
    async def near(asked: NearestRequest) -> Response:
        service.check_texts([asked.text, *asked.others])
        return json_response(await service.worker.call(partial(_nearest, run, asked)))


def _embedded(run: EncoderRun, asked: EmbedRequest) -> bytes:
    return as_json({"vectors": run.embed(asked.texts).tolist()})


def _nearest(run: EncoderRun, asked: NearestRequest) -> bytes:
    found = run.nearest(asked.text, asked.others, len(asked.others))
    unknown = unknown_words(run, asked.text, *asked.others)
    return as_json({"nearest": [one._asdict() for one in found], "unknown": unknown})


def _add_answer(router: APIRouter, service: Service, run: Answerer) -> None:
    @router.post("/answer", summary="The words of a text that answer a question.")
    async def answer(asked: AnswerRequest) -> Response:
        return json_response(await service.worker.call(partial(_answered, run, asked)))


def _answered(run: Answerer, asked: AnswerRequest) -> bytes:
    pairs = [(asked.question, asked.text)]
    if run.n_cut(pairs):
        raise RefusedError(
            422,
            f"the question takes more than half of the {run.model.config.max_len} tokens that the "
            "model reads at once; shorten it",
        )
    (found,) = run.answers(pairs, asked.n)
    several = [one.as_json() for one in found]
    unknown = unknown_words(run, asked.question, asked.text)
    return as_json({**several[0], "answers": several, "unknown": unknown})


def _add_generate(router: APIRouter, service: Service, run: Writer) -> None:
    @router.post(
        "/generate",
        summary="Write on from a prompt, each piece as it comes.",
        response_class=StreamingResponse,
        responses=EVENT_STREAM,
    )
    async def generate(asked: GenerateRequest) -> StreamingResponse:
        service.check_prompts([asked.prompt])
        dropped = threading.Event()
        events = written(run, asked, dropped.is_set)
        stream = Stream(events, "POST /api/generate", dropped)
        return await stream_response(service.worker, stream)


@torch.inference_mode()
def written(run: Writer, asked: GenerateRequest, dropped: Dropped | None = None) -> Iterator[Event]:
    """``token`` after ``token``, each with the text that it adds; then ``done`` with all of it.

    ``done`` also tells the seed, whether the text came to an end by itself, and the words of the
    prompt that the model does not know.
    """
    seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    manner = run.manner(
        max_new=asked.max_tokens,
        temperature=asked.temperature,
        top_k=asked.top_k,
        top_p=asked.top_p,
    )
    ids = run.prompt_ids(asked.prompt, asked.max_tokens)
    pieces = run.pen.pieces(ids, manner, rng=seeded(seed), stop=asked.stop, dropped=dropped)
    said, finished = "", None
    while finished is None:
        try:
            piece = next(pieces)
            said += piece
            yield Event({"text": piece}, "token")
        except StopIteration as end:
            finished = bool(end.value)
    told = {"text": said, "finished": finished, "seed": seed}
    unknown = run.unknown_words(asked.prompt)
    yield Event({**told, "unknown": unknown}, "done", last=True)
