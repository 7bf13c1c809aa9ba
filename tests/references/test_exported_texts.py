"""What is exported loads by the Auto classes of transformers, and computes the same."""

import json

import numpy as np
import pytest
import torch
from text_runs import short_run

from regard.interop.exporting import export
from regard.interop.importing import import_model
from regard.interop.onnx import write_onnx_encoder
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig
from regard.tasks.opening import load

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture
def bert_run(tmp_path):
    """A run of an encoder that others made, with word pieces."""
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=20, max_position_embeddings=11, num_labels=3,
        id2label={0: "bad", 1: "fair", 2: "good"}, label2id={"bad": 0, "fair": 1, "good": 2},
    )  # fmt: skip
    torch.manual_seed(0)
    theirs = transformers.BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path / "bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat"]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(words))
    import_model(tmp_path / "bert", tmp_path / "run")
    return theirs, load(tmp_path / "run", device="cpu")


def test_an_encoder_goes_there_and_back(bert_run, tmp_path):
    theirs, run = bert_run
    export(run, "hf", tmp_path / "out")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert again.config.id2label == {0: "bad", 1: "fair", 2: "good"}
    ids = torch.tensor([[2, 5, 6, 7, 8, 3]])
    with torch.inference_mode():
        logits = again(ids).logits
        assert (logits - theirs(ids).logits).abs().max() <= 1e-5
    found = run.probabilities(["the cats sat"])
    np.testing.assert_allclose(found, logits.softmax(dim=-1).numpy(), atol=1e-5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.pad_token == "[PAD]"
    assert tokenizer.mask_token == "[MASK]"


KINDS = {
    "gpt2": (
        transformers.GPT2Config, transformers.GPT2LMHeadModel,
        {"n_positions": 17, "n_embd": 24, "n_layer": 2, "n_head": 4},
    ),
    "llama": (
        transformers.LlamaConfig, transformers.LlamaForCausalLM,
        {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 20, "max_position_embeddings": 17},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_language_model_goes_there_and_back(kind, tmp_path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    make_config, make_model, sizes = KINDS[kind]
    table = {t: i for i, t in enumerate(["<e>", *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    inner = Tokenizer(models.BPE(table, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<e>"])
    torch.manual_seed(0)
    theirs = make_model(
        make_config(vocab_size=len(table), eos_token_id=0, bos_token_id=0, **sizes)
    ).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    inner.save(str(tmp_path / "theirs" / "tokenizer.json"))
    import_model(tmp_path / "theirs", tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    export(run, "hf", tmp_path / "out")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert again.config.model_type == kind
    assert again.config.eos_token_id == 0
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer("a tea", return_tensors="pt").input_ids
    assert ids[0].tolist() == run.tokenizer.encode("a tea")
    with torch.inference_mode():
        wanted = theirs(ids).logits
        assert (again(ids).logits - wanted).abs().max() <= 1e-5
        assert (run.model(ids) - wanted).abs().max() <= 1e-5


def test_an_encoder_goes_to_onnx(bert_run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    theirs, run = bert_run
    export(run, "onnx", tmp_path / "out")
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "model.onnx"))
    shape = ["batch_size", "sequence_length"]
    names = ("input_ids", "attention_mask", "token_type_ids")
    assert {one.name: one.shape for one in session.get_inputs()} == dict.fromkeys(names, shape)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "out")
    assert config.id2label == {0: "bad", 1: "fair", 2: "good"}
    for ids in ([[2, 5, 3]], [[2, 5, 6, 7, 3], [2, 8, 3, 7, 6]]):  # the last two are hidden
        given = np.array(ids)
        mask = np.ones_like(given)
        mask[1:, 3:] = 0
        arrays = (given, mask, np.zeros_like(given))
        (found,) = session.run(["logits"], dict(zip(names, arrays, strict=True)))
        with torch.inference_mode():
            wanted = theirs(torch.tensor(ids), attention_mask=torch.tensor(mask)).logits
        np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)


def test_a_head_that_pools_by_attention_goes_to_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    sizes = {"n_vocab": 9, "d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 1, "max_len": 9}
    head = {"head": "classify", "n_labels": 2, "pooling": "attention", "n_segments": 0}
    model = Encoder(EncoderConfig(**sizes, **head)).eval()
    write_onnx_encoder(model, tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    for ids in ([[2, 5, 3]], [[2, 5, 6, 7, 3], [2, 8, 3, 0, 0], [2, 4, 4, 3, 0]]):
        given = {"input_ids": np.array(ids), "attention_mask": np.ones_like(ids)}
        (found,) = session.run(["logits"], given)
        with torch.inference_mode():
            np.testing.assert_allclose(found, model(torch.tensor(ids)).numpy(), atol=1e-5)


@pytest.mark.parametrize("n_segments", [0, 1])
def test_an_encoder_that_tells_no_texts_apart_goes_to_onnx_without_segments(n_segments, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    sizes = {"n_vocab": 9, "d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 1, "max_len": 9}
    model = Encoder(EncoderConfig(**sizes, n_segments=n_segments)).eval()
    write_onnx_encoder(model, tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    ids = torch.tensor([[2, 5, 3], [2, 8, 3]])
    given = {"input_ids": ids.numpy(), "attention_mask": np.ones_like(ids.numpy())}
    (found,) = session.run(["last_hidden_state"], given)
    with torch.inference_mode():
        np.testing.assert_allclose(found, model(ids).numpy(), atol=1e-5)


# ------------------------------------------------------------------ the usual three lines


def test_a_translator_answers_the_usual_three_lines(run_path, tmp_path):
    run = load(run_path, device="cpu")
    export(run, "hf", tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    ids = model.generate(**tokenizer(["a b c"], return_tensors="pt"))
    wanted = run.translate(["a b c"], beam=1)
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == wanted


def test_a_language_model_answers_the_usual_three_lines(tmp_path):
    run = load(short_run("language", tmp_path), device="cpu")
    export(run, "hf", tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    given = tokenizer(["a c e"], return_tensors="pt")
    ids = model.generate(**given, max_new_tokens=5, do_sample=False)
    (ours,) = run.generate(["a c e"], max_new=5, temperature=0.0)
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == [f"a c e{ours}"]


@pytest.mark.parametrize("to", ["hf", "onnx"])
@pytest.mark.parametrize("kind", ["translation", "language"])
def test_an_exported_tokenizer_gives_what_its_model_reads(kind, to, run_path, tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    path = run_path if kind == "translation" else short_run(kind, tmp_path)
    export(load(path, device="cpu"), to, tmp_path / "out")
    inputs = ["input_ids", "attention_mask"]
    # Where a folder does not say so, transformers before 5 gives token_type_ids as well.
    told = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert told["model_input_names"] == inputs
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert [*tokenizer("a b")] == inputs
