"""Runs that answer questions against BertForQuestionAnswering of transformers, both ways."""

import pytest
import torch

from regard.interop.exporting import export
from regard.interop.importing import import_model
from regard.runs.train import train
from regard.tasks.opening import load
from regard.tasks.recipe import recipe_from

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
transformers.utils.logging.disable_progress_bar()

WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat", "who", "?", ".",
    "dog", "ran",
]  # fmt: skip
PAIRS = [
    ("Who sat?", "The cats sat. The DOG ran."),
    ("Who ran?", "the dog ran, thé cats  sat"),
    ("the cat?", "cats"),
]


def best_of(logits, encoded, text):
    """All spans of the text by loops: where the best begins and ends, and its probability."""
    ids = encoded.sequence_ids(0)
    places = [i for i, side in enumerate(ids) if side == 1]
    shares = logits[[0, *places]].softmax(dim=0)[1:]
    every = {
        (a, b): float(shares[a, 0] * shares[b, 1])
        for a in range(len(places))
        for b in range(a, min(a + 30, len(places)))
    }
    a, b = max(every, key=lambda span: every[span])
    offsets = encoded["offset_mapping"][0].tolist()
    return offsets[places[a]][0], offsets[places[b]][1], every[a, b]


def check_alike(run, theirs, tokenizer):
    for question, text in PAIRS:
        encoded = tokenizer(question, text, return_tensors="pt", return_offsets_mapping=True)
        fields = {k: v for k, v in encoded.items() if k != "offset_mapping"}
        with torch.inference_mode():
            found = theirs(**fields)
            ours = run.model(encoded["input_ids"], encoded["token_type_ids"])[0]
        logits = torch.stack((found.start_logits[0], found.end_logits[0]), dim=-1)
        assert (ours - logits).abs().max() <= 1e-5
        start, end, probability = best_of(logits, encoded, text)
        answer = run.answer(question, text)
        assert (answer.start, answer.end) == (start, end)
        assert answer.text == text[start:end]
        assert answer.probability == pytest.approx(probability, abs=1e-5)


def test_what_transformers_wrote_answers_alike_here(tmp_path):
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=15, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=22, max_position_embeddings=31, initializer_range=0.5,
    )  # fmt: skip
    theirs = transformers.BertForQuestionAnswering(config).eval()
    theirs.save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(WORDS))
    tokenizer = transformers.BertTokenizerFast(str(tmp_path / "bert" / "vocab.txt"))
    import_model(tmp_path / "bert", tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    check_alike(run, theirs, tokenizer)
    export(run, "hf", tmp_path / "out")
    again = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out").eval()
    for name, weight in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_what_we_trained_answers_alike_there(tmp_path, kind):
    lines = [f"{q}\t{text}\t{text.split()[1].strip('.,')}\n" for q, text in PAIRS[:2]] * 10
    (tmp_path / "train.tsv").write_text("".join(lines))
    (tmp_path / "valid.tsv").write_text("".join(lines[:2]))
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2, "max_len": 64}
    recipe = recipe_from(
        {
            "task": "answers",
            "data": {"folder": str(tmp_path), "train": "train.tsv", "valid": "valid.tsv"},
            "text": {"kind": kind, "vocab_size": 300},
            "model": {"preset": "bert", **sizes},
            "train": {"max_steps": 10, "lr": 1e-2, "warmup_steps": 2, "batch_tokens": 200},
        }
    )
    train(recipe, tmp_path / "run")
    run = load(tmp_path / "run", device="cpu")
    export(run, "hf", tmp_path / "out")
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for question, text in PAIRS:
        encoded = tokenizer(question, text, return_tensors="pt")
        with torch.inference_mode():
            found = theirs(**encoded)
            ours = run.model(encoded["input_ids"], encoded["token_type_ids"])[0]
        asked = run.layout.row(*(run.tokenizer.encode(one) for one in (question, text)))
        assert encoded["input_ids"][0].tolist() == asked[0]
        assert encoded["token_type_ids"][0].tolist() == asked[1]
        assert (ours[:, 0] - found.start_logits[0]).abs().max() <= 1e-5
        assert (ours[:, 1] - found.end_logits[0]).abs().max() <= 1e-5
