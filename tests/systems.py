"""Every system that attends, small enough to be tested in milliseconds."""

from pathlib import Path

import torch
from letters import LETTERS

from regard.checkpoints.run_folder import RunFolder
from regard.models.presets import (
    FAMILIES,
    PRESETS,
    ModelSettings,
    build,
    presets_for,
    resolve,
)
from regard.models.settings import BlocksConfig, SequenceConfig
from regard.tasks.opening import Tokenizers
from regard.tasks.recipe import recipe_from
from regard.tasks.translator import Run
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

NOT_ATTENDING = ["sutskever2014", "bytenet2016"]
ATTENDING = [name for name in presets_for(SequenceConfig) if name not in NOT_ATTENDING]
SYSTEMS = [
    *((name, {}) for name in ATTENDING),
    *(
        ("transformer", {"score": score})
        for score in ("additive", "location", "general", "content")
    ),
    ("transformer", {"window": "local_p"}),
    ("transformer", {"normaliser": "hard", "norm_first": True}),
    ("luong2015", {"window": "local_p"}),
    ("luong2015", {"window": "local_m", "input_feeding": False}),
    ("cheng2016", {"fusion": "shallow", "score": "dot"}),
    ("deep-att2016", {"peepholes": True}),
    ("convs2s2017", {"score": "additive", "d_embedding": 10, "top_layers": [[14, 1], [9, 5]]}),
    ("convs2s2017", {"window": "local_p", "kernel": 2}),
    ("transformer", {"experts": 4}),
    ("transformer", {"window": "compressed"}),
    ("dmca2018", {"experts": 4, "expert_layers": (2,)}),
]
"""(preset, changes)"""
NOTHING = {"data": {"world": "copy"}, "train": {"max_steps": 1}}
"""What a recipe has to say, and no test wants."""


def has_blocks(preset):
    """Whether a preset is a Transformer, of heads and blocks."""
    return issubclass(FAMILIES[PRESETS[preset].family].config, BlocksConfig)


def system(preset, *, n_vocab=13, n_source_vocab=None, **changes):
    """A fresh model of a preset in evaluation, float32; the same one at each call.

    With a source vocabulary of its own it shares none.
    """
    sizes = {"d_model": 12, "max_len": 24, "half_width": 2}
    if has_blocks(preset):
        sizes |= {"n_layers": 3 if preset == "dmca2018" else 2, "n_heads": 3, "d_ff": 20}
    known = FAMILIES[PRESETS[preset].family].config.model_fields
    sizes = {name: size for name, size in sizes.items() if name in known}
    settings = ModelSettings(preset=preset, **{**sizes, **changes})
    shared = n_source_vocab is None
    n_source = n_vocab if shared else n_source_vocab
    config = resolve(settings, n_source_vocab=n_source, n_target_vocab=n_vocab, shared_vocab=shared)
    torch.manual_seed(1)
    return build(config).eval()


def untrained(preset, *, decode=None, **changes):
    """A run with random weights that reads and writes the letters a to h; it has no folder."""
    words = Tokenizer.train([" ".join(LETTERS)], TextSettings(kind="word"))
    settings = {"max_len": 12, **(decode or {})}
    recipe = recipe_from({**NOTHING, "decode": settings})
    model = system(preset, n_vocab=words.n_vocab, **changes)
    nowhere = RunFolder(Path("nowhere"))
    return Run(nowhere, recipe, Tokenizers(words, words), model, torch.device("cpu"))
