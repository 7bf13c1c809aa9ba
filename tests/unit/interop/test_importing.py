"""Encoders and language models of others, as run folders that are used like any other."""

import json

import numpy as np
import pytest
import tokenizers
import torch
from gguf_files import TOKENS, gguf_model, write_gguf
from language_models import LLAMA, language_model, weights_of
from tokenizers import models, pre_tokenizers

from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.interop.bert import write_bert
from regard.interop.gpt2 import write_gpt2
from regard.interop.importing import import_model
from regard.interop.llama import write_llama
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig
from regard.tasks.opening import load

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


def test_a_sentence_encoder_reads_as_much_as_it_did(bert, tmp_path):
    model, folder = bert()
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 4}')
    notes = import_model(folder, tmp_path / "run")
    assert "it reads 4 of 9 tokens, as sentence_bert_config.json says" in notes
    with torch.inference_mode():
        wanted = model.states(torch.tensor([[2, 5, 6, 3]]))[0].mean(dim=0).numpy()
    run = load(tmp_path / "run", device="cpu")
    np.testing.assert_allclose(run.embed("the cat sat", normalised=False), wanted, atol=1e-5)


def test_a_sentence_encoder_that_takes_no_mean_is_refused(bert, tmp_path):
    _, folder = bert()
    (folder / "1_Pooling").mkdir()
    said = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
    with pytest.raises(CheckpointError, match=r"pooling_mode_cls_token=true \(supported: the mean"):
        import_model(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


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


@pytest.mark.parametrize("n_segments", [1, 2])
def test_an_imported_classifier_takes_pairs_where_it_tells_texts_apart(bert, tmp_path, n_segments):
    model, folder = bert(head="classify", n_labels=2, n_segments=n_segments)
    import_model(folder, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    assert run.classify(["the", "cat"])[1] == run.classify("cat")
    if n_segments == 1:
        with pytest.raises(DataError, match="expected a text or a list of texts"):
            run.classify([("the", "cat")])
        return
    ids, segments = torch.tensor([[2, 5, 3, 6, 3]]), torch.tensor([[0, 0, 0, 1, 1]])
    with torch.inference_mode():
        wanted = model(ids, segments)[0].softmax(dim=-1)
    one = run.classify(("the", "cat"), with_scores=True)
    assert one.probability == pytest.approx(float(wanted.max()), abs=1e-5)
    assert run.classify([("the", "cat")], with_scores=True) == [one]
    with pytest.raises(DataError, match="is given pairs: expected two texts, but found 'cat'"):
        run.classify([("the", "cat"), "cat"])


def test_labels_of_the_same_name_are_refused(bert, tmp_path):
    _, folder = bert(labels={"0": "a", "1": "b", "2": "a"}, head="classify", n_labels=3)
    with pytest.raises(CheckpointError, match=r"config\.json gives the same name .* id2label: a;"):
        import_model(folder, tmp_path / "run")


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


def gpt2(folder, **said):
    """A folder whose tokenizer does not say what its end is."""
    folder.mkdir()
    model = language_model(n_vocab=byte_pieces(folder), activation="gelu_tanh")
    write_gpt2(model.config, weights_of(model), folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | said))
    return folder


def test_every_end_that_a_model_was_taught_ends_a_text(tmp_path):
    folder = gpt2(tmp_path / "gpt2", eos_token_id=[0, 5])
    (folder / "generation_config.json").write_text('{"eos_token_id": [5, 7]}')
    import_model(folder, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    assert run.tokenizer.specials.end == 0
    assert run.framing.end_ids == {0, 5, 7}


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (99999, "0 to 257, but found pad=99999, end=99999"),
        (-5, "found pad=-5, end=-5"),
        ([], "names an end token"),
    ],
)
def test_an_end_that_is_no_token_is_refused(tmp_path, ends, words):
    with pytest.raises(CheckpointError, match=words):
        import_model(gpt2(tmp_path / "gpt2", eos_token_id=ends), tmp_path / "run")


def test_an_end_that_is_no_number_is_refused(tmp_path):
    folder = gpt2(tmp_path / "gpt2", eos_token_id=0)
    (folder / "generation_config.json").write_text('{"eos_token_id": [[1]]}')
    with pytest.raises(
        CheckpointError, match=r"generation_config\.json must say eos_token_id as a n"
    ):
        import_model(folder, tmp_path / "run")


def test_a_gguf_file_says_what_stands_before_a_text(tmp_path):
    model = gguf_model("llama")
    import_model(write_gguf(tmp_path / "a.gguf", model, adds=("bos", "eos")), tmp_path / "a")
    notes = import_model(write_gguf(tmp_path / "b.gguf", model), tmp_path / "b")
    before, bare = (load(tmp_path / name, device="cpu") for name in "ab")
    assert (before.framing.opening, bare.framing.opening) == ((TOKENS.index("<s>"),), ())
    assert not any("add_eos_token" in note for note in notes)
    ids = [TOKENS.index("<s>"), TOKENS.index("ab")]
    with torch.inference_mode():
        wanted = model(torch.tensor([ids]))[0, 0].log_softmax(dim=-1)[ids[1]]
    assert before.score("ab") == pytest.approx(float(wanted), abs=1e-4)


def test_an_end_after_each_text_is_told_as_left_out(tmp_path):
    path = write_gguf(tmp_path / "a.gguf", gguf_model("llama"), adds=("eos",))
    assert any("add_eos_token" in note for note in import_model(path, tmp_path / "run"))


def test_a_gguf_file_brings_its_tokenizer(tmp_path):
    path = write_gguf(tmp_path / "small.gguf", gguf_model("llama"))
    import_model(path, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    assert run.tokenizer.tokens(run.tokenizer.encode("ab")) == ["ab"]
    assert run.tokenizer.specials.end == TOKENS.index("</s>")
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
    with pytest.raises(
        ConfigError, match=r"model_type='mamba'; supported are .* llama, vit or detr"
    ):
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


@pytest.mark.parametrize("n_segments", [1, 2])
def test_an_answerer_reads_what_its_segments_allow(bert, tmp_path, n_segments):
    model, folder = bert(head="spans", n_segments=n_segments)
    import_model(folder, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    ids = torch.tensor([[2, 5, 3, 6, 8, 3]])  # [CLS] the [SEP] cat sat [SEP]
    with torch.inference_mode():
        logits = model(ids, torch.tensor([[0, 0, 0, 1, 1, 1]]) if n_segments > 1 else None)[0]
    starts, ends = logits[[0, 3, 4]].softmax(dim=0).unbind(-1)
    spans = {"cat": (1, 1), "sat": (2, 2), "cat sat": (1, 2)}
    shares = {text: float(starts[a] * ends[b]) for text, (a, b) in spans.items()}
    found = run.answer("the", "cat sat", top=3)
    assert {one.text: one.probability for one in found} == pytest.approx(shares, rel=1e-5)
    assert run.embed("cat sat").shape == (12,)
    assert run.n_cut(["cat sat"]) == 0
    with pytest.raises(DataError, match="there is no word in the text"):
        run.answer("the", "\u200b")
