"""``logprobs`` as OpenAI has them: how probable each token of a text was, and what else might have
stood there.

They are those of the model itself, whatever the temperature; one pass over the whole text finds
them. Tokens are named as they read, with their space, and a part of a torn character by its bytes
(``\\xe2``). Nothing is told of the token that ends a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.tasks.generation import GeneratedText
from regard.tasks.language_scores import ranked_after
from regard.tasks.writer import Writer
from regard.text.tokenizer import SPACE

TORN = "\\x"
"""How the name of a part of a character begins."""


class ScoredToken(NamedTuple):
    """A token of a text, as clients are told of it."""

    name: str
    log_prob: float
    best: list[tuple[str, float]]
    """Names and log-probabilities of what was most probable there."""
    offset: int
    """Where it begins in the text, in characters."""


def scored_tokens(
    run: Writer, prompt: Sequence[int], text: GeneratedText, n: int
) -> list[ScoredToken]:
    """The tokens of a text that was written after a prompt, each with the ``n`` best.

    Where the text was cut before a stop, what was cut off is left out.
    """
    found = ranked_after(run.model, prompt, text.ids, n, run.device)
    nameless = {*run.tokenizer.nameless(run.model.config.n_vocab)}
    say = run.framing.growing(prompt)
    ends = [len(say(text.ids[:k])) for k in range(len(text.ids) + 1)]
    was_cut = ends[-1] > len(text.text)

    def name(number: int) -> str:
        told = "" if number in nameless else run.tokenizer.tokens([number])[0]
        return told.replace(SPACE, " ")

    rows = zip(text.ids, found.log_probs, found.best, ends, strict=False)
    return [
        ScoredToken(name(number), log_prob, [(name(i), x) for i, x in best], offset)
        for number, log_prob, best, offset in rows
        if offset < len(text.text) or not was_cut
    ]


def completion_logprobs(tokens: Sequence[ScoredToken]) -> dict[str, Any]:
    """As ``/v1/completions`` tells them; the token that was written is among the best."""
    return {
        "tokens": [one.name for one in tokens],
        "token_logprobs": [one.log_prob for one in tokens],
        "top_logprobs": [{**dict(one.best), one.name: one.log_prob} for one in tokens],
        "text_offset": [one.offset for one in tokens],
    }


def chat_logprobs(tokens: Sequence[ScoredToken]) -> dict[str, Any]:
    """As ``/v1/chat/completions`` tells them."""
    content = [
        {
            **_named(one.name, one.log_prob),
            "top_logprobs": [_named(name, log_prob) for name, log_prob in one.best],
        }
        for one in tokens
    ]
    return {"content": content, "refusal": None}


def _named(name: str, log_prob: float) -> dict[str, Any]:
    raw = None if name.startswith(TORN) else list(name.encode())
    return {"token": name, "logprob": log_prob, "bytes": raw}
