"""What a model can read, in words."""

from __future__ import annotations

from regard.text.specials import SPECIALS
from regard.text.tokenizer import Tokenizer


def known_words(tokenizer: Tokenizer, of_both: bool = False) -> str:
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
