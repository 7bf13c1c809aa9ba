"""What encoders say of texts: ``/api/classify``, ``/api/fill``, ``/api/embed``, ``/api/nearest``.

A run has the paths that it can answer.
"""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter
from starlette.responses import Response

from regard.runs.kinds.classifier import Classifier
from regard.runs.kinds.embedder import nearest
from regard.runs.kinds.encoder_run import EncoderRun
from regard.runs.kinds.filler import Filler
from regard.server.answers import as_json, json_response
from regard.server.text_service import TextService
from regard.server.texts.asking import (
    ClassifyRequest,
    EmbedRequest,
    FillRequest,
    NearestRequest,
)
from regard.server.texts.unknown import unknown_words


def saying_routes(service: TextService) -> APIRouter:
    """The paths for one run."""
    router = APIRouter(prefix="/api", tags=["texts"])
    run = service.run
    if isinstance(run, Classifier):
        _add_classify(router, service, run)
    if isinstance(run, Filler):
        _add_fill(router, service, run)
    if isinstance(run, EncoderRun):
        _add_vectors(router, service, run)
    return router


def _add_classify(router: APIRouter, service: TextService, run: Classifier) -> None:
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


def _add_fill(router: APIRouter, service: TextService, run: Filler) -> None:
    @router.post("/fill", summary="What may stand where a text says <mask>.")
    async def fill(asked: FillRequest) -> Response:
        return json_response(await service.worker.call(partial(_filled, run, asked)))


def _filled(run: Filler, asked: FillRequest) -> bytes:
    found = run.fill(asked.text, asked.n)
    masks = [[guess._asdict() for guess in guesses] for guesses in found.masks]
    unknown = unknown_words(run, asked.text)
    return as_json({"text": found.text, "masks": masks, "unknown": unknown})


def _add_vectors(router: APIRouter, service: TextService, run: EncoderRun) -> None:
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
    found = nearest(run, asked.text, asked.others, len(asked.others))
    unknown = unknown_words(run, asked.text, *asked.others)
    return as_json({"nearest": [one._asdict() for one in found], "unknown": unknown})
