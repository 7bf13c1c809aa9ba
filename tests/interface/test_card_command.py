"""``regard card``: a model card that says what the run folder says, and nothing else."""

import json
import re
import shutil

import pytest
import yaml
from text_runs import short_run


def parted(text):
    """A card as its YAML and its Markdown."""
    empty, head, body = text.split("---\n", 2)
    assert empty == ""
    return yaml.safe_load(head), body


def numbers_in(value):
    """All numbers of a JSON value."""
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return [number for one in inside for number in numbers_in(one)]
    return [value] if type(value) in (int, float) else []


@pytest.fixture
def kept(run_path, tmp_path):
    return shutil.copytree(run_path, tmp_path / "kept")


def section(body, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", body, re.M | re.S)[1]


def test_the_front_matter_is_what_hubs_read(run, kept):
    code, out, err = run("card", kept)
    assert (code, err) == (0, "")
    head, body = parted(out)
    assert head["language"] == ["ab", "ba"]
    assert head["license"] == "unknown"
    assert head["tags"] == ["regard", "translation", "transformer"]
    assert head["pipeline_tag"] == "translation"
    assert "datasets" not in head
    told = json.loads((kept / "scores.json").read_text())["scores"]
    (entry,) = head["model-index"]
    assert [one["dataset"]["split"] for one in entry["results"]] == list(told)
    for one in entry["results"]:
        scores = told[one["dataset"]["split"]]
        found = {metric["type"]: metric for metric in one["metrics"]}
        assert found["bleu"]["value"] == scores["bleu"]
        assert found["bleu"]["args"] == {"signature": scores["bleu_signature"]}
        assert {name: metric["value"] for name, metric in found.items()}.items() <= scores.items()
        assert {*found} <= {*head["metrics"]}
        assert one["dataset"]["name"].startswith("test")  # the file's name: it is no world
        assert "unknown" not in one["dataset"].values()
    assert f"# `{kept.name}`" in body


def test_every_number_of_scores_and_cost_stands_in_the_folder(run, kept):
    facts = json.loads((kept / "scores.json").read_text())
    known = numbers_in(facts)
    written = {f"{number:.4g}" for number in known} | {str(number) for number in known}
    _, body = parted(run("card", kept)[1])
    rows = [line.split(" | ") for line in section(body, "Scores").splitlines()[3:]]
    rows = [row for row in rows if len(row) == 5]
    assert len(rows) == sum(
        type(x) in (int, float) and name != "n"
        for one in facts["scores"].values()
        for name, x in one.items()
    )
    for row in rows:
        assert row[1] in written
        assert row[3] in written
    costs = dict(re.findall(r"^- (.*?): ([\d,.e+]+)$", section(body, "Cost"), re.M))
    measured = facts["measured"]
    assert costs["training FLOPs"] == f"{measured['flops']:.3g}"
    assert costs["parameters"].replace(",", "") == str(measured["parameters"])
    assert costs["training seconds"] == f"{measured['seconds']:,.1f}"
    assert f"- hardware: `{measured['hardware']}`" in section(body, "Cost")


def test_a_file_a_licence_and_data_sets_are_the_users_word(run, kept, tmp_path):
    out = tmp_path / "README.md"
    words = ("--out", out, "--license", "mit", "--dataset", "a/b", "--dataset", "c")
    assert run("card", kept, *words) == (0, "", "")
    head, body = parted(out.read_text())
    assert (head["license"], head["datasets"]) == ("mit", ["a/b", "c"])
    assert "regard translate RUN" in section(body, "How to use")
    assert "and no others" in section(body, "Limits")
    names = section(body, "Data")
    assert "`train.src` and `train.tgt`" in names
    assert str(tmp_path) not in out.read_text()
    assert "corpus" not in names  # no folders of this machine


def test_a_run_that_was_never_scored_claims_nothing(run, kept):
    (kept / "scores.json").unlink()
    head, body = parted(run("card", kept)[1])
    assert not {"metrics", "model-index"} & {*head}
    assert "nothing was measured" in section(body, "Scores")
    assert "- training: unknown" in section(body, "Cost")


def test_names_of_strangers_are_shown_and_do_nothing(run, kept, tmp_path):
    evil = "a`b <script>alert(1)</script> [x](http:y) | z"
    settings = yaml.safe_load((kept / "config.yaml").read_text())
    settings["data"]["test"] = [f"{evil}\n# Title", "b"]
    (kept / "config.yaml").write_text(yaml.safe_dump(settings))
    told = json.loads((kept / "scores.json").read_text())
    told["scores"]["test"] = {evil: 0.5, **told["scores"]["test"]}
    told["scores"][f"{evil}\n---\nlicense: mit"] = told["scores"]["test"]
    (kept / "scores.json").write_text(json.dumps(told))
    head, body = parted(run("card", kept)[1])
    assert head["license"] == "unknown"
    assert head["model-index"][0]["results"][-1]["dataset"]["split"].startswith(evil)
    assert "# Title" not in [line.strip() for line in body.splitlines()]
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", body)
    assert "<script>" in body
    assert "<script>" not in outside
    assert "](http" not in outside
    for row in section(body, "Scores").splitlines()[1:]:
        columns = len(re.findall(r"(?<!\\)\|", row))
        assert columns in (0, 5, 6)


def test_a_run_of_another_task_has_its_own_words(run, tmp_path):
    path = short_run("classification", tmp_path)
    head, body = parted(run("card", path)[1])
    assert head["pipeline_tag"] == "text-classification"
    assert "language" not in head  # nobody told it
    assert "regard classify RUN" in body
    assert "labels, and no others" in section(body, "Limits")


def test_a_folder_that_is_no_run_is_told_in_one_line(refused, tmp_path):
    assert "there is no run folder" in refused("card", tmp_path / "none")


def test_scores_that_are_no_scores_are_told_as_damage(refused, kept):
    (kept / "scores.json").write_text('{"scores": {"test": 5}, "measured": {"flops": "much"}}')
    assert "scores.json is damaged" in refused("card", kept)


def test_where_the_run_lies_is_not_guessed(run, kept, tmp_path):
    assert run("card", kept, "--out", tmp_path / "card.md") == (0, "", "")
    body = parted((tmp_path / "card.md").read_text())[1]
    assert "RUN is the path of the run folder." in section(body, "How to use")


def test_a_folder_for_transformers_has_a_card_of_its_own(run, kept, tmp_path):
    assert run("export", kept, tmp_path / "hf", "--to", "hf")[0] == 0
    head, body = parted((tmp_path / "hf" / "README.md").read_text())
    assert (head["library_name"], head["pipeline_tag"]) == ("transformers", "translation")
    used = section(body, "How to use")
    assert "from transformers import AutoTokenizer, MarianMTModel" in used
    assert "regard" not in used
    whole = parted(run("card", kept)[1])[1]
    assert section(body, "Scores") == section(whole, "Scores")
