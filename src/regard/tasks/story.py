"""The story of one token of a run of any task: what ``inspection`` heard, with its words.

``story_of(task, run, source, name="decoder.cross", layer=0, head=1, token=3)`` looks at the run
once and gives plain data: the text in words and pieces, the stages of the model, the six steps of
one attention, and what may come out with its probabilities, or what was found with its box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.core.errors import ConfigError
from regard.inspection.edits import edited
from regard.inspection.story import Asked, BlockStory, Story, as_json, heard, told
from regard.tasks.base import Task
from regard.tasks.edits import edits_from, of_model
from regard.tasks.look import Look
from regard.text.specials import BEGIN
from regard.text.tokenizer import Tokenizer

SHOWN = 8
"""So many of the most probable outcomes are told, and the rest as one."""


def story_of(
    task: Task,
    run: Any,
    source: Any,
    *,
    name: str,
    layer: int,
    head: int,
    token: str | int,
    **given: Any,
) -> dict[str, Any]:
    """Plain data; ``given`` is what ``Task.explain`` takes beside the source, edits included."""
    model = getattr(run, "model", None)
    if model is None or not hasattr(run, "explain"):
        raise ConfigError(f"a run of the task {task.name} has no model that could be followed")
    with heard(model) as calls:
        look: Look = task.explain(run, source, **given)
    steps = look.steps(token, name=name, layer=layer, head=head)
    row = steps.token
    with edited(model, of_model(edits_from(given.get("edit", ())))):  # it may be read once more
        story = told(model, calls, Asked(name, layer, row, head))
    reads, writes = task.tokenizers(run)
    rows, _ = look.sides_of(name)
    output = calls[model].output if model in calls else None
    found = None if rows != "target" else task.found_at(run, look, output, row)
    written = _written_at(look, rows, row) if found is None else None
    return {
        "kind": "blocks" if isinstance(story, BlockStory) else "states",
        "source": look.source,
        "words": words_of(reads, look),
        "rows": list(look.tokens_of(name)[0]),
        "reads": _read_at(look, rows, row) if found is None else look.target_tokens[row],
        "writes": written,
        "steps": steps.as_json(),
        "positions": list(look.positions_of(name)),
        "story": as_json(story),
        "outcome": _outcome(story, look, writes, written),
        **({} if found is None else {"found": found}),
    }


def words_of(tokenizer: Tokenizer | None, look: Look) -> list[dict[str, Any]]:
    """The words of the source, each with its pieces; marks and patches stand alone."""
    tokens = list(look.source_tokens)
    ids = [] if tokenizer is None else tokenizer.encode(look.source)
    first = 0 if tokenizer is None else _begins(tokenizer.tokens(ids), tokens)
    if tokenizer is None or first is None:  # a picture, or two texts with marks between them
        return [_alone(one) for one in tokens]
    words: list[dict[str, Any]] = [_alone(one) for one in tokens[:first]]
    last = -1
    for (begin, end), piece in zip(tokenizer.offsets(look.source), tokens[first:], strict=False):
        text = look.source[begin:end]
        if begin == last and not text[:1].isspace():
            words[-1]["text"] += text
            words[-1]["pieces"].append(piece)
        else:
            words.append({"text": text.strip(), "pieces": [piece]})
        last = end
    for one in words:  # only now: a space that is a piece of its own may begin a word
        one["text"] = one["text"] or one["pieces"][0]
    return [*words, *(_alone(one) for one in tokens[first + len(ids) :])]


def _alone(token: str) -> dict[str, Any]:
    return {"text": token, "pieces": [token]}


def _begins(part: Sequence[str], whole: Sequence[str]) -> int | None:
    """Where a part stands in the whole; None where it is not in it in one piece."""
    places = range(len(whole) - len(part) + 1)
    return next((i for i in places if [*whole[i : i + len(part)]] == [*part]), None)


def _read_at(look: Look, side: str, row: int) -> str:
    """The token that stands at a position: a decoder of a translator reads one behind."""
    if side == "target":
        return (BEGIN, *look.target_tokens)[row]
    texts = {"source": look.source_tokens, "text": (*look.source_tokens, *look.target_tokens)}
    return texts.get(side, look.target_tokens)[row]


def _written_at(look: Look, side: str, row: int) -> str | None:
    """The token that was written at a position, where one was."""
    follows = (*look.source_tokens, *look.target_tokens)[row + 1 :]
    after = {"target": look.target_tokens[row:], "text": follows}
    return next(iter(after.get(side, ())), None)


def _outcome(
    story: Story, look: Look, writes: Tokenizer | None, written: str | None
) -> Mapping[str, Any] | None:
    """What may come out of this position, the most probable first, and what did."""
    if look.outcome is not None and writes is None:
        whole = next((one for one in look.outcome.places if one.rows is None), None)
        if whole is None:
            return None
        choices = [{"text": one.text, "probability": one.probability} for one in whole.choices]
        return {"choices": choices, "rest": 0.0, "chosen": look.outcome.text}
    if story.logits is None or writes is None:
        return None
    exact = story.logits.astype(np.float64)
    shares = np.exp(exact - exact.max())
    shares /= shares.sum()
    names = writes.tokens(range(writes.n_vocab))
    chosen = [] if written is None or written not in names else [names.index(written)]
    ids: Sequence[int] = np.argsort(-shares)[:SHOWN].tolist()
    ids = [*ids, *(one for one in chosen if one not in ids)]
    choices = [
        {"text": names[i], "probability": float(shares[i]), "logit": float(exact[i])} for i in ids
    ]
    return {"choices": choices, "rest": float(1 - shares[ids].sum()), "chosen": written}
