"""Ours and the public GPT-2, given the same weights, give the same logits and look alike."""

import os

import pytest
import torch
from language_models import language_model, loaded, stirred, weights_of

from regard.inspection.capture import watch
from regard.interop.gguf import read_gguf
from regard.interop.gpt2 import read_gpt2, write_gpt2

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before it is imported: nothing is looked for
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

IDS = torch.randint(0, 31, (3, 11), generator=torch.Generator().manual_seed(0))


def public(**changes):
    sizes = {"vocab_size": 31, "n_positions": 19, "n_embd": 20, "n_layer": 3, "n_head": 5}
    special = {"bos_token_id": 0, "eos_token_id": 0, "n_inner": 28}
    config = transformers.GPT2Config(**{**sizes, **special, **changes})
    config._attn_implementation = "eager"
    model = transformers.GPT2LMHeadModel(config).eval()
    stirred(model)
    return model


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_word_embeddings": False, "layer_norm_epsilon": 1e-2},
        {"n_inner": None, "activation_function": "gelu"},
        {"activation_function": "relu"},
    ],
    ids=str,
)
def test_a_public_model_computes_the_same_here(tmp_path, changes):
    theirs = public(**changes)
    theirs.save_pretrained(tmp_path)
    ours = loaded(read_gpt2(tmp_path))
    with torch.inference_mode():
        wanted = theirs(IDS, output_attentions=True)
        with watch(ours) as views:
            logits = ours(IDS)
    assert wanted.logits.abs().max() > 1  # so that the difference says something
    assert (logits - wanted.logits).abs().max() <= 1e-5
    assert len(wanted.attentions) == 3
    for layer, weights in enumerate(wanted.attentions):
        assert (views["decoder.self", layer].weights() - weights).abs().max() <= 1e-5


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": "gelu_tanh"},
        {"activation": "gelu", "tied": False, "eps": 1e-2},
        {"bias": False, "positions": "sinusoidal"},
    ],
    ids=str,
)
def test_our_model_computes_the_same_there(tmp_path, changes):
    ours = language_model(n_vocab=31, d_model=20, n_heads=5, **changes)
    write_gpt2(ours.config, weights_of(ours), tmp_path)
    theirs, told = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.dtype == torch.float32
    with torch.inference_mode():
        wanted = ours(IDS)
        assert wanted.abs().max() > 1
        assert (theirs.eval()(IDS).logits - wanted).abs().max() <= 1e-5


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_gguf_file_computes_the_same_here_and_there(tmp_path, kind):
    pytest.importorskip("gguf", reason="gguf is not installed")
    pytest.importorskip("accelerate", reason="transformers reads GGUF files only with accelerate")
    from gguf_files import gguf_model, write_gguf

    # Of a GPT-2 they take four times the width and 1,024 positions for granted.
    model = gguf_model(kind, d_ff=96, max_len=1024)
    settings = {"feed_forward_length": 96, "context_length": 1024}
    path = write_gguf(tmp_path / "model.gguf", model, kind, settings=settings)
    ours = loaded(read_gguf(path))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file=path.name, dtype=torch.float32
    ).eval()
    with torch.inference_mode():
        wanted = theirs(IDS % 13).logits
        assert wanted.abs().max() > 1
        assert (ours(IDS % 13) - wanted).abs().max() <= 1e-5
