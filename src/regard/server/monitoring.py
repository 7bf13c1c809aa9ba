"""What the server does, in numbers; and what goes wrong, in one line each."""

from __future__ import annotations

import asyncio
import logging
import time

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.errors import refusal

log = logging.getLogger("regard.server")


class Metrics:
    """Counters of one app, in a registry of its own: two apps do not disturb each other."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "regard_requests", "Requests answered.", ("path", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "regard_request_seconds", "Time of a request.", ("path",), registry=self.registry
        )
        self.batches = Histogram(
            "regard_batch_texts",
            "Texts translated together.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )
        self.waiting = Gauge("regard_waiting", "Jobs that wait.", registry=self.registry)

    def routes(self) -> APIRouter:
        """``/metrics``, for Prometheus."""
        router = APIRouter()

        @router.get("/metrics", tags=["server"], summary="Numbers for Prometheus.")
        async def metrics() -> Response:
            return Response(
                generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
            )

        return router


def health_routes() -> APIRouter:
    """``/healthz``: needs no key and no model."""
    router = APIRouter()

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", tags=["server"], summary="Whether the server is up.")
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    return router


class Monitor:
    """Around everything: counts, times, and keeps the server up when something breaks."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. What fails inside becomes a 500 that tells nothing."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except asyncio.CancelledError:  # the server ends and has waited long enough
            if status:
                raise
            await refusal(503, "the server is ending")(scope, receive, noting)
        except Exception as error:
            log_error(f"{scope['method']} {scope['path']!a}", error)
            if status:  # half an answer is out; the connection must not look whole
                raise
            await refusal(500, "something went wrong; the server's log has more")(
                scope, receive, noting
            )
        finally:
            path = _path(scope)
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - began)


def log_error(where: str, error: BaseException) -> None:
    """One line, whatever the error says."""
    text = " ".join(str(error).split())[:300]
    log.error("%s: %s: %s", where, type(error).__name__, text.encode("unicode_escape").decode())


def _path(scope: Scope) -> str:
    """The route's path; what matches none is counted together, so that labels stay few."""
    if scope["path"].startswith("/static/"):
        return "/static"
    return getattr(scope.get("route"), "path", "other")
