"""``regard bench``, as typed."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from regard.bench.decoding import SHAPES
from regard.cli.main import main

pytestmark = pytest.mark.slow

TINY = ["--size", "tiny", "--vocab", "40", "--rounds", "1", "--device", "cpu"]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr("regard.bench.contest.LEAST_SECONDS", 0.001)
    monkeypatch.setattr("regard.bench.measures.WIDTH", {"cpu": 32})


@pytest.fixture
def train():
    only = ["--only", "regard", "--only", "torch.nn.Transformer", "--precision", "fp32"]
    return ["bench", "train", *TINY, "--batch-tokens", "64", *only]


def test_training_as_json_and_as_a_picture(train, capsys, tmp_path):
    assert main([*train, "--json", "--out", str(tmp_path / "speed.svg")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["device"]
    assert told["matrix_flops_per_second"]["fp32"] > 0
    ours, theirs = told["rows"]
    assert (ours["who"], theirs["who"]) == ("regard", "torch.nn.Transformer")
    assert ours["what"] == theirs["what"] == "training"
    assert ours["ratio"] == pytest.approx(ours["value"] / theirs["value"])
    assert ours["low"] <= ours["value"] <= ours["high"]
    ElementTree.parse(tmp_path / "speed.svg")


def test_a_picture_that_cannot_be_written_does_not_cost_the_numbers(train, capsys):
    assert main([*train, "--json", "--out", "/dev/full"]) == 2
    out, err = capsys.readouterr()
    assert len(json.loads(out)["rows"]) == 2
    assert "cannot write /dev/full: No space left on device" in err.splitlines()[-1]


def test_training_as_a_table(train, capsys):
    assert main(train) == 0
    out, err = capsys.readouterr()
    assert "target tokens/s" in out
    assert "torch.nn.Transformer" in out
    assert "regard: training: regard, fp32" in err


def test_decoding_as_json(capsys):
    words = ["bench", "decode", *TINY, "--batch", "2", "--only", "regard", "--precision", "fp32"]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["what"] for row in rows] == ["greedy, batch 2", "beam 4, batch 2"]


def test_generating_as_json(capsys, monkeypatch):
    small = {"n_vocab": 60, "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 8, "max_len": 30}
    monkeypatch.setitem(SHAPES, "small", small)
    words = ["bench", "generate", "--shape", "small", "--prompt", "3", "--new", "4", "--batch", "2"]
    words += ["--only", "regard", "--rounds", "1", "--device", "cpu", "--precision", "fp32"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["what"] for row in told["rows"]] == ["generation, batch 2"]
    assert (told["prompt_tokens"], told["written"], told["weights"]) == (3, 4, "random")


def test_why_prints_the_table_of_kernels(capsys):
    assert main(["bench", "attention", "--why"]) == 0
    assert "sdpa" in capsys.readouterr().out
    assert main(["bench", "attention", "--why", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"][0].keys() == {"kernel", "when", "why"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["train", "--only", "regrad"], "there is no contender 'regrad'"),
        (["train", "--size", "tyni"], "has no size 'tyni'"),
        (["train", "--precision", "fp8"], "there is no precision 'fp8'"),
        (["train", "--precision", "int8"], "training takes fp32 or bf16"),
        (["decode", "--device", "abacus"], "device 'abacus'"),
        (["generate", "--shape", "llma"], "there is no shape 'llma'"),
        (["attention", "--out", "/"], "is not a file that can be written"),
        (["train", "--rounds", "0"], "Invalid value for '--rounds'"),
        (["swim"], "No such command 'swim'"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(words, told, capsys):
    assert main(["bench", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert told in err


def test_help_loads_no_torch():
    code = "import sys; from regard.cli.main import main; main(['bench', 'train', '--help']); "
    code += "sys.exit('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode
        == 0
    )
