"""Fresh models of every preset, depth and kind of positions: gradients begin at an ordinary size.

A vector of zeros that is normalised multiplies its gradient by 1/sqrt(eps), about 300, and a word
whose vector is zero stays zero through every layer of a model that adds nothing else to it.
"""

import pytest
import torch
import torch.nn.functional as F

from regard.models.presets import FAMILIES, PRESETS, build
from regard.models.vision import PictureConfig

TOLERANCE = 10
N_VOCAB, LENGTH, N_ROWS = 50, 16, 32
SYSTEMS = [
    (preset, positions)
    for preset, kinds in {
        "gpt": ("learned", "sinusoidal", "rotary", "none", "alibi", "index"),
        "bert": ("learned", "sinusoidal", "rotary", "none", "alibi", "index"),
        "bilstm": ("learned", "sinusoidal", "none"),
    }.items()
    for positions in kinds
]


def fresh(preset, n_layers, **settings):
    """A small model of a preset, in training, without the dropout of single units."""
    torch.manual_seed(1)
    family = FAMILIES[PRESETS[preset].family]
    size = next(iter(PRESETS[preset].sizes.values()))
    head = {"head": "masked"} if preset == "bert" else {}
    head = {"head": "classify", "n_labels": N_VOCAB} if preset == "bilstm" else head
    config = family.config.model_validate(
        {
            **size,
            "n_vocab": N_VOCAB,
            "d_model": 32,
            "n_layers": n_layers,
            "dropout": 0.0,
            "max_len": LENGTH,
            **({"join": "concat"} if settings.get("positions") == "index" else {}),
            **head,
            **settings,
        }
    )
    return build(config).train()


def gradient_norm(model):
    """Of the mean loss over texts of one word to ``LENGTH``, each word predicting itself."""
    torch.manual_seed(2)
    ids = torch.randint(1, N_VOCAB, (N_ROWS, LENGTH))
    ids[torch.arange(LENGTH) > torch.arange(N_ROWS).unsqueeze(1) % LENGTH] = 0
    logits = model(ids)
    wanted = ids if logits.dim() == 3 else ids[:, 0]
    F.cross_entropy(logits.flatten(0, -2), wanted.flatten(), ignore_index=0).backward()
    return _total_norm(model)


def _total_norm(model):
    squares = [p.grad.double().square().sum() for p in model.parameters() if p.grad is not None]
    return torch.stack(squares).sum().sqrt().item()


@pytest.mark.parametrize("n_layers", [2, 6, 12])
@pytest.mark.parametrize(("preset", "positions"), SYSTEMS)
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_dropped_words_do_not_multiply_the_gradient(preset, positions, n_layers, share):
    plain = gradient_norm(fresh(preset, n_layers, positions=positions))
    dropped = gradient_norm(fresh(preset, n_layers, positions=positions, token_dropout=share))
    assert plain / TOLERANCE < dropped < plain * TOLERANCE


@pytest.mark.parametrize("settings", [{"embedding_norm": False}, {"norm_first": True}])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_wherever_the_norms_of_an_encoder_are(settings, norm):
    settings = {"positions": "none", "n_segments": 0, "norm": norm, **settings}
    plain = gradient_norm(fresh("bert", 12, **settings))
    dropped = gradient_norm(fresh("bert", 12, token_dropout=0.5, **settings))
    assert plain / TOLERANCE < dropped < plain * TOLERANCE


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_whatever_the_norm_of_a_decoder(norm):
    settings = {"positions": "rotary", "norm": norm}
    plain = gradient_norm(fresh("gpt", 12, **settings))
    dropped = gradient_norm(fresh("gpt", 12, token_dropout=0.5, **settings))
    assert plain / TOLERANCE < dropped < plain * TOLERANCE


TRANSLATORS = [
    name
    for name, preset in PRESETS.items()
    if "n_source_vocab" in FAMILIES[preset.family].config.model_fields
]


def translator_gradient_norm(preset, *, shortest_source, **settings):
    """Of the mean loss over targets of any length, whose sources have ``shortest_source`` words."""
    torch.manual_seed(1)
    family = FAMILIES[PRESETS[preset].family]
    size = next(iter(PRESETS[preset].sizes.values()))
    sizes = {"n_source_vocab": N_VOCAB, "n_target_vocab": N_VOCAB, "d_model": 32}
    raw = {**size, **sizes, "dropout": 0.0, "max_len": LENGTH, **settings}
    model = build(family.config.model_validate(raw)).train()
    torch.manual_seed(2)
    source, target = torch.randint(1, N_VOCAB, (2, N_ROWS, LENGTH))
    lengths = torch.arange(N_ROWS).unsqueeze(1) % (LENGTH - 1)
    source[torch.arange(LENGTH) >= lengths + shortest_source] = 0
    target[torch.arange(LENGTH) > lengths] = 0
    logits = model(source, target)
    F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0).backward()
    return _total_norm(model)


@pytest.mark.parametrize("preset", TRANSLATORS)
def test_empty_sources_do_not_multiply_the_gradient(preset):
    plain = translator_gradient_norm(preset, shortest_source=1)
    assert translator_gradient_norm(preset, shortest_source=0) < plain * TOLERANCE


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "none"])
@pytest.mark.parametrize("score", ["scaled_dot", "content"])
def test_nor_where_nothing_is_added_to_the_words_of_a_deep_transformer(positions, score):
    settings = {"positions": positions, "score": score, "n_layers": 12}
    plain = translator_gradient_norm("transformer", shortest_source=1, **settings)
    empty = translator_gradient_norm("transformer", shortest_source=0, **settings)
    assert empty < plain * TOLERANCE


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi", "none"])
def test_words_that_a_translator_drops_do_not_multiply_the_gradient(positions):
    settings = {"positions": positions, "n_layers": 12}
    plain = translator_gradient_norm("transformer", shortest_source=1, **settings)
    settings |= {"token_dropout": 0.5}
    dropped = translator_gradient_norm("transformer", shortest_source=1, **settings)
    assert plain / TOLERANCE < dropped < plain * TOLERANCE


def test_every_preset_that_drops_words_is_here():
    dropping = {
        name
        for name, preset in PRESETS.items()
        if "token_dropout" in FAMILIES[preset.family].config.model_fields
        and not issubclass(FAMILIES[preset.family].config, PictureConfig)
    }
    as_one = {"transformer-d", "dmca2018"}  # whose blocks are those of gpt
    known = {"transformer", "transformer-ed", *(preset for preset, _ in SYSTEMS)}
    assert dropping == known | as_one
