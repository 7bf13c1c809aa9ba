"""Variants of every family that translates, for laws that hold for all of them."""

import itertools

from systems import system
from translators import shaken

from regard.functional.scores import SCORES
from regard.models.presets import PRESETS

TABLED = ["content", "additive", "location", "general", "dot", "scaled_dot"]
"""The scores of the lectures' table."""
SMALL_EXPERTS = {"d_cell": 14, "experts": 5, "top_k": 2, "d_expert": 8}
UNEVEN = {"d_embedding": 7, "n_layers": 2, "n_decoder_layers": 1, "top_layers": [[5, 2], [9, 1]]}

RECURRENT = [
    *((name, {}) for name in PRESETS if PRESETS[name].family == "recurrent"),
    ("sutskever2014", {"reverse_source": False}),
    ("luong2015", {"input_feeding": False}),
    *(
        ("luong2015", {"score": score, "window": window})
        for score, window in itertools.product(TABLED, ("global", "local_m", "local_p"))
    ),
    *(("graves2014", {"beta": beta}) for beta in ("fixed", "learned")),
    *(("bahdanau2015", {"score": score}) for score in ("general", "location")),
    *(("bahdanau2015", {"window": window}) for window in ("local_m", "local_p")),
    *(("bahdanau2015", {"cell": cell}) for cell in ("lstm", "tanh")),
    ("bahdanau2015", {"bidirectional": False, "score": "dot"}),
    *(("luong2015", {"bidirectional": True, "cell": cell}) for cell in ("lstm", "gru", "tanh")),
    ("sutskever2014", {"bidirectional": True, "cell": "tanh"}),
    ("cs224n2019", {"bidirectional": True, "score": "additive"}),
]
DEEP_RECURRENT = [
    ("gnmt2016", {}),
    ("gnmt2016", {"n_layers": 1, "n_decoder_layers": 1}),
    ("gnmt2016", {"n_layers": 2, "n_decoder_layers": 5}),
    ("gnmt2016", {"d_cell": 14}),
    ("gnmt2016", {"residual_from": 1, "d_cell": 14}),
    ("gnmt2016", {"score": "general"}),
    ("moe2017", SMALL_EXPERTS),
    ("moe2017", {**SMALL_EXPERTS, "residual_from": 3, "n_layers": 2, "d_cell": None}),
    ("deep-att2016", {}),
    ("deep-att2016", {"peepholes": True}),
    ("deep-att2016", {"n_layers": 1, "n_decoder_layers": 1, "score": "general"}),
]
CONVOLUTIONAL = [
    ("convs2s2017", {}),
    ("convs2s2017", UNEVEN),
    ("convs2s2017", {"score": "additive", "kernel": 4}),
    ("convs2s2017", {"window": "local_m", "half_width": 2}),
    ("bytenet2016", {}),
    ("bytenet2016", {"block": "multiplicative", "n_sets": 1}),
    ("bytenet2016", {"unfold": (0.5, 2.0), "dilations": (1, 3), "kernel": 2}),
]
SOFT_MEMORY = [
    ("cheng2016", {"fusion": fusion, "score": score, **more})
    for fusion in ("shallow", "deep")
    for score, more in (*((score, {}) for score in TABLED), ("content", {"beta": "emitted"}))
]
MEMORY_NETWORKS = [
    *SOFT_MEMORY,
    *(
        ("cheng2016", {"fusion": fusion, "score": "additive", "normaliser": "hard"})
        for fusion in ("shallow", "deep")
    ),
]
TRANSFORMERS = [
    ("transformer", changes)
    for changes in (
        {},
        *({"score": name} for name in SCORES),
        {"window": "local_m"},
        {"window": "local_p"},
        {"window": "block"},
        {"window": "compressed"},
        {"windows": ("global", "compressed"), "score": "additive"},
        {"positions": "learned"},
        {"positions": "learned", "join": "concat"},
        {"positions": "sinusoidal", "join": "concat"},
        {"positions": "index"},
        {"positions": "none"},
        {"positions": "alibi"},
        {"positions": "rotary"},
        {"positions": "alibi", "window": "local_m"},
        {"positions": "rotary", "score": "additive"},
        {"norm_first": True},
        {"bias": False},
        {"n_source_vocab": 17},
        {"memory": "each"},
        {"memory": "each", "norm_first": True, "cross_after": "feed_forward"},
        {"cross_after": "feed_forward"},
        {"n_kv_heads": 1, "norm": "rms", "eps": 1e-3},
        {"positions": "sinusoidal", "join": "concat", "d_positions": 5},
        {"positions": "learned", "join": "concat", "d_positions": 4, "tied_output": False},
        {"positions": "index", "d_positions": 1},
        {"experts": 4},
    )
]
TRANSLATORS = [*RECURRENT, *DEEP_RECURRENT, *CONVOLUTIONAL, *MEMORY_NETWORKS, *TRANSFORMERS]
"""(preset, changes)"""


def translator(preset, **changes):
    """A fresh model in double precision; no weight of it is zero, so that each is seen."""
    return shaken(system(preset, **changes).double(), share=0.1)
