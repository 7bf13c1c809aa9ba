"""Tokenizers of strangers that would take all memory."""

import json

import pytest
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

from regard.cli.main import main
from regard.core.errors import CheckpointError
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer
from regard.text.tokenizer_files import read_tokenizer


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "tokenizer.json"
    Tokenizer.train(["a b c"], TextSettings(kind="bpe", vocab_size=300)).save(file)
    return file


def with_normaliser(path, normaliser):
    inner = tokenizers.Tokenizer.from_file(str(path))
    inner.normalizer = normaliser
    inner.save(str(path))


@pytest.mark.parametrize(
    "step",
    [
        normalizers.Replace("a", "a" * 10),
        normalizers.Replace(Regex("."), "a" * 10),
        normalizers.Replace(Regex("x*"), "ab"),
        normalizers.Prepend("a" * 10),
        normalizers.ByteLevel(),
    ],
)
def test_steps_that_multiply_a_text_are_refused(path, step):
    with_normaliser(path, normalizers.Sequence([step] * 12))
    with pytest.raises(CheckpointError, match=r"its normalizer may make \de\+\d+ signs of one"):
        read_tokenizer(path)


def test_a_decoder_that_multiplies_is_refused(path):
    found = json.loads(path.read_text())
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    found["decoder"] = {"type": "Sequence", "decoders": [step] * 12}
    path.write_text(json.dumps(found))
    with pytest.raises(CheckpointError, match="its decoder may make"):
        read_tokenizer(path)


def test_what_public_tokenizers_do_is_fine(path):
    usual = [normalizers.NFKC(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    usual += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace("``", '"')]
    with_normaliser(path, normalizers.Sequence(usual))
    assert read_tokenizer(path).normalizer is not None


def test_texts_are_never_filled_up_or_cut(path):
    found = json.loads(path.read_text())
    found["padding"] = {
        "strategy": {"Fixed": 10**5}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>",
    }  # fmt: skip
    found["truncation"] = {
        "max_length": 1, "strategy": "LongestFirst", "stride": 0, "direction": "Right"
    }  # fmt: skip
    path.write_text(json.dumps(found))
    assert len(Tokenizer.load(path).encode("a b c")) == 3 + 2


def test_an_expression_that_never_ends_is_one_line(path, monkeypatch, capsys):
    inner = read_tokenizer(path)
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    monkeypatch.setattr("regard.cli.main._run", lambda _words: inner.encode("a" * 40 + "!") and 0)
    assert main([]) == 2
    assert "gave up on this input" in capsys.readouterr().err
