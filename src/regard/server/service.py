"""What every handler needs: the run, its task, the thread that owns its model, and the limits.

Also server-sent events, each made on the model's thread when the one before it is out.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args, get_origin

import numpy as np
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.responses import StreamingResponse

from regard.core.errors import DataError
from regard.server.admission import Keys
from regard.server.batcher import Worker
from regard.server.errors import BusyError, told
from regard.server.limits import Limits
from regard.server.log import log_error
from regard.tasks.base import TASKS, Task
from regard.tasks.verb import Verb
from regard.visual.heat_maps import data_uri

NO_PICTURE = data_uri(np.full((8, 8, 3), 128, np.uint8))
"""Grey: what a run of pictures is shown where there are no examples."""
EVENT_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""What the OpenAPI schema says of an answer by server-sent events."""


@dataclass(frozen=True, slots=True)
class Service:
    """One run of any task, served."""

    run: Any
    worker: Worker
    limits: Limits
    keys: Keys
    beside: Service | None = None
    """Another run of the same task, to be compared with."""

    @property
    def name(self) -> str:
        """What the run is called: its folder's name."""
        return str(self.run.folder.path.resolve().name)

    @property
    def task(self) -> Task:
        """What the run does."""
        return TASKS[self.run.task]

    @property
    def page_verb(self) -> Verb:
        """The verb that the page asks."""
        name = self.task.form(self.run).verb
        return next((verb for verb in self.task.verbs if verb.name == name), self.task.verb)

    @property
    def needs_text(self) -> bool:
        """Whether nothing is made of an empty source; a language model writes from nothing."""
        request = self.page_verb.request
        return request.model_fields[next(iter(typed_fields(request)))].is_required()

    @property
    def reads_words(self) -> bool:
        """Whether words that people type may be unknown to the run."""
        reader = getattr(self.run, "reader", None)
        return reader is not None and reader.specials.unread is not None

    @property
    def searches(self) -> bool:
        """Whether it has texts to search, and heads to search them for."""
        return self.task.searchable and "matrix" in self.task.form(self.run).views

    @property
    def reads_pictures(self) -> bool:
        """Whether what goes in first is a picture."""
        return next(iter(typed_fields(self.page_verb.request).values())) == "image"

    def examples(self) -> list[Any]:
        """Short texts to look at, or objects with a ``text`` and perhaps an ``other``."""
        return [one for one in self.task.examples(self.run) if self._is_short(one)]

    def first_of(self, examples: Sequence[Any]) -> dict[str, str]:
        """A ``text``, and an ``other`` where two go in."""
        one = next(iter(examples), NO_PICTURE if self.reads_pictures else "a")
        return {"text": one} if isinstance(one, str) else one

    def look_at(self, example: Mapping[str, str]) -> dict[str, Any]:
        """What to look at: a ``source``, and an ``other`` where that is a text as well."""
        fields = [*typed_fields(self.page_verb.request).values()]
        is_pair = "other" in example and fields[1:2] == ["text"]
        return {"source": example["text"], **({"other": example["other"]} if is_pair else {})}

    def _is_short(self, example: Any) -> bool:
        text = example if isinstance(example, str) else example["text"]
        try:
            self.task.check_look(self.run, self.limits.look_tokens, text)
        except DataError:
            return False
        return True


def typed_fields(request: type[BaseModel]) -> dict[str, str]:
    """Fields to fill and how: text, lines, json or image; no numbers with a default."""
    fields = {name: _typed(field) for name, field in request.model_fields.items()}
    return {name: kind for name, kind in fields.items() if kind and name != "api_key"}


def _typed(field: FieldInfo) -> str:
    kind = field.annotation
    if (field.json_schema_extra or {}) == {"format": "image"}:
        return "image"
    inside = (kind, *get_args(kind))  # a type with bounds holds its bare type first
    bare = {get_args(one)[0] if hasattr(one, "__metadata__") else one for one in inside}
    if str in bare and get_origin(kind) is not list:
        return "text"
    if not field.is_required():
        return ""
    return "lines" if str in bare else "json"


# ------------------------------------------------------------------ server-sent events


class Event(NamedTuple):
    """One event as it goes over the line."""

    data: Any  # sent as JSON; a text as it is
    name: str | None = None
    last: bool = False

    def __str__(self) -> str:
        named = "" if self.name is None else f"event: {self.name}\n"
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        return f"{named}data: {data}\n\n"


async def stream_response(
    worker: Worker,
    events: Iterator[Event],
    where: str,
    dropped: threading.Event,
    error_name: str | None = "error",
) -> StreamingResponse:
    """Events, of which one is the last, as an answer; between two other requests have their turn.

    ``where`` is method and path, for the log; ``dropped`` is set when nobody waits for the rest any
    more; ``error_name`` is that of an event that says what went wrong.
    """
    path = where.partition(" ")[2]

    async def following() -> Event:
        return await worker.call(lambda: next(events), dropped)

    async def sent(event: Event) -> AsyncIterator[str]:
        yield str(event)
        while not event.last:
            try:
                event = await following()
            except BusyError as busy:
                event = Event({"error": told(503, str(busy), path)}, error_name, last=True)
            except Exception as error:
                log_error(where, error)
                why = "something went wrong; the server's log has more"
                event = Event({"error": told(500, why, path)}, error_name, last=True)
            yield str(event)

    first = await following()  # too busy? say so with a status
    headers = {"Cache-Control": "no-store"}
    return StreamingResponse(sent(first), media_type="text/event-stream", headers=headers)
