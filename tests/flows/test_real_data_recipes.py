"""The recipes of real data from packed files to scores, on letters in their stead."""

import gzip
import json

import pytest
from letters import pairs
from summaries import documents

from regard.cli.main import main

SMALL = "d_model=16 n_heads=2 d_ff=32 n_layers=1 max_steps=4 warmup_steps=2 vocab_size=300".split()
SMALL += ["batch_tokens=200", "eval_every=2", "save_every=2"]


def trained(recipe, out, capsys, *settings):
    flags = [word for one in (*SMALL, *settings) for word in ("--set", one)]
    assert main(["train", recipe, "--out", str(out), *flags]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(out), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("direction", ["en-de", "de-en", "en-fr"])
def test_parallel_files_in_a_folder(direction, tmp_path, capsys):
    for split, n in {"train": 60, "val": 9, "test_2016_flickr": 7}.items():
        sides = zip(*pairs(n, 1), strict=True)
        for side, lines in zip(direction.split("-"), sides, strict=True):
            text = "".join(f"{line}\n" for line in lines).encode()
            (tmp_path / f"{split}.{side}.gz").write_bytes(gzip.compress(text))
    settings = (f"folder={tmp_path}", "beam=2")
    scores = trained(f"multi30k-{direction}", tmp_path / "run", capsys, *settings)
    assert (scores["split"], scores["n"]) == ("test", 7)
    assert "bleu_lc" in scores


@pytest.mark.parametrize(("recipe", "file"), [("en-fr", "fra.txt"), ("de-en", "deu.txt")])
def test_one_table_in_a_folder(recipe, file, tmp_path, capsys):
    lines = "".join(f"{source}\t{target}\tby nobody\n" for source, target in pairs(200, 1))
    (tmp_path / f"{file}.gz").write_bytes(gzip.compress(lines.encode()))
    settings = (f"folder={tmp_path}", "hold_out=20", "beam=2")
    scores = trained(f"tatoeba-{recipe}", tmp_path / "run", capsys, *settings)
    assert scores["split"] == "test"
    assert 18 <= scores["n"] <= 20


def test_a_table_to_learn_from_and_csv_to_be_scored_on(tmp_path, capsys):
    """AG News: the title of a text is part of it, and stands in a column of its own only in CSV."""
    rows = [(1 + i % 4, *pair) for i, pair in enumerate(pairs(80, 1))]
    table = "".join(f"{label}\t{title} . {text}\n" for label, title, text in rows)
    (tmp_path / "train19k.tsv.gz").write_bytes(gzip.compress(table.encode()))
    records = "".join(f'"{label}","{title}, too","{text}"\n' for label, title, text in rows[:9])
    (tmp_path / "test.csv.gz").write_bytes(gzip.compress(records.encode()))
    scores = trained("agnews", tmp_path / "run", capsys, f"folder={tmp_path}")
    assert (scores["split"], scores["n"]) == ("test", 9)
    assert 0 <= scores["accuracy"] <= 1


def asked(document, summary):
    """A question and its answer, as SQuALITY has them."""
    return {"question_text": f"what {document[0]}?", "responses": [{"response_text": summary}] * 2}


def query(document, summary):
    return {"query": f"what {document[0]}?", "answer": summary}


LAYOUTS = {
    "aeslc": lambda d, s: {"body": d, "subjects": [s, "e f"]},
    "scitldr": lambda d, s: {"source": d.split(), "target": [s, "e f"]},
    "ectsum": lambda d, s: {"document": d.split(), "summary": s.split()},
    "scisummnet": lambda d, s: {
        "title": d[0],
        "sections": [{"title": d[0], "sentences": [d]}],
        "human_summary": [s],
    },
    "squality": lambda d, s: {"document": d, "questions": [asked(d, s)]},
    "qmsum": lambda d, s: {
        "meeting_transcripts": [{"speaker": "A", "content": d}],
        "general_query_list": [query(d, s)],
        "specific_query_list": [],
    },
}


@pytest.mark.parametrize("recipe", LAYOUTS)
def test_documents_with_the_keys_of_public_sets(recipe, tmp_path, capsys):
    before = "SciTLDR-A." if recipe == "scitldr" else ""
    for split, n in {"train": 50, "dev": 6, "test": 5}.items():
        rows = (LAYOUTS[recipe](*one) for one in documents(n, seed=n))
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (tmp_path / f"{before}{split}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    settings = (f"folder={tmp_path}", "beam=2", "model.max_len=40", "decode.max_len=9")
    scores = trained(recipe, tmp_path / "run", capsys, *settings)
    scored_on_test = recipe in ("aeslc", "scitldr")
    assert (scores["split"], scores["n"]) == ("test", 5 if scored_on_test else 6)
    assert {"rouge1", "rouge2", "rouge_l", "log_perplexity"} < {*scores}
    assert ("rouge_l_multi" in scores) == scored_on_test
