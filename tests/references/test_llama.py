"""Ours and the public LLaMA, given the same weights, give the same logits and look alike."""

import os
from pathlib import Path

import pytest
import torch
from language_models import LLAMA, language_model, loaded, stirred, weights_of

from regard.inspection.capture import watch
from regard.interop.gguf import read_gguf, read_gguf_tokenizer
from regard.interop.llama import read_llama, write_llama
from regard.models.base import NoMemory

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before it is imported: nothing is looked for
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
transformers.utils.logging.disable_progress_bar()

IDS = torch.randint(0, 31, (3, 11), generator=torch.Generator().manual_seed(0))


def public(**changes):
    sizes = {"vocab_size": 31, "hidden_size": 36, "num_hidden_layers": 3, "intermediate_size": 28}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 19}
    config = transformers.LlamaConfig(**{**sizes, **heads, "pad_token_id": 3, **changes})
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).eval()
    stirred(model)
    return model


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_word_embeddings": True, "rms_norm_eps": 1e-2},
        {"rope_theta": 50.0, "num_key_value_heads": 6},
        {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1},
    ],
    ids=str,
)
def test_a_public_model_computes_the_same_here(tmp_path, changes):
    theirs = public(**changes)
    theirs.save_pretrained(tmp_path)
    ours = loaded(read_llama(tmp_path))
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
        {"n_kv_heads": 2},
        {"n_kv_heads": 3, "tied": False, "rotary_base": 50.0, "eps": 1e-2},
        {"bias": True},
    ],
    ids=str,
)
def test_our_model_computes_the_same_there(tmp_path, changes):
    ours = language_model(**{**LLAMA, "n_vocab": 31, "d_model": 36, "n_heads": 6, **changes})
    write_llama(ours.config, weights_of(ours), tmp_path)
    theirs, told = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert theirs.dtype == torch.float32
    with torch.inference_mode():
        wanted = ours(IDS)
        assert wanted.abs().max() > 1
        assert (theirs.eval()(IDS).logits - wanted).abs().max() <= 1e-5


def smollm2():
    """The file of weights: where REGARD_SMOLLM2 says, or where `make references` put it."""
    usual = Path(__file__).parents[2] / ".references" / "smollm2"
    place = Path(os.environ.get("REGARD_SMOLLM2", usual))
    return place if place.is_file() else next(iter(sorted(place.rglob("*.gguf"))), None)


@pytest.mark.slow
@pytest.mark.skipif(
    smollm2() is None,
    reason="SmolLM2-135M is not here; `make references` gets it, or REGARD_SMOLLM2 names it",
)
def test_smollm2_computes_the_same_here_and_knows_a_capital():
    """Kept as Q4_1 and Q8_0; both sides write it out by gguf's functions, each by its own names."""
    pytest.importorskip("gguf", reason="gguf is not installed")
    pytest.importorskip("accelerate", reason="transformers reads GGUF files only with accelerate")
    path = smollm2()
    ours = loaded(read_gguf(path))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tokens = read_gguf_tokenizer(path).tokens
    ids = torch.tensor([[tokens.index(word) for word in "The Ġcapital Ġof ĠFrance Ġis".split()]])
    longer = torch.randint(0, len(tokens), (2, 67), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        for given in (ids, longer):
            wanted = theirs(given, output_attentions=True)
            with watch(ours) as views:
                logits = ours(given)
            assert (logits - wanted.logits).abs().max() <= 1e-3
            assert len(wanted.attentions) == 30
            for layer, weights in enumerate(wanted.attentions):
                assert (views["decoder.self", layer].weights() - weights).abs().max() <= 1e-4
        assert 20 < ours(ids).abs().max() < 35
        state = ours.start(NoMemory(1))
        for begin in range(5):
            last, state = ours.step(ids[:, begin], NoMemory(1), state)
    assert tokens[last.argmax()] == "ĠParis"
