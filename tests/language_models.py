"""Language models small enough to be tested in milliseconds; no two sizes are equal."""

import torch

from regard.models.decoder import LanguageModel
from regard.models.settings import DecoderConfig

LLAMA = {"norm": "rms", "activation": "swiglu", "positions": "rotary", "bias": False, "eps": 1e-6}


def decoder_config(**changes):
    sizes = {"n_vocab": 13, "d_model": 24, "n_layers": 3, "n_heads": 4, "d_ff": 20, "max_len": 17}
    return DecoderConfig(**{**sizes, "dropout": 0.0, **changes})


def language_model(**changes):
    """No parameter can hide by being small, or 0, or 1."""
    torch.manual_seed(1)
    model = LanguageModel(decoder_config(**changes)).eval()
    stirred(model)
    return model


def stirred(model, alpha=0.2):
    """Random numbers are added to all parameters."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=alpha)


def loaded(imported):
    """The model of what was imported."""
    model = LanguageModel(imported.config).eval()
    model.load_state_dict(imported.weights)
    return model


def weights_of(model):
    return dict(model.named_parameters())


def same_weights(a, b):
    """Bit by bit, and none more or fewer."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
