"""Looking inside a run: ``/api/info``, ``/api/words``, ``/api/explain``, ``/api/heads``.

Answers are made into JSON on the model's thread, so that a large one holds up no other request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

from fastapi import APIRouter, Query
from starlette.responses import Response

from regard.core.errors import RegardError
from regard.server.errors import as_json, json_response
from regard.server.heads import HeadMeasuring
from regard.server.limits import MAX_WORDS
from regard.server.schemas import ExplainRequest, NonemptyExplainRequest
from regard.server.service import Service, typed_fields
from regard.server.verbs import verb_path
from regard.tasks.requests import MAX_NAME
from regard.tasks.verbs import unknown_words
from regard.text.specials import BEGIN, PAD, SPECIALS
from regard.text.tokenizer import SPACE, Tokenizer
from regard.visual.head_table import COLUMNS
from regard.visual.payload import Selected, packed_payload

T = TypeVar("T")
MAX_TOKENS = 20
"""That a language model writes while it is looked at, where nothing is said."""


class Once(Generic[T]):
    """An answer that never changes is made once. Always called on one and the same thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None
        """The answer, where it is there; any thread may look."""

    def __call__(self) -> T:
        """The answer."""
        if self.made is None:
            self.made = self._make()
        return self.made


def explain_routes(service: Service, measuring: HeadMeasuring) -> APIRouter:
    """The paths for one run; ``/api/words`` where it writes."""
    router = APIRouter(prefix="/api", tags=["look inside"])
    info_once = Once(lambda: as_json(info(service)))

    @router.get("/info", summary="What this run is, and which attentions it has.")
    async def told() -> Response:
        return json_response(await service.worker.call(info_once))

    @router.get("/heads", summary="What each head does, measured on held-out sentences.")
    async def heads() -> Response:
        return json_response(await measuring.result())

    _add_explain(router, service)
    _, writes = service.task.tokenizers(service.run)
    if writes is not None:
        _add_words(router, writes)
    return router


def _add_explain(router: APIRouter, service: Service) -> None:
    summary = "Where every attention looks; perhaps after what-ifs."
    request = service.page_verb.request
    first = next(iter(typed_fields(request)))
    if request.model_fields[first].is_required():

        @router.post("/explain", summary=summary)
        async def explain(asked: NonemptyExplainRequest) -> Response:
            return json_response(await service.worker.call(partial(_explain, service, asked)))

    else:  # a language model writes on from nothing, too

        @router.post("/explain", summary=summary)
        async def explain_prompt(asked: ExplainRequest) -> Response:
            return json_response(await service.worker.call(partial(_explain, service, asked)))


def _explain(service: Service, asked: ExplainRequest) -> bytes:
    """The object of ``explain --format json``, and what a reader should know beside it."""
    look = _look(service, asked)
    if asked.packed is None:
        answer = look.as_json()
    else:
        shown = Selected(asked.packed.name, asked.packed.layer)
        answer = packed_payload(look.payload(), shown)
    answer["unknown"] = unknown_words(service.run, look.source)
    answer["notes"] = list(look.warnings)
    if asked.steps is not None:
        answer["steps"] = look.steps(**asked.steps.model_dump()).as_json()
    if asked.rollout is not None:
        answer["rollout"] = look.rollout(asked.rollout).tolist()
    return as_json(answer)


def _look(service: Service, asked: ExplainRequest) -> Any:
    task, run = service.task, service.run
    given = {"other": asked.other, "target": asked.target}
    room = task.check_look(run, service.limits.look_tokens, asked.source, **given)
    n = asked.max_tokens
    if room is not None:
        n = min(room, MAX_TOKENS if n is None else n)
    edits = tuple(edit.model_dump() for edit in asked.edits)
    return task.explain(run, asked.source, **given, max_tokens=n, edit=edits)


def _add_words(router: APIRouter, tokenizer: Tokenizer) -> None:
    @router.get("/words", summary="Tokens that the model can say.")
    async def words(
        begins: Annotated[str, Query(max_length=MAX_NAME, description="How they begin.")] = "",
    ) -> list[str]:
        """In alphabetical order; a space is not spelt."""
        tokens = sorted(set(tokenizer.tokens(range(tokenizer.n_vocab))) - {PAD, BEGIN})
        fitting = (token for token in tokens if token.removeprefix(SPACE).startswith(begins))
        return list(islice(fitting, MAX_WORDS))


# ------------------------------------------------------------------ what is told before


def info(service: Service) -> dict[str, Any]:
    """Plain data: what was trained, what it knows, how it is asked, how its heads are measured.

    ``examples`` are texts, or objects with a ``text``, and an ``other`` one where two go in.
    """
    run, task = service.run, service.task
    facts = run.facts()
    reads, _ = task.tokenizers(run)
    both = len(facts.get("languages", ())) == 2 and run.recipe.text.shared
    examples = service.examples()
    return {
        **facts,
        "name": service.name,
        "knows": "" if reads is None else vocabulary(reads, both),
        "form": form(service),
        "examples": examples,
        "attentions": _attentions(service, service.first_of(examples)),
        "measures": [column._asdict() for column in COLUMNS],
        **task.info(run),
    }


def form(service: Service) -> dict[str, Any]:
    """How the page asks: words, views and what-ifs of the task, fields of its verb's request.

    A field is typed as ``text``, as ``lines`` (a list of texts) or as ``json``.
    """
    words = service.task.form(service.run)
    verb = service.page_verb
    labels = [label for label in (words.label, words.other) if label]
    asked = list(typed_fields(verb.request).items())[: len(labels)]
    fields = [
        {"name": name, "kind": kind, "label": label, "optional": words.optional and i > 0}
        for i, ((name, kind), label) in enumerate(zip(asked, labels, strict=False))
    ]
    return {**words.as_json(), "path": verb_path(verb), "streams": verb.streams, "fields": fields}


def _attentions(service: Service, example: Mapping[str, str]) -> list[dict[str, Any]]:
    """Name, layers and heads of every attention, found by looking at an example."""
    tries: list[dict[str, Any]] = [
        service.look_at(example),
        {"source": "a"},
        {"source": "a", "other": "a"},
    ]
    for asked in tries:
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
    """What a model can read, where that is a list of words; pieces and letters spell anything.

    ``of_both`` languages of a translator, where they share one list.
    """
    if tokenizer.kind != "word":
        return ""
    special = {*SPECIALS, *tokenizer.special_ids}
    words = [word for word in tokenizer.tokens(range(tokenizer.n_vocab)) if word not in special]
    both = " of both languages" if of_both else ""
    lower = ", in lower case" if all(word == word.lower() for word in words) else ""
    signs = any(not any(map(str.isalnum, word)) for word in words)
    return f"{len(words):,} words{both}{lower}{'' if signs else ', without punctuation'}"
