"""What the site is made of: figures of claims as they stand, sections from folders, equations."""

import importlib.util
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard import lab
from regard.cli.main import main

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "docs/figures/lab").glob("*.json"))


def hook(name):
    pytest.importorskip(
        "mkdocs", reason="the site's tools are not installed; `make docs` gets them"
    )
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/hooks/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_verdict_on_the_site_is_about_the_claim_as_it_stands(path):
    facts = json.loads(path.read_text(encoding="utf-8"))
    again = f"`python docs/figures.py {path.stem}` measures it anew"
    assert facts["claim"] == lab.claim(path.stem), again


def test_every_claim_was_measured_for_the_site():
    assert {path.stem for path in RESULTS} == set(lab.NAMES)


def test_every_lecture_has_a_page_with_verdicts_samples_and_figures():
    pages = [one for one in (ROOT / "docs/lectures").glob("*.md") if one.stem != "index"]
    assert len(pages) == 5
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert len(re.findall(r"<!-- lab: \w+ -->", text)) >= 4
        assert re.search(r"^```(sh|python)$", text, flags=re.MULTILINE)


def test_a_folder_in_the_navigation_stands_for_its_pages(tmp_path):
    (tmp_path / "how-to").mkdir()
    for name in ("web.md", "cook.md", "notes.txt"):
        (tmp_path / "how-to" / name).touch()
    expanded = hook("pages")._expanded
    assert expanded({"How-to": "how-to/*"}, tmp_path) == {
        "How-to": ["how-to/cook.md", "how-to/web.md"]
    }
    assert expanded({"Start": "index.md"}, tmp_path) == {"Start": "index.md"}


def test_a_section_without_pages_is_left_out_and_that_is_said_but_no_warning(tmp_path, caplog):
    config = SimpleNamespace(docs_dir=tmp_path, nav=[{"Notebooks": "notebooks/*"}, {"A": "a.md"}])
    with caplog.at_level("INFO", logger="mkdocs"):
        assert hook("pages").on_config(config).nav == [{"A": "a.md"}]
    (told,) = caplog.records
    assert told.levelname == "INFO"
    assert "Notebooks is left out" in told.message
    assert "`make notebooks`" in told.message


def test_links_of_the_repository_lead_to_pages_of_the_site():
    pages = hook("pages")

    def relinked(text, home):
        return pages._LINK.sub(lambda link: pages._relinked(link, home), text)

    assert relinked("[a](docs/NAMING.md#x)", "") == "[a](NAMING.md#x)"
    assert relinked("[b](../CHANGELOG.md)", "benchmarks") == "[b](changes.md)"
    assert relinked("[c](examples/plugin)", "") == "c"
    assert relinked("[d](https://x.org)", "") == "[d](https://x.org)"


def test_equations_become_mathml():
    block = r'<div class="arithmatex">\[\frac{a}{b} &lt; 1\]</div>'
    made = hook("equations").on_page_content(block + r'<span class="arithmatex">\(x_i\)</span>')
    assert made.count("<math") == 2
    assert "<mfrac>" in made
    assert "arithmatex" not in made


def test_the_reference_names_every_command_and_setting(capsys):
    reference = hook("reference")
    told = reference.command_line()
    assert main(["--help"]) == 0
    for verb in re.findall(r"^│ ([a-z]+) ", capsys.readouterr().out, flags=re.MULTILINE):
        assert f"## regard {verb}\n" in told
    assert "`--beam" in told.partition("## regard translate\n")[2].partition("\n## ")[0]
    settings = reference.settings()
    assert all(f"| `{name}` |" in settings for name in ("max_steps", "vocab_size", "n_heads"))


def test_the_reference_tells_numbers_and_lists_as_people_write_them():
    kind = hook("reference")._kind
    assert kind({"type": "integer", "minimum": 1.0, "maximum": 4096.0}) == "integer, ≥ 1, ≤ 4,096"
    assert kind({"type": "integer", "minimum": 0, "exclusiveMaximum": 2**63}) == "integer, ≥ 0"
    assert kind({"type": "number", "minimum": 0.01}) == "number, ≥ 0.01"
    choices = [{"$ref": "#/x/Ablate"}, {"$ref": "#/x/Swap"}]
    assert kind({"type": "array", "items": {"oneOf": choices}}) == "list of Ablate or Swap"


