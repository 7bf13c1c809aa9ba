"""A classifier whose label is read off what a learned query looks at, in every view of it."""

import csv
import json

import numpy as np
import pytest
import torch
from looked_at import LABELLED, encoder_run, saved
from starlette.testclient import TestClient

from regard.core.errors import ConfigError, DataError
from regard.server.app import make_app
from regard.tasks import look as limits

POOL = "encoder.head.pool"
CELL = {"cell": "lstm", "positions": "none", "n_segments": 0}
MODELS = {"attention": {}, "recurrence": CELL}


@pytest.fixture(params=MODELS)
def pooled(request, tmp_path):
    (tmp_path / "train.tsv").write_text(LABELLED)
    changes = {"pooling": "attention", **MODELS[request.param]}
    return encoder_run("classification", folder=tmp_path / "run", data=tmp_path, **changes)


def test_the_one_row_of_the_pooling_is_the_label(pooled):
    look = pooled.explain("a b c d")
    assert look.tokens_of(POOL) == ((pooled.classify("a b c d"),), look.source_tokens)
    weights = look.weights(POOL)
    assert weights.shape == (1, 1, len(look.source_tokens))
    assert weights.sum() == pytest.approx(1.0)
    own = () if pooled.model.config.cell else ("encoder.self",)
    assert tuple(look.attentions) == (*own, POOL)
    ids = torch.tensor([[*pooled.layout.row(pooled.tokenizer.encode("a b c d"), ())[0]]])
    states = pooled.model.states(ids).detach().numpy()[0]
    mixed = torch.from_numpy(weights[0, 0] @ states)
    shares = pooled.model.head.to_labels(mixed).softmax(dim=-1).tolist()
    told = {one.text: one.probability for one in look.outcome.places[0].choices}
    assert told == pytest.approx(dict(zip(pooled.labels.names, shares, strict=True)), rel=1e-5)


def test_a_token_alone_says_which_attention_is_meant(pooled):
    look = pooled.explain("a b c d")
    assert look.steps(look.outcome.text).name == POOL
    if pooled.model.config.cell:
        assert look.steps(0).name == POOL
        with pytest.raises(
            ConfigError, match="a rollout follows self-attention, and this system has none"
        ):
            look.rollout()
    else:
        assert look.steps("b").name == look.steps(3).name == "encoder.self"


def test_the_program_shows_it(pooled, run):
    folder = saved(pooled)
    label = pooled.classify("a b c")
    code, out, err = run("explain", folder, "a b c", "--attention", POOL)
    assert (code, err) == (0, "")
    assert f"{POOL}, layer 0, mean of 1 head\n" in out
    code, out, err = run("explain", folder, "a b c", "--attention", POOL, "--token", label)
    assert code == 0, err
    assert f"{label} in {POOL}, layer 0, head 0" in out
    code, out, err = run("explain", folder, "a b c", "--attention", POOL, "--format", "csv")
    assert code == 0, err
    head, row = csv.reader(out.splitlines()[-2:])
    assert head[1:] == ["<s>", "a", "b", "c", "</s>"]
    assert row[0] == label
    weights = pooled.explain("a b c").weights(POOL)[0, 0].tolist()
    assert list(map(float, row[1:])) == pytest.approx(weights, abs=1e-4)


def test_its_head_is_measured_and_ablated(pooled, run):
    code, out, err = run("heads", saved(pooled), "--json", "--split", "train")
    assert code == 0, err
    row = json.loads(out)["rows"][-1]
    assert row["name"] == POOL
    look = [pooled.explain(line.split("\t")[0]) for line in LABELLED.splitlines()]
    shares = [one.weights(POOL)[0, 0].astype(np.float64) for one in look]
    entropy = np.mean([-(share * np.log2(share)).sum() for share in shares])
    assert row["entropy"] == pytest.approx(entropy, rel=1e-4)
    assert row["loss_change"] != 0
    assert row["distance"] is None


def test_the_page_is_told_of_it(pooled):
    with TestClient(make_app(pooled), base_url="http://127.0.0.1:8000") as client:
        told = client.get("/api/info").json()["attentions"]
        sent = client.post("/api/explain", json={"source": "a b c"}).json()
    assert told == [
        {"name": name, "layers": len(layers), "heads": len(layers[0])}
        for name, layers in sent["attentions"].items()
    ]
    assert sent["axes"][POOL] == {"rows": "label", "columns": "source"}
    assert sent["target_tokens"] == [pooled.classify("a b c")]


def test_a_recurrence_is_not_exported(tmp_path, run):
    folder = saved(encoder_run("classification", folder=tmp_path / "run", **CELL))
    code, _, err = run("export", folder, "--to", "hf", tmp_path / "hf")
    assert code
    assert "BERT has no counterpart of cell='lstm'" in err
    code, _, err = run("export", folder, "--to", "onnx", tmp_path / "onnx")
    assert code
    assert "reads with cell=lstm" in err


def test_what_attends_nowhere_is_told_what_does(tmp_path, run):
    (tmp_path / "train.tsv").write_text(LABELLED)
    silent = encoder_run("classification", folder=tmp_path / "run", data=tmp_path, **CELL)
    code, _, err = run("heads", saved(silent), "--split", "train")
    assert code
    assert "no heads to measure; choose a system that attends, such as bert" in err


def test_only_weights_between_all_tokens_limit_a_look(monkeypatch):
    monkeypatch.setattr(limits, "MOST_WEIGHTS", 4)
    long = "a b c d e f"
    pools = {"pooling": "attention", **CELL}
    assert encoder_run("classification", **pools).explain(long).weights(POOL).shape[-1] == 8
    with pytest.raises(DataError, match="weights of 6 heads between all tokens: 0 tokens can"):
        encoder_run("classification").explain(long)
