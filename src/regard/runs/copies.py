"""Unknown words, replaced by the source word that attention looked at (Luong et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from regard.inspection.capture import attentions
from regard.models.base import SequenceModel
from regard.text import words
from regard.text.specials import BEGIN_ID, END_ID, UNKNOWN_ID
from regard.text.tokenizer import Tokenizer


def copies(
    model: SequenceModel,
    reader: Tokenizer,
    source: str,
    written: Sequence[int],
    device: torch.device,
) -> list[str]:
    """What to say for each unknown token of ``written``, in order.

    The source word with the largest weight of cross-attention, all heads and layers together, at
    the step that wrote the token. Nothing, where the system does not attend.
    """
    read = reader.encode(source)
    found = attentions(
        model,
        torch.tensor([[*read, END_ID]], device=device),
        torch.tensor([[BEGIN_ID, *written[:-1]]], device=device),  # row t writes token t,
    )
    if "decoder.cross" not in found:
        return []
    heads = np.concatenate(found["decoder.cross"])  # (layers · H, T, S)
    looked_at = heads.mean(axis=0)[:, : len(read)].argmax(axis=1)  # the end token is no word
    places, spoken = reader.word_ids(source), words.split(source)
    chosen = [places[looked_at[t]] for t, token in enumerate(written) if token == UNKNOWN_ID]
    return ["" if place is None else spoken[place] for place in chosen]
