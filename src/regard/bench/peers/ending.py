"""A Transformer with random weights that ends every sentence after so many tokens.

CTranslate2 is made for sentences that end; one that is cut off by a limit costs our engine a second
search, which in use is rare. So its models have to end by themselves, and all at the same place.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.models.presets import build
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, SPECIALS

FAINT = 0.1
"""Of what a sub-layer adds: random layers in full strength make all states alike."""
LOUD = 1000.0
"""Norm of the place at which it ends: far above that of any token."""
SURE = 60.0
"""Logit of the end token there. A token repeats itself by √D, which is 23 for the base; so four
beams are less than that apart, and all of them end rather than go on."""
SAID = len(SPECIALS)
"""The token that it says all the time."""
SAMPLE = 4


def ending_model(config: TransformerConfig, n_new: int) -> Transformer:
    """It writes ``n_new`` tokens, whatever the source; the last of them is the end token.

    Positions are learned. The first says a token, which then repeats itself. The one at which the
    last token is written shouts down whatever stands there, and the row of the end token is what
    then comes out, less what comes out before.
    """
    model = build(config.model_copy(update={"positions": "learned"})).eval()
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("to_out.weight", "outer.weight")):
                weight.mul_(FAINT)
        tokens = model.decoder.embedding.tokens.weight
        tokens[[PAD_ID, BEGIN_ID]] = 0.0  # else begin, like any token, would repeat itself
        places = model.get_parameter("decoder.embedding.positions.table")
        places[0] = tokens[SAID] * config.d_model**0.5
        places[n_new - 1] *= LOUD / places[n_new - 1].norm()
        before, last = _states(model, n_new)[[0, -1]]
        end = last - before * (last @ before) / before.square().sum()
        tokens[END_ID] = SURE * end / (end @ last)
    return model


def _states(model: Transformer, n_new: int) -> Tensor:
    """What the output matrix is multiplied with (n_new, D): read back from the logits."""
    tokens = model.decoder.embedding.tokens.weight
    source = torch.randint(len(SPECIALS), len(tokens), (SAMPLE, n_new))
    target = torch.full_like(source, SAID)
    target[:, 0] = BEGIN_ID
    logits = model(source, target).mean(dim=0)  # (n_new, V)
    return torch.linalg.lstsq(tokens, logits.T).solution.T
