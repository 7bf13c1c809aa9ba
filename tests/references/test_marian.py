"""Ours and the public MarianMT, given the same weights, give the same log-probabilities."""

import os

import pytest
import torch
from tiny import tiny_config
from translators import loaded, our_ids, shaken

from regard.decoding.settings import DecodeSettings
from regard.inspection.capture import watch
from regard.interop.marian import marian_numbering, read_marian, write_marian
from regard.models.transformer import Transformer
from regard.tasks.translating import decode
from regard.text.specials import END_ID

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before it is imported: nothing is looked for
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

N, PADDING = 23, 22
SOURCE = torch.tensor([[5, 6, 7, 9, 0], [8, 0, PADDING, PADDING, PADDING]])
TARGET = torch.tensor([[PADDING, 4, 9, 3], [PADDING, 1, 2, 10]])
VARIANTS = [
    {},
    {"share_encoder_decoder_embeddings": False},
    {"tie_word_embeddings": False},
    {"activation_function": "swish", "scale_embedding": True},
    {
        "activation_function": "relu",
        "d_model": 15,
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 5),
    },
    {"activation_function": "gelu_new"},
]


def public(**changes):
    sizes = {"vocab_size": N, "d_model": 12, "max_position_embeddings": 32}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 3, f"{side}_ffn_dim": 20}
    special = {
        "pad_token_id": PADDING,
        "decoder_start_token_id": PADDING,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
    }
    config = transformers.MarianConfig(**{**sizes, **special, **changes})
    config._attn_implementation = "eager"
    model = shaken(transformers.MarianMTModel(config).eval())
    model.final_logits_bias.normal_()
    return model


def both(folder, **changes):
    """Theirs, ours that was read from its folder, and our ids of SOURCE and TARGET."""
    theirs = public(**changes)
    theirs.save_pretrained(folder)
    source, target = marian_numbering(folder)
    ids = our_ids(SOURCE, source)
    ids[SOURCE == PADDING] = 0
    return theirs, loaded(read_marian(folder)), ids, our_ids(TARGET, target), target


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@torch.inference_mode()
def test_a_public_model_computes_the_same_here(tmp_path, changes):
    theirs, ours, source, target, numbering = both(tmp_path, **changes)
    wanted = theirs(
        input_ids=SOURCE, attention_mask=(SOURCE != PADDING).long(), decoder_input_ids=TARGET
    ).logits.log_softmax(-1)
    found = ours(source, target).log_softmax(-1)
    assert found[..., 0].max() < -1000  # our padding has no share
    places = our_ids(torch.arange(N).unsqueeze(0), numbering)[0]
    assert wanted.std() > 0.5  # so that the difference says something
    assert (found[..., places] - wanted).abs().max() <= 1e-5


@torch.inference_mode()
def test_every_attention_looks_where_theirs_looks(tmp_path):
    theirs, ours, source, target, _ = both(tmp_path)
    wanted = theirs(
        input_ids=SOURCE,
        attention_mask=(SOURCE != PADDING).long(),
        decoder_input_ids=TARGET,
        output_attentions=True,
    )
    with watch(ours) as views:
        ours(source, target)
    names = {
        "encoder.self": wanted.encoder_attentions,
        "decoder.self": wanted.decoder_attentions,
        "decoder.cross": wanted.cross_attentions,
    }
    for name, layers in names.items():
        assert len(layers) == 2
        for layer, weights in enumerate(layers):
            differs = (views[name, layer].weights() - weights).abs()
            if name == "encoder.self":  # where padding looks is nobody's business
                differs = differs * (SOURCE != PADDING)[:, None, :, None]
            assert differs.max() <= 1e-5


@torch.inference_mode()
def test_greedy_translations_are_the_same(tmp_path):
    theirs, ours, source, _, numbering = both(tmp_path)
    wanted = theirs.generate(
        input_ids=SOURCE,
        attention_mask=(SOURCE != PADDING).long(),
        num_beams=1,
        do_sample=False,
        max_length=9,
        bad_words_ids=[[PADDING]],
    )
    texts = [[number for number in row if number not in (0, END_ID)] for row in source.tolist()]
    place, settings = torch.device("cpu"), DecodeSettings(beam=1, max_len=8)
    found = decode(ours, texts, settings, n_best=1, batch_tokens=99, device=place)
    for theirs_ids, hypotheses in zip(wanted.tolist(), found, strict=True):
        said = theirs_ids[1:]
        said = said[: said.index(0)] if 0 in said else said
        assert list(hypotheses[0].ids) == our_ids(torch.tensor([said]), numbering)[0].tolist()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shared_vocab": False, "n_target_vocab": 17},
        {"tied_output": False, "output_bias": True},
        {"activation": "gelu", "embedding_scale": False, "d_model": 15, "n_heads": 5},
        {"activation": "gelu_tanh"},
        {"activation": "silu", "n_layers": 1},
    ],
    ids=str,
)
@torch.inference_mode()
def test_what_is_exported_is_loaded_by_the_auto_classes(tmp_path, changes):
    ours = shaken(Transformer(tiny_config(**changes)).eval())
    write_marian(ours, tmp_path)
    theirs, told = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(told.values())
    source, target = (
        torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]]),
        torch.tensor([[1, 9, 4], [1, 3, 5]]),
    )
    found = theirs.eval()(
        input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=target
    ).logits
    wanted = ours(source, target)
    assert wanted.std() > 0.5
    assert (found - wanted).abs().max() <= 1e-5
    again = loaded(read_marian(tmp_path))
    assert (again(source, target) - wanted).abs().max() <= 1e-5


@torch.inference_mode()
def test_what_is_exported_writes_the_same_translations(tmp_path):
    ours = shaken(Transformer(tiny_config()).eval(), share=0.6)
    write_marian(ours, tmp_path)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    source = torch.tensor([[5, 6, 7, 2]])
    wanted = theirs.generate(input_ids=source, do_sample=False, num_beams=1, max_length=9)[0, 1:]
    place, settings = torch.device("cpu"), DecodeSettings(beam=1, max_len=8)
    found = decode(ours, [[5, 6, 7]], settings, n_best=1, batch_tokens=99, device=place)[0][0]
    assert list(found.ids) == [number for number in wanted.tolist() if number != END_ID]
