"""Encoders and language models of others, as run folders that are used like any other."""

import json

import numpy as np
import pytest
import tokenizers
import torch
from gguf_files import TOKENS, gguf_model, write_gguf
from language_models import LLAMA, language_model, weights_of
from tokenizers import models, pre_tokenizers

from regard.checkpoints.interop.bert import write_bert
from regard.checkpoints.interop.gpt2 import write_gpt2
from regard.checkpoints.interop.llama import write_llama
from regard.core.errors import CheckpointError, ConfigError
from regard.models.encoder import Encoder, EncoderConfig
from regard.runs.importing import import_model
from regard.runs.loading import load

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat"]


def encoder(**changes):
    torch.manual_seed(0)
    sizes = {"n_vocab": 9, "d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2, "max_len": 9}
    return Encoder(EncoderConfig(**sizes, **changes)).eval()


@pytest.fixture
def bert(tmp_path):
    def write(labels=None, **changes):
        model, folder = encoder(**changes), tmp_path / "bert"
        folder.mkdir()
        write_bert(model.config, weights_of(model), folder)
        (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
        if labels:
            path = folder / "config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"id2label": labels}))
        return model, folder

    return write


def test_an_encoder_without_a_head_compares(bert, tmp_path):
    model, folder = bert()
    import_model(folder, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    assert run.task == "similarity"
    ids = torch.tensor([[2, 5, 6, 7, 8, 3]])  # [CLS] the cat ##s sat [SEP]
    with torch.inference_mode():
        wanted = model.states(ids)[0].mean(dim=0).numpy()
    np.testing.assert_allclose(run.embed("The cats sat", normalised=False), wanted, atol=1e-5)


def test_a_masked_head_fills_in(bert, tmp_path):
    model, folder = bert(head="masked")
    import_model(folder, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    with torch.inference_mode():
        logits = model(torch.tensor([[2, 5, 4, 3]]))[0, 2]
    (guesses,) = run.fill("the <mask>", 3).masks
    assert len(guesses) == 3
    for guess in guesses:
        wanted = logits.softmax(dim=-1)[WORDS.index(guess.token)]
        assert guess.probability == pytest.approx(float(wanted), abs=1e-5)


def test_a_classifier_keeps_the_names_of_its_labels(bert, tmp_path):
    model, folder = bert(labels={"0": "bad", "1": "good"}, head="classify", n_labels=2)
    import_model(folder, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    with torch.inference_mode():
        wanted = model(torch.tensor([[2, 6, 3]]))[0].softmax(dim=-1)
    label, probability = run.classify("cat", with_scores=True)
    assert label == ("bad", "good")[int(wanted.argmax())]
    assert probability == pytest.approx(float(wanted.max()), abs=1e-5)


def byte_pieces(folder, *, end="<|end|>"):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    table = {token: i for i, token in enumerate([end, *alphabet, "Ġt"])}
    inner = tokenizers.Tokenizer(models.BPE(table, [("Ġ", "t")]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens([end])
    inner.save(str(folder / "tokenizer.json"))
    return len(table)


WRITERS = {
    "gpt2": (write_gpt2, {"activation": "gelu_tanh"}),
    "llama": (write_llama, {**LLAMA, "n_kv_heads": 2}),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_language_model_writes_on(kind, tmp_path):
    write, settings = WRITERS[kind]
    folder = tmp_path / kind
    folder.mkdir()
    model = language_model(n_vocab=byte_pieces(folder), **settings)
    write(model.config, weights_of(model), folder)
    (folder / "special_tokens_map.json").write_text('{"eos_token": {"content": "<|end|>"}}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    import_model(folder, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    assert run.task == "language"
    assert (tmp_path / "run" / "chat_template.jinja").read_text() == "{{ messages }}"
    ids = run.tokenizer.encode("a tea")
    with torch.inference_mode():
        log_probs = model(torch.tensor([ids]))[0].log_softmax(dim=-1)
    wanted = sum(float(log_probs[t, ids[t + 1]]) for t in range(len(ids) - 1))
    found = run.score("a tea")
    assert found == pytest.approx(wanted, abs=1e-4)
    assert isinstance(run.generate("a tea", max_new=3, temperature=0), str)


def test_a_gguf_file_brings_its_tokenizer(tmp_path):
    path = write_gguf(tmp_path / "small.gguf", gguf_model("llama"))
    import_model(path, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    assert run.tokenizer.tokens(run.tokenizer.encode("ab")) == ["ab"]
    assert run.tokenizer.marks.end == TOKENS.index("</s>")
    assert (tmp_path / "run" / "chat_template.jinja").read_text() == "{{ messages }}"


def test_a_tokenizer_that_knows_more_than_the_model_is_refused(bert, tmp_path):
    _, folder = bert()
    (folder / "vocab.txt").write_text("\n".join([*WORDS, "more"]))
    with pytest.raises(CheckpointError, match="10 tokens, but the model knows 9"):
        import_model(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_without_a_tokenizer_is_refused(bert, tmp_path):
    _, folder = bert()
    (folder / "vocab.txt").unlink()
    with pytest.raises(CheckpointError, match="no tokenizer: neither tokenizer.json nor vocab.txt"):
        import_model(folder, tmp_path / "run")


def test_an_unknown_kind_is_told_with_what_is_known(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(ConfigError, match=r"model_type='mamba'; supported are .* gpt2 or llama"):
        import_model(tmp_path, tmp_path / "run")


def test_a_head_for_spans_answers_questions(bert, tmp_path):
    model, folder = bert(head="spans")
    import_model(folder, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    assert run.task == "answers"
    ids = torch.tensor([[2, 6, 3, 5, 6, 7, 8, 3]])  # [CLS] cat [SEP] the cat ##s sat [SEP]
    with torch.inference_mode():
        logits = model(ids, torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]]))[0]
    shares = logits[[0, 3, 4, 5, 6]].softmax(dim=0)[1:]
    spans = {(i, j): float(shares[i, 0] * shares[j, 1]) for i in range(4) for j in range(i, 4)}
    first, last = max(spans, key=lambda span: spans[span])
    text, places = "The Cats  sat", [(0, 3), (4, 7), (7, 8), (10, 13)]
    found = run.answer("cat", text)
    assert (found.start, found.end) == (places[first][0], places[last][1])
    assert found.text == text[found.start : found.end]
    assert found.probability == pytest.approx(max(spans.values()), abs=1e-5)
