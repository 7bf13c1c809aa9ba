"""CTranslate2 itself loads what was exported and computes what the model computes."""

import pytest
import torch
from tiny import tiny_config

from regard.core.errors import CheckpointError, ConfigError
from regard.interop.ctranslate2 import (
    LEAST_POSITIONS,
    n_positions,
    refusal,
    write_ctranslate2,
)
from regard.models.transformer import Transformer
from regard.text.specials import BEGIN_ID, END_ID, SPECIALS

ctranslate2 = pytest.importorskip("ctranslate2")

SOURCES = [[5, 6, 7, 8, 4, 5], [12], [9, 3]]
TARGETS = [[9, 4], [3, 11, 10, 9, 8], []]
VARIANTS = [
    {},
    {"norm_first": True},
    {"bias": False},
    {"norm_first": True, "bias": False, "n_layers": 1},
    {"shared_vocab": False, "n_target_vocab": 17},
    {"shared_vocab": False},
    {"score": "dot"},
    {"positions": "learned"},
    {"positions": "none"},
    {"d_model": 15, "d_ff": 7, "n_heads": 5},
    {"activation": "gelu", "output_bias": True},
    {"activation": "gelu_tanh", "tied_output": False},
    {"activation": "silu", "embedding_scale": False, "output_bias": True, "tied_output": False},
    {"hidden_source_id": END_ID},
]


def shaken(**changes):
    """A Transformer in which no weight is zero or one."""
    torch.manual_seed(1)
    model = Transformer(tiny_config(**changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def vocabulary(letter, size):
    return [*SPECIALS, *(f"{letter}{i}" for i in range(len(SPECIALS), size))]


def write(model, folder):
    tokens = (
        vocabulary("s", model.config.n_source_vocab),
        vocabulary("s" if model.config.shared_vocab else "t", model.config.n_target_vocab),
    )
    write_ctranslate2(model, folder, source_tokens=tokens[0], target_tokens=tokens[1])
    return tokens


def theirs(model, folder):
    """The log-probabilities of every target token and the end, as CTranslate2 sees them."""
    source, target = write(model, folder)
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    results = translator.score_batch(
        [[source[i] for i in ids] for ids in SOURCES], [[target[i] for i in ids] for ids in TARGETS]
    )
    return [torch.tensor(result.log_probs) for result in results]


@torch.inference_mode()
def ours(model):
    """The same by one plain forward a sentence."""
    found = []
    for source, target in zip(SOURCES, TARGETS, strict=True):
        logits = model(torch.tensor([[*source, END_ID]]), torch.tensor([[BEGIN_ID, *target]]))
        said = torch.tensor([*target, END_ID])
        found.append(logits[0].log_softmax(-1)[torch.arange(len(said)), said])
    return found


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_log_probabilities_are_the_same(changes, tmp_path):
    model = shaken(**changes)
    torch.testing.assert_close(theirs(model, tmp_path), ours(model), atol=1e-5, rtol=0)


def test_weights_of_other_numbers_are_exported_as_float32(tmp_path):
    model = shaken().double()
    torch.testing.assert_close(theirs(model, tmp_path), ours(model.float()), atol=1e-5, rtol=0)


def test_texts_longer_than_training_are_read(tmp_path):
    model = shaken(max_len=8)
    source, _ = write(model, tmp_path)
    long = [4 + i % 9 for i in range(LEAST_POSITIONS - 1)]
    translator = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    result = translator.score_batch([[source[i] for i in long]], [[]], max_input_length=0)[0]
    with torch.inference_mode():
        logits = model(torch.tensor([[*long, END_ID]]), torch.tensor([[BEGIN_ID]]))
    assert result.log_probs == pytest.approx(
        [float(logits[0, 0].log_softmax(-1)[END_ID])], abs=1e-4
    )
    assert n_positions(model.config) == LEAST_POSITIONS


def test_learned_positions_end_where_they_end():
    assert n_positions(tiny_config(positions="learned", max_len=24)) == 24


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"score": "additive"}, "score='additive'"),
        ({"score": "general", "window": "local_p"}, "score='general', window='local_p'"),
        ({"window": "local_m"}, "window='local_m'"),
        ({"normaliser": "hard"}, "normaliser='hard'"),
        ({"positions": "index"}, "positions='index'"),
        ({"join": "concat"}, "join='concat'"),
        ({"activation": "swiglu"}, "activation='swiglu'"),
        ({"hidden_source_id": 5}, "hidden_source_id=5"),
    ],
)
def test_a_setting_without_counterpart_is_refused_by_name(changes, words, tmp_path):
    model = Transformer(tiny_config(**changes))
    assert words in refusal(model.config)
    with pytest.raises(ConfigError, match="cannot be exported: CTranslate2 has no counterpart of"):
        write(model, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_vocabulary_of_another_size_is_refused(tmp_path):
    tokens = vocabulary("s", 12)
    with pytest.raises(CheckpointError, match="size 12"):
        write_ctranslate2(shaken(), tmp_path, source_tokens=tokens, target_tokens=tokens)
