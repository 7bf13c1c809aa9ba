"""A look at a public model has the weights of its eager implementation, and changes nothing."""

import os

import numpy as np
import pytest
import torch
from language_models import stirred
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

import regard

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before it is imported: nothing is looked for
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

TEXT = "the animal was too tired"
N_VOCAB = 41
IMPLEMENTATIONS = ("eager", "sdpa")
SIZES = {
    "vocab_size": N_VOCAB,
    "num_hidden_layers": 3,
    "intermediate_size": 28,
    "max_position_embeddings": 19,
    "initializer_range": 0.5,
}


def built(config, kind, implementation):
    config._attn_implementation = implementation
    torch.manual_seed(5)
    model = getattr(transformers, kind)(config).eval()
    stirred(model)
    return model


def bert(implementation, kind="BertModel", **changes):
    heads = {"hidden_size": 20, "num_attention_heads": 5}
    return built(transformers.BertConfig(**{**SIZES, **heads, **changes}), kind, implementation)


def gpt2(implementation):
    sizes = {"vocab_size": N_VOCAB, "n_positions": 19, "n_embd": 20, "n_layer": 3, "n_head": 5}
    special = {"bos_token_id": 0, "eos_token_id": 0}
    return built(transformers.GPT2Config(**sizes, **special), "GPT2LMHeadModel", implementation)


def llama(implementation):
    heads = {"hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2}
    return built(transformers.LlamaConfig(**SIZES, **heads), "LlamaForCausalLM", implementation)


def seq2seq_sizes():
    sizes = {"vocab_size": N_VOCAB, "d_model": 20, "max_position_embeddings": 23}
    sizes |= {"encoder_layers": 2, "encoder_attention_heads": 5, "encoder_ffn_dim": 28}
    sizes |= {"decoder_layers": 3, "decoder_attention_heads": 4, "decoder_ffn_dim": 26}
    ids = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0}
    return sizes | ids | {"forced_eos_token_id": None, "init_std": 0.5}


def marian(implementation, kind="MarianMTModel"):
    return built(transformers.MarianConfig(**seq2seq_sizes()), kind, implementation)


def t5(implementation):
    sizes = {"vocab_size": N_VOCAB, "d_model": 20, "d_kv": 3, "d_ff": 28, "num_heads": 5}
    ids = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0}
    config = transformers.T5Config(**sizes, **ids, num_layers=3)
    return built(config, "T5ForConditionalGeneration", implementation)


def vit(implementation, kind="ViTForImageClassification"):
    sizes = {key: one for key, one in SIZES.items() if key not in ("vocab_size",)}
    del sizes["max_position_embeddings"]
    heads = {"hidden_size": 20, "num_attention_heads": 5, "image_size": 24, "patch_size": 8}
    config = transformers.ViTConfig(**sizes, **heads, num_labels=4)
    return built(config, kind, implementation)


def word_tokenizer():
    """[CLS] a [SEP] b [SEP], as BERT reads."""
    words = ["<pad>", "<s>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *TEXT.split()]
    words += [f"w{i}" for i in range(N_VOCAB - len(words))]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 4), ("[SEP]", 5)],
    )
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    names |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **names)


