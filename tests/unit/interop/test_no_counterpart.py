"""What blocks can be told here and nowhere else is refused by every format, not left out."""

import pytest
from language_models import LLAMA, decoder_config
from tiny import tiny_config

from regard.interop import bert, ctranslate2, gpt2, llama, marian
from regard.models.settings import EncoderConfig

SELF = [
    {"score": "additive"},
    {"window": "local_m"},
    {"windows": ("global", "block")},
    {"n_kv_heads": 1},
    {"experts": 4},
]
ACROSS = [{"memory": "each"}, {"cross_after": "feed_forward"}, {"norm": "rms"}, {"eps": 1e-3}]
BESIDE = {"positions": "learned", "join": "concat", "d_positions": 4}


def encoder(**changes):
    sizes = {"n_vocab": 13, "d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2}
    return EncoderConfig(**{**sizes, **changes})


def llama_config(**changes):
    return decoder_config(**{**LLAMA, **changes})


CASES = [
    *((bert, encoder, changes) for changes in [*SELF, BESIDE]),
    *((gpt2, decoder_config, changes) for changes in [*SELF, BESIDE, {"norm_first": False}]),
    *((llama, llama_config, changes) for changes in [*SELF[:3], SELF[4], {"norm_first": False}]),
    *((marian, tiny_config, changes) for changes in [*SELF, *ACROSS, {"join": "concat"}]),
    *((ctranslate2, tiny_config, changes) for changes in [*SELF, *ACROSS, BESIDE]),
]


@pytest.mark.parametrize(("form", "config", "changes"), CASES)
def test_it_is_refused_by_name(form, config, changes):
    assert form.refusal(config()) is None
    name = "join" if "join" in changes else next(iter(changes))
    assert f"{name}={changes[name]!r}" in form.refusal(config(**changes))
