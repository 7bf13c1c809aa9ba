"""``/api``: a path for each verb of a run's task, and looking inside the run.

Answers are made into JSON on the model's thread, so that a large one holds up no other request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import islice
from typing import Annotated, Any

import torch
from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from regard.core.errors import RegardError
from regard.lab import NAMES, claim
from regard.server.chat import chats
from regard.server.errors import as_json, json_response
from regard.server.heads import HeadMeasuring
from regard.server.limits import MAX_WORDS
from regard.server.schemas import (
    BeamRequest,
    ExplainRequest,
    NonemptyExplainRequest,
    PictureBeamRequest,
    PictureExplainRequest,
    ReadRequest,
)
from regard.server.service import EVENT_STREAM, Event, Service, stream_response, typed_fields
from regard.tasks.requests import MAX_NAME
from regard.tasks.search import knows_kinds
from regard.tasks.verb import Verb
from regard.tasks.verbs import told_beside
from regard.text.specials import BEGIN, PAD, SPECIALS
from regard.text.tokenizer import SPACE, Tokenizer
from regard.visual.heads import COLUMNS
from regard.visual.payload import Selected, packed_payload

MAX_TOKENS = 20  # that a language model writes while it is looked at, where nothing is said

# ------------------------------------------------------------------ verbs


def verb_path(verb: Verb) -> str:
    """Where a verb is asked."""
    return f"/api/{verb.name}"


def verb_routes(service: Service) -> APIRouter:
    """A path for each verb of the run's task."""
    router = APIRouter(tags=["verbs"])
    for verb in filter(lambda one: one.served, service.task.verbs):
        how: dict[str, Any] = {"summary": verb.doc or verb.summary, "methods": ["POST"]}
        if verb.streams:
            how |= {"response_class": StreamingResponse, "responses": EVENT_STREAM}
        handler = (_streaming if verb.streams else _answering)(service, verb)
        handler.__annotations__["asked"] = verb.request  # for FastAPI to read and to document
        router.add_api_route(verb_path(verb), handler, name=verb.name, **how)
    return router


def _answering(service: Service, verb: Verb) -> Callable[..., Any]:
    """A handler that answers with one JSON object."""
    run = service.run

    def answered(asked: Any) -> bytes:
        verb.check(run, asked, service.limits.tokens)
        (answer,) = verb.answer(run, [asked])
        return as_json({**answer, **verb.beside(run, asked)})

    async def handler(asked: Any) -> Response:
        return json_response(await service.worker.call(partial(answered, asked)))

    return handler


def _streaming(service: Service, verb: Verb) -> Callable[..., Any]:
    """A handler that answers with server-sent events; the last one's name is ``done``."""

    async def handler(asked: Any) -> StreamingResponse:
        verb.check(service.run, asked, service.limits.tokens)
        dropped = threading.Event()
        found = _inferring(verb.events(service.run, asked, dropped.is_set))
        events = (Event(data, name, last=name == "done") for name, data in found)
        where = f"POST {verb_path(verb)}"
        return await stream_response(service.worker, events, where, dropped)

    return handler


@torch.inference_mode()
def _inferring(events: Any) -> Any:
    """Without gradients, however the events are made."""
    yield from events


# ------------------------------------------------------------------ looking inside


