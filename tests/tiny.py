"""A Transformer small enough to be tested in milliseconds; no two sizes are equal."""

from regard.models.settings import TransformerConfig


def tiny_config(**changes):
    sizes = {"n_source_vocab": 13, "n_target_vocab": 13, "d_model": 12, "n_heads": 3, "d_ff": 20}
    return TransformerConfig(**{**sizes, "n_layers": 2, "max_len": 24, "dropout": 0.0, **changes})
