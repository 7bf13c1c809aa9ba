"""What every handler needs: the run, its task, the thread that owns its model, and the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from regard.core.errors import DataError
from regard.server.batcher import Worker
from regard.server.limits import Limits
from regard.tasks.base import TASKS, Task, Verb


@dataclass(frozen=True, slots=True)
class Service:
    """One run of any task, served."""

    run: Any
    worker: Worker
    limits: Limits
    api_key: str | None

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

    def examples(self) -> list[Any]:
        """What to begin with: texts, or objects with a ``text`` and perhaps an ``other``.

        They are short enough to be looked at.
        """
        return [one for one in self.task.examples(self.run) if self._is_short(one)]

    def first_of(self, examples: Sequence[Any]) -> dict[str, str]:
        """A ``text``, and an ``other`` where two go in."""
        one = next(iter(examples), "a")
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
    """Fields to type into, in order, and how: ``text``, ``lines`` or ``json``.

    What has a default and is no text, such as a number, is not typed.
    """
    fields = {name: _typed(field) for name, field in request.model_fields.items()}
    return {name: kind for name, kind in fields.items() if kind and name != "api_key"}


def _typed(field: FieldInfo) -> str:
    kind = field.annotation
    holds_texts = str in {_bare(one) for one in (kind, *get_args(kind))}
    if get_origin(kind) is list:
        asked = "lines" if holds_texts else "json"
        return asked if field.is_required() else ""
    if holds_texts:
        return "text"
    return "json" if field.is_required() else ""


def _bare(kind: Any) -> Any:
    """A type without its bounds."""
    return get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
