"""``/api/words``: tokens that a model can say, to choose from."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query

from regard.server.limits import MAX_NAME, MAX_WORDS
from regard.text.specials import BEGIN, PAD
from regard.text.tokenizer import SPACE, Tokenizer


def add_words(router: APIRouter, tokenizer: Tokenizer) -> None:
    """Add the path."""

    @router.get("/words", summary="Tokens that the model can say.")
    async def words(
        begins: Annotated[str, Query(max_length=MAX_NAME, description="How they begin.")] = "",
    ) -> list[str]:
        return sayable(tokenizer, begins)


def sayable(tokenizer: Tokenizer, begins: str) -> list[str]:
    """Some tokens that begin so, in alphabetical order; a space is not spelt."""
    tokens = sorted(set(tokenizer.tokens(range(tokenizer.n_vocab))) - {PAD, BEGIN})
    fitting = (token for token in tokens if token.removeprefix(SPACE).startswith(begins))
    return list(islice(fitting, MAX_WORDS))
