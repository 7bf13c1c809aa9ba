"""What there is to know about a run before it is asked anything: the object of ``/api/info``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.core.errors import RegardError
from regard.server.service import Service, typed_fields
from regard.server.verbs import verb_path
from regard.text.specials import SPECIALS
from regard.text.tokenizer import Tokenizer
from regard.visual.head_table import COLUMNS


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