def test_the_reference_shows_requests_answers_and_what_their_fields_hold(monkeypatch, capsys):
    reference = hook("reference")
    small = ("n_layers=1", "d_model=16", "d_ff=32", "n_heads=2")
    asked = reference.SERVED["gpt with a chat template"]
    asked = asked._replace(changes=(*asked.changes, *small))
    monkeypatch.setattr(reference, "SERVED", {"gpt": asked})
    told = reference.http()
    chat = told.partition("## POST /v1/chat/completions\n")[2].partition("\n## ")[0]
    assert "| `messages` | list of Turn |" in chat
    assert '-d \'{"model": "demo"' in chat
    answer = json.loads(re.search(r"```json\n(.*?)```", chat, re.DOTALL)[1])
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["role"] == "assistant"
    for name in ("Turn", "StepsChoice", "LayerChoice", "Ablate"):
        assert f"\n### {name}\n" in told
    assert capsys.readouterr() == ("", "")


def test_a_claim_that_was_never_measured_cannot_be_shown(monkeypatch, tmp_path):
    shown = hook("lab")
    text = shown._result(re.match(r"<!-- lab: (\w+) -->", "<!-- lab: rows -->"), "lectures/x.md")
    assert lab.claim("rows") in text
    assert "../figures/lab/rows.svg" in text
    monkeypatch.setattr(shown, "RESULTS", tmp_path)
    with pytest.raises(Exception, match="make figures"):
        shown._result(re.match(r"<!-- lab: (\w+) -->", "<!-- lab: rows -->"), "lectures/x.md")


def test_examples_in_docstrings_stand_in_fences():
    fenced = hook("doctests").fenced("Words.\n\n>>> 1 + 1\n2\n")
    assert fenced.rstrip() == "Words.\n\n```pycon\n>>> 1 + 1\n2\n```"


def test_every_figure_of_the_site_has_dark_colours_too():
    figures = [*(ROOT / "docs/figures").rglob("*.svg")]
    assert figures
    assert [one.name for one in figures if "prefers-color-scheme" not in one.read_text()] == []


def test_a_verdict_stands_apart_from_its_claim():
    shown = hook("lab")
    text = shown._result(re.match(r"<!-- lab: (\w+) -->", "<!-- lab: pronoun -->"), "lectures/x.md")
    assert re.match(r'!!! \w+ "(Holds|Does not hold)"\n', text)
    assert f"**Claim:** {lab.claim('pronoun')}" in text  # its quotes are as they were


def test_empty_cells_of_tables_are_told_and_logs_are_not_searched():
    pages = hook("pages")
    assert pages.filled("| a | | 3 | |\n|---|---|---|---|\nx | | y") == (
        "| a | – | 3 | – |\n|---|---|---|---|\nx | | y"
    )
    found = {}
    for name in ("changes.md", "tutorials/own-text.md", "index.md"):
        page = SimpleNamespace(file=SimpleNamespace(src_uri=name), meta={})
        assert pages.on_page_markdown("text", page) == "text"
        found[name] = page.meta.get("search")
    assert [*found.values()] == [{"exclude": True}, {"boost": 2}, None]


def test_settings_of_models_name_their_values_and_none_that_the_data_sets():
    told = hook("reference").settings()
    family = told.partition("### Family transformer\n")[2].partition("\n### ")[0]
    assert "`sinusoidal` or `learned`" in family
    assert "`pad_id`" not in told
    assert "[transformer](#family-transformer)" in told.partition("## model\n")[2]
    assert "`translation`, `summarization`" in told.partition("## task\n")[2][:200]


def test_the_glossary_explains_at_least_25_words():
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^(\S.*)\n: ", text, flags=re.MULTILINE)
    assert len(terms) >= 25
    assert terms == sorted(terms, key=str.lower)
