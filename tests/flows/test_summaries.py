"""From documents to summaries: train, summarize, evaluate, explain; and resuming."""

import json

import pytest
import summaries
import yaml

from regard.data.worlds import documents as documents_world


@pytest.mark.parametrize("preset", ["transformer", "luong2015"])
def test_documents_to_scores(preset, say, tmp_path):
    model = {"preset": preset, "d_model": 16, "n_layers": 1, "max_len": 24}
    recipe = summaries.settings(tmp_path)
    recipe["model"] = model | ({"n_heads": 2, "d_ff": 32} if preset == "transformer" else {})
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(recipe))
    run = tmp_path / "run"
    code, out, err = say("train", tmp_path / "mine.yaml", "--out", run)
    assert code == 0, err
    assert "ROUGE-L" in out
    assert (run / "report.html").exists()
    code, out, _ = say("summarize", run, lines="a b c\nh g\n")
    assert (code, out.count("\n")) == (0, 2)
    code, out, _ = say("evaluate", run, "--json")
    assert (code, json.loads(out)["n"]) == (0, 9)
    code, out, _ = say("explain", run, "a b c", "--format", "json")
    assert (code, json.loads(out)["source_tokens"]) == (0, ["a", "b", "c", "</s>"])
    assert say("train", tmp_path / "mine.yaml", "--out", run, "--resume")[0] == 0


def test_the_built_in_world(say, tmp_path, monkeypatch):
    monkeypatch.setattr(documents_world, "_n_test", lambda length: 5)
    run, small = tmp_path / "run", "d_model=16 n_heads=2 d_ff=32 n_layers=1 max_steps=3".split()
    small += ["document_length=130", "n_train=20", "model.max_len=140", "batch_tokens=600"]
    flags = [word for one in small for word in ("--set", one)]
    code, _, err = say("train", "documents-500", "--out", run, *flags)
    assert code == 0, err
    scores = json.loads(say("evaluate", run, "--json")[1])
    assert {"facts", "one_hop_facts", "two_hop_facts", "fact_attention_by"} <= {*scores}
    assert "attention on the sentences of a fact" in say("evaluate", run)[1]