def byte_tokenizer():
    """Pieces spelled in signs for bytes, as GPT-2 has them."""
    signs = sorted({*"Ġtheanimlwsor", "Ã", "©", "â", "Ĥ", "¬", "i", "d"})
    pieces = {sign: i + 1 for i, sign in enumerate(signs)}
    pieces |= {"<|endoftext|>": 0, "th": 30, "the": 31, "Ġt": 32}
    inner = Tokenizer(models.BPE(pieces, [("t", "h"), ("th", "e"), ("Ġ", "t")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    names = {"eos_token": "<|endoftext|>", "model_input_names": ["input_ids", "attention_mask"]}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **names)


def same_weights(layers, wanted):
    assert len(layers) == len(wanted)
    for ours, theirs in zip(layers, wanted, strict=True):
        assert ours.std() > 0.01  # so that the difference says something
        np.testing.assert_allclose(ours, theirs[0].numpy(), atol=1e-5)


def eager_attentions(model, **inputs):
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return model(**inputs, output_attentions=True)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("other", [None, "too tired w3"])
def test_an_encoder_of_a_text_or_a_pair(implementation, other):
    model, tokenizer = bert(implementation), word_tokenizer()
    look = regard.look(model, tokenizer, TEXT, other)
    wanted = eager_attentions(model, **tokenizer(TEXT, other, return_tensors="pt"))
    same_weights(look.attentions["encoder.self"], wanted.attentions)
    first = ("[CLS]", *TEXT.split(), "[SEP]")
    second = () if other is None else (*other.split(), "[SEP]")
    assert look.tokens_of("encoder.self") == (first + second,) * 2
    assert list(look.attentions) == ["encoder.self"]
    steps = look.steps("animal", layer=2, head=3)
    np.testing.assert_allclose(steps.weights, look.weights("encoder.self", 2)[3, 2], atol=1e-6)
    assert steps.scale == pytest.approx(1 / 2)  # of heads four wide


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("make", [gpt2, llama])
def test_a_decoder(implementation, make):
    model, tokenizer = make(implementation), byte_tokenizer()
    text = "the the ta é €"
    look = regard.look(model, tokenizer, text)
    wanted = eager_attentions(model, **tokenizer(text, return_tensors="pt"))
    same_weights(look.attentions["decoder.self"], wanted.attentions)
    pieces = "the ▁ the ▁t a ▁ \\xc3 \\xa9 ▁ \\xe2 \\x82 \\xac".split()
    assert look.source_tokens == tuple(pieces)
    (place,) = look.outcome.places
    shares = wanted.logits[0, -1].softmax(-1)
    assert place.choices[0].probability == pytest.approx(shares.max().item(), abs=1e-6)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("make", [marian, t5])
@pytest.mark.parametrize("target", [None, "w1 w2 tired w4"])
def test_an_encoder_and_decoder(implementation, make, target):
    model, tokenizer = make(implementation), word_tokenizer()
    look = regard.look(model, tokenizer, TEXT, target)
    assert list(look.attentions) == ["encoder.self", "decoder.self", "decoder.cross"]
    written = tokenizer.convert_tokens_to_ids(list(look.target_tokens))
    if target is not None:
        assert written == tokenizer(target).input_ids
        assert look.translation == target
    read = torch.tensor([[0, *written[:-1]]])
    source = tokenizer(TEXT, return_tensors="pt")
    wanted = eager_attentions(
        model,
        input_ids=source["input_ids"],
        attention_mask=source["attention_mask"],
        decoder_input_ids=read,
    )
    if target is None:  # it wrote what it takes for most probable
        assert wanted.logits[0].argmax(-1).tolist()[:-1] == written[:-1]
    same_weights(look.attentions["encoder.self"], wanted.encoder_attentions)
    same_weights(look.attentions["decoder.self"], wanted.decoder_attentions)
    same_weights(look.attentions["decoder.cross"], wanted.cross_attentions)
    rows, columns = look.tokens_of("decoder.self")
    assert columns == ("<pad>", *rows[:-1])
    assert look.tokens_of("decoder.cross") == (rows, ("[CLS]", *TEXT.split(), "[SEP]"))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_two_encoders_of_which_one_decodes(implementation):
    one, other = bert("eager").config, bert("eager", num_attention_heads=4).config
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(one, other)
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    model, tokenizer = built(config, "EncoderDecoderModel", implementation), word_tokenizer()
    look = regard.look(model, tokenizer, TEXT, "w1 w2")
    heads = {name: layers[0].shape for name, layers in look.attentions.items()}
    assert heads == {
        "encoder.self": (5, 7, 7),
        "decoder.self": (4, 4, 4),
        "decoder.cross": (4, 4, 7),
    }


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_picture(implementation):
    model = vit(implementation)
    processor = transformers.ViTImageProcessor(size={"height": 24, "width": 24})
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    look = regard.look(model, processor, pixels)
    inputs = processor(images=pixels, return_tensors="pt")
    wanted = eager_attentions(model, **inputs)
    same_weights(look.attentions["encoder.self"], wanted.attentions)
    assert look.tokens_of("encoder.self")[0][:4] == ("<cls>", "0,0", "0,1", "0,2")
    assert look.sides["source"].grid == (3, 3)
    assert np.abs(look.picture.astype(int) - pixels).max() <= 1
    assert look.answer == model.config.id2label[wanted.logits.argmax().item()]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_padded_row_hides_its_padding(implementation):
    model, tokenizer = bert(implementation), word_tokenizer()
    inputs = tokenizer([TEXT, "too tired w3 w4 w5 w6 w7"], padding=True, return_tensors="pt")
    look = regard.look(model, tokenizer, inputs=inputs)
    wanted = eager_attentions(model, **inputs)
    same_weights(look.attentions["encoder.self"], wanted.attentions)
    assert not look.weights("encoder.self")[..., -2:].any()
    assert not look.records["encoder.self"][0].visible[..., -2:].any()
    assert look.warnings == ("attention is of 2 rows at once: the first is shown",)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("make", [bert, gpt2, llama, marian, vit])
def test_the_pass_and_the_model_stay_what_they_are(implementation, make, monkeypatch):
    model = make(implementation).train()
    model.get_submodule(next(name for name, _ in model.named_modules() if name)).eval()
    modes = [module.training for module in model.modules()]
    inputs = {"input_ids": torch.tensor([[4, 9, 7, 5, 11, 2]])}
    if make is marian:
        inputs["decoder_input_ids"] = torch.tensor([[0, 9, 3]])
    if make is vit:
        inputs = {"pixel_values": torch.randn(1, 3, 24, 24)}
    outputs = []
    handle = model.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    regard.look(model, inputs=inputs)
    assert modes == [module.training for module in model.modules()]
    with torch.no_grad():
        model.eval()(**inputs)
    handle.remove()
    watched, alone = (one[0] for one in outputs)
    assert torch.equal(watched, alone)
    assert not watched.requires_grad
    assert all("forward" not in vars(module) for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_narrow_numbers_are_shown_in_wide_ones():
    model, tokenizer = bert("eager").to(torch.bfloat16), word_tokenizer()
    look = regard.look(model, tokenizer, TEXT)
    wanted = eager_attentions(model, **tokenizer(TEXT, return_tensors="pt")).attentions
    for layer, weights in zip(look.attentions["encoder.self"], wanted, strict=True):
        np.testing.assert_allclose(layer, weights[0].float(), atol=0.02)
        np.testing.assert_allclose(layer.sum(-1), 1, atol=1e-6)
    assert all(one.bias is None for one in look.records["encoder.self"])


def test_the_words_for_a_mask():
    model, tokenizer = bert("sdpa", "BertForMaskedLM"), word_tokenizer()
    look = regard.look(model, tokenizer, "the [MASK] was too tired")
    (place,) = look.outcome.places
    assert place.rows == (2, 3)
    assert look.answer == place.choices[0].text


def test_an_encoder_and_decoder_that_writes_nothing_needs_a_target():
    model, tokenizer = marian("sdpa", "MarianModel"), word_tokenizer()
    with pytest.raises(regard.ConfigError, match="MarianModel reads a target and writes none"):
        regard.look(model, tokenizer, TEXT)
    look = regard.look(model, tokenizer, TEXT, "w1 w2")
    assert look.weights("decoder.cross").shape == (4, 4, 7)


def test_a_model_without_attention_is_refused_in_one_line():
    sizes = {"vocab_size": N_VOCAB, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}
    model = built(transformers.MambaConfig(**sizes), "MambaModel", "eager")
    with pytest.raises(regard.ConfigError, match="no attention was seen in MambaModel") as told:
        regard.look(model, inputs={"input_ids": torch.tensor([[1, 2, 3]])})
    assert "\n" not in str(told.value)
    assert "F.scaled_dot_product_attention" in str(told.value)


def test_a_text_that_the_model_cannot_hold_is_refused():
    with pytest.raises(regard.DataError, match="reads 19 tokens at most, and the text has 42"):
        regard.look(bert("sdpa"), word_tokenizer(), "tired " * 40)


def test_it_is_drawn_in_every_form(tmp_path):
    look = regard.look(marian("sdpa"), word_tokenizer(), TEXT, "w1 w2 tired")
    for form in ("html", "svg", "json", "csv", "tex"):
        look.save(tmp_path / f"look.{form}")
        assert "tired" in (tmp_path / f"look.{form}").read_text(encoding="utf-8")
    assert "tired" in str(look)
    assert "<iframe" in look._repr_html_()