def explain_routes(service: Service, measuring: HeadMeasuring) -> APIRouter:
    """``/api/info``, ``/api/heads``, ``/api/explain``, and ``/api/words`` of a run that writes."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    info_once = cache(lambda: as_json(info(service)))  # it never changes

    @router.get("/info", summary="What this run is, and which attentions it has.")
    async def told() -> Response:
        return json_response(await service.worker.call(info_once))

    @router.get("/heads", summary="What each head does, measured on held-out sentences.")
    async def heads() -> Response:
        return json_response(await measuring.result())

    @router.get("/heads/progress", summary="How far measuring the heads is.")
    async def heads_progress() -> dict[str, Any]:
        """``state`` is idle, measuring, done or refused; ``done`` heads ``of`` all were ablated."""
        return measuring.progress()

    summary = "Where every attention looks; perhaps after what-ifs."
    name = "explain" if service.needs_text else "explain_prompt"
    _add_explain(router, service, "/explain", name=name, summary=summary)
    if service.beside is not None:
        same = "The same of the run that is served beside it."
        _add_explain(router, service.beside, "/beside/explain", name="explain_beside", summary=same)
    _, writes = service.task.tokenizers(service.run)
    if writes is not None:
        _add_words(router, writes)
    if service.reads_words:
        _add_reading(router, service)
    return router


def _add_explain(router: APIRouter, service: Service, path: str, **about: Any) -> None:
    async def explain(asked: Any) -> Response:
        return json_response(await service.worker.call(partial(_explain, service, asked)))

    kind = NonemptyExplainRequest if service.needs_text else ExplainRequest
    if service.reads_pictures:
        kind = PictureExplainRequest
    explain.__annotations__["asked"] = kind
    router.add_api_route(path, explain, methods=["POST"], **about)


def _add_reading(router: APIRouter, service: Service) -> None:
    @router.post("/read", summary="How a text would be read: what is unknown in it, and changed.")
    async def read(asked: ReadRequest) -> Response:
        return json_response(await service.worker.call(partial(_read, service, asked.text)))


def _explain(service: Service, asked: ExplainRequest) -> bytes:
    """The object of ``explain --format json``, and what a reader should know beside it."""
    run = service.run
    look = service.task.explain(run, asked.source, **looked_with(service, asked))
    if asked.packed is None:
        answer = look.as_json()
    else:
        answer = packed_payload(look.payload(), Selected(asked.packed.name, asked.packed.layer))
    answer |= told_beside(run, look.source)
    unknown = run.unknown_warnings(look.source)  # told as words, and marked
    answer["notes"] = [one for one in look.warnings if one not in unknown]
    if asked.steps is not None:
        answer["steps"] = look.steps(**asked.steps.model_dump()).as_json()
    if asked.rollout is not None:
        answer["rollout"] = look.rollout(asked.rollout).tolist()
    return as_json(answer)


def _read(service: Service, text: str) -> bytes:
    """Where ``unknown`` words begin and end, and the text as it is ``read``, where that differs."""
    run = service.run
    lines = [run.read_as(line) for line in text.split("\n")]
    read = "\n".join(lines)
    told = {"unknown": run.unknown_spans(text), "read": None if read == text else read}
    return as_json({**told, "known": run.nothing_known(text) is None})


def looked_with(service: Service, asked: ExplainRequest) -> dict[str, Any]:
    """What a look takes besides its source; one that would be too long is refused."""
    given = {"other": asked.other, "target": asked.target}
    room = service.task.check_look(service.run, service.limits.look_tokens, asked.source, **given)
    n = asked.max_tokens
    if room is not None:
        n = min(room, MAX_TOKENS if n is None else n)
    edits = tuple(edit.model_dump() for edit in asked.edits)
    return {**given, "max_tokens": n, "edit": edits}


def beam_routes(service: Service) -> APIRouter:
    """``/api/beam``: beam search as a tree, of a run whose page has that view."""
    router, run = APIRouter(prefix="/api", tags=["look inside"]), service.run

    def tree(asked: BeamRequest) -> bytes:
        service.task.check_look(run, service.limits.look_tokens, asked.source)
        edits = tuple(edit.model_dump() for edit in asked.edits)
        found = run.beam(asked.source, n_beams=asked.n_beams, prefix=(*asked.prefix,), edit=edits)
        return as_json(found.as_json())

    async def beam(asked: Any) -> Response:
        return json_response(await service.worker.call(partial(tree, asked)))

    beam.__annotations__["asked"] = PictureBeamRequest if service.reads_pictures else BeamRequest
    router.add_api_route("/beam", beam, methods=["POST"], summary="A beam search as a tree.")
    return router


def _add_words(router: APIRouter, tokenizer: Tokenizer) -> None:
    @router.get("/words", summary="Tokens that the model can say.")
    async def words(
        begins: Annotated[str, Query(max_length=MAX_NAME, description="How they begin.")] = "",
    ) -> list[str]:
        """In alphabetical order; a space is not spelt."""
        tokens = sorted(set(tokenizer.tokens(range(tokenizer.n_vocab))) - {PAD, BEGIN})
        fitting = (token for token in tokens if token.removeprefix(SPACE).startswith(begins))
        return list(islice(fitting, MAX_WORDS))


def info(service: Service) -> dict[str, Any]:
    """Plain data: what was trained, what it knows, how it is asked, how its heads are measured."""
    run, task = service.run, service.task
    facts = run.facts()
    reads, _ = task.tokenizers(run)
    both = len(facts.get("languages", ())) == 2 and run.recipe.text.shared
    examples = service.examples()
    return {
        **facts,
        "name": service.name,
        "knows": "" if reads is None else vocabulary(reads, both),
        "tells_unknown": service.reads_words,
        "weighs": getattr(run, "weighs", False),
        "searches": service.searches,
        "word_kinds": service.searches and knows_kinds(run),
        "claims": {name: claim(name) for name in NAMES},
        "beside": None if service.beside is None else {"name": service.beside.name},
        "chats": chats(run, task),
        "has_training": run.folder.metrics.is_file(),
        "form": form(service),
        "examples": examples,
        "attentions": attentions(service, service.first_of(examples)),
        "measures": [column._asdict() for column in COLUMNS],
        **task.info(run),
    }


def form(service: Service) -> dict[str, Any]:
    """How the page asks: words, views and what-ifs of the task, fields of its verb's request."""
    words, verb = service.task.form(service.run), service.page_verb
    labels = [label for label in (words.label, words.other) if label]
    asked = zip(typed_fields(verb.request).items(), labels, strict=False)
    fields = [
        {"name": name, "kind": kind, "label": label, "optional": words.optional and i > 0}
        for i, ((name, kind), label) in enumerate(asked)
    ]
    return {**words.as_json(), "path": verb_path(verb), "streams": verb.streams, "fields": fields}


def attentions(service: Service, example: Mapping[str, str]) -> list[dict[str, Any]]:
    """Name, layers and heads of every attention, found by looking at an example."""
    source = example["text"] if service.reads_pictures else "a"
    for asked in (service.look_at(example), {"source": source}, {"source": source, "other": "a"}):
        try:
            look = service.task.explain(service.run, **asked)
        except RegardError:  # a run that takes pairs, without an example of one
            continue
        return [
            {"name": name, "layers": len(layers), "heads": len(layers[0])}
            for name, layers in look.attentions.items()
        ]
    return []


def vocabulary(tokenizer: Tokenizer, of_both: bool = False) -> str:
    """How many words a model knows, where it has a list of them; ``of_both`` languages share it."""
    if tokenizer.kind != "word":
        return ""
    special = {*SPECIALS, *tokenizer.special_ids}
    words = [word for word in tokenizer.tokens(range(tokenizer.n_vocab)) if word not in special]
    both = " of both languages" if of_both else ""
    lower = ", in lower case" if all(word == word.lower() for word in words) else ""
    signs = any(not any(map(str.isalnum, word)) for word in words)
    return f"{len(words):,} words{both}{lower}{'' if signs else ', without punctuation'}"
